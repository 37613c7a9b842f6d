"""`gradcheck validate`."""

from __future__ import annotations

import os
import sys

import click

from gradcheck_cli.cli.streams import color_option, prepare_streams, style_for, talk
from gradcheck_cli.cli.words import counted, skipped_words


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
@color_option
@click.option("-q", "--quiet", is_flag=True, envvar="GRADCHECK_QUIET", help="Show only mistakes.")
def command(paths: tuple[str, ...], color: str | None, quiet: bool) -> int:
    """Read specs and their formulas without running them; no framework is imported.

    Without PATH: all specs in and below the working folder. Exit codes: 0 no mistakes, 2 a mistake
    in a spec, 5 there was no spec.
    """
    from rich.text import Text

    from gradcheck_cli import specfile
    from gradcheck_cli.cli.exits import NOTHING_CHECKED, PASSED, USAGE
    from gradcheck_cli.report.blocks import error_block
    from gradcheck_cli.report.console import print_lines

    prepare_streams()
    style = style_for(sys.stdout, color)
    paths = paths or (os.curdir,)
    files, errors, skipped = specfile.expand(paths)
    mistakes = list(errors)
    for file in files:
        specs, found = specfile.read(file)
        mistakes += found
        if specs and not found and not quiet:
            names = ", ".join(spec.name for spec in specs)
            line = Text().append("ok    ", style="bold green").append(f"{file}  {names}")
            print_lines(sys.stdout, style, [line])
    if skipped and not quiet:
        talk(skipped_words(skipped))
    for mistake in mistakes:
        print_lines(sys.stdout, style, [*error_block(mistake, style), Text()])
    if mistakes:
        talk(f"{counted(len(mistakes), 'mistake')} in {counted(_places(mistakes), 'file')}")
        return USAGE
    if not files:
        talk(f"nothing was checked: no spec in {', '.join(paths)}")
        return NOTHING_CHECKED
    return PASSED


def _places(mistakes: list) -> int:  # type: ignore[type-arg]
    return len({mistake.path for mistake in mistakes})
