"""`gradcheck cache`."""

from __future__ import annotations

import click

from gradcheck_cli.cli.words import counted
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.folders import cache_folder_of


@click.command()
@click.argument("what", type=click.Choice(("folder", "clear")), default="folder")
def command(what: str) -> None:
    """Show where results of earlier runs are cached (folder, the default), or remove them (clear).

    A result is reused if nothing that it depends on has changed: the text of the spec, the code
    that its layers import, the settings, and the versions of installed packages. gradcheck does
    not see data that this code reads from files: `gradcheck run --no-cache` runs everything.
    """
    if what == "folder":
        click.echo(cache_folder_of("results"))
        return
    from gradcheck_cli.run.result_cache import clear

    try:
        count = clear()
    except OSError as error:
        raise UsageError(f"cannot clear {cache_folder_of('results')}: {error.strerror}") from error
    click.echo(f"removed {counted(count, 'file')} of results")
