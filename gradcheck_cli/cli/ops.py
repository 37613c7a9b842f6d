"""`gradcheck ops`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gradcheck_cli.cli.streams import color_option, prepare_streams, style_for
from gradcheck_cli.cli.words import did_you_mean
from gradcheck_cli.domain.errors import UsageError

if TYPE_CHECKING:
    from reference_engine.op import Op


@click.command()
@click.argument("words", nargs=-1, metavar="[NAME|WORD]...")
@color_option
def command(words: tuple[str, ...], color: str | None) -> None:
    """List the operations of the formula language: value, derivative, domain.

    The name or alias of an operation shows its whole row; any other word lists the rows that
    contain it.
    """
    from gradcheck_cli.report.console import make_console, print_lines
    from gradcheck_cli.report.ops import list_lines, page_lines
    from reference_engine.op import TABLE, find

    prepare_streams()
    style = style_for(sys.stdout, color)
    console = make_console(sys.stdout, style)
    if not words:
        print_lines(console, list_lines(TABLE.values(), style))
    for word in words:
        op = find(word)
        lines = page_lines(op, style) if op else list_lines(_containing(word), style)
        print_lines(console, lines)


def _containing(word: str) -> list[Op]:
    """The rows that speak of `word`; raises UsageError where none does."""
    from reference_engine.op import TABLE

    wanted = word.lower()
    found = [
        op
        for op in TABLE.values()
        if any(wanted in text.lower() for text in (op.name, *op.aliases, op.family, op.formula))
    ]
    if not found:
        names = [name for op in TABLE.values() for name in (op.name, *op.aliases)]
        hint = did_you_mean(word, names)
        raise UsageError(
            f"no operation is called `{word}`, and none mentions it.{hint}",
            "`gradcheck ops` lists all of them",
        )
    return found
