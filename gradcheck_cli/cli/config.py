"""`gradcheck config`."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from gradcheck_cli.cli.configuration import configuration_file, load_configuration, shown_path
from gradcheck_cli.cli.settings import PREFIX, SETTINGS, Settings, SettingsCommand, options_of
from gradcheck_cli.cli.streams import prepare_streams, style_for
from gradcheck_cli.domain.synonyms import nearest


@click.command(cls=SettingsCommand)
@options_of()
@click.pass_context
def command(context: click.Context, /, **_: Any) -> None:
    """Show which settings differ from their defaults, and what sets them.

    Takes the settings of `gradcheck run`, and reads the same environment variables and the same
    table [tool.gradcheck] in pyproject.toml. Keys of a spec override that table.
    """
    from gradcheck_cli.report.console import print_lines
    from gradcheck_cli.report.table import table_lines

    prepare_streams()
    path = configuration_file()
    file = shown_path(path) if path else ""
    settings = Settings(context, load_configuration())
    rows = [
        (setting.name, _word(value), place or file) for setting, value, place in settings.changed()
    ]
    style = style_for(sys.stdout, settings.value("color"))
    if rows:
        print_lines(
            sys.stdout, style, table_lines(("setting", "value", "set by"), rows, style, wrap=(1,))
        )
    click.echo(f"all {'other ' if rows else ''}settings have their defaults (gradcheck run --help)")
    if not file:
        click.echo("no pyproject.toml was found in this folder or above it")
    elif all(place != file for *_, place in rows):
        click.echo(f"{file} has no settings of gradcheck that apply")
    known = {name.removeprefix(PREFIX) for setting in SETTINGS for name in setting.variables}
    for name in sorted(name for name in os.environ if name.startswith(PREFIX)):
        word = name.removeprefix(PREFIX)
        if word not in known and (meant := nearest(word, known)):
            click.echo(f"the variable {name} sets nothing. Did you mean `{PREFIX}{meant}`?")


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
