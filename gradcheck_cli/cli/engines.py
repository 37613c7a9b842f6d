"""`gradcheck engines`."""

from __future__ import annotations

import sys

import click

from gradcheck_cli.cli.streams import color_option, prepare_streams, style_for


@click.command()
@color_option
def command(color: str | None) -> None:
    """List the engines: their versions, what they can do, and how to install what is missing."""
    from rich.text import Text

    from gradcheck_cli.engines.registry import engines
    from gradcheck_cli.report.console import make_console, print_lines
    from gradcheck_cli.report.table import table_lines

    prepare_streams()
    style = style_for(sys.stdout, color)
    console = make_console(sys.stdout, style)
    rows, missing = [], []
    for found in engines().values():
        if found.engine is None:
            missing.append(Text(f"{found.name} cannot be used: {found.fault}"))
            continue
        can = found.engine.capabilities
        rows.append(
            [
                found.name,
                found.version or "not installed",
                ", ".join(can.modes),
                ", ".join(can.dtypes),
                ", ".join(str(order) for order in can.orders),
            ]
        )
        if not found.installed:
            missing.append(Text(f"{found.name} is not installed: {found.install}"))
    header = ["engine", "version", "modes", "dtypes", "orders"]
    print_lines(console, table_lines(header, rows, style))
    if missing:
        print_lines(console, [Text(), *missing])
