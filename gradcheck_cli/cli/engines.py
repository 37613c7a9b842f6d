"""`gradcheck engines`."""

from __future__ import annotations

import json
import sys

import click

from gradcheck_cli.cli.streams import color_option, prepare_streams, style_for


@click.command()
@click.option(
    "--format",
    "written",
    type=click.Choice(("text", "json")),
    default="text",
    help="A table for people (the default), or one JSON object.",
)
@color_option
def command(written: str, color: str | None) -> None:
    """List the engines: their versions, their capabilities, and how to install missing ones.

    This imports no framework.
    """
    from gradcheck_cli.engines.registry import engines
    from gradcheck_cli.report.console import print_lines
    from gradcheck_cli.report.engines import engine_lines, engines_as_json

    prepare_streams()
    if written == "json":
        click.echo(json.dumps(engines_as_json(engines()), indent=2))
        return
    style = style_for(sys.stdout, color)
    print_lines(sys.stdout, style, engine_lines(engines(), style))
