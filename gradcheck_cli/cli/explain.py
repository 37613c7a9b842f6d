"""`gradcheck explain`."""

from __future__ import annotations

import sys

import click

from gradcheck_cli.cli.streams import color_option, prepare_streams, style_for, width
from gradcheck_cli.cli.words import completed, did_you_mean
from gradcheck_cli.domain.codes import CODES, Code
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.report.pages import page


@click.command()
@click.argument(
    "codes",
    nargs=-1,
    metavar="[CODE|NAME]...",
    shell_complete=lambda context, parameter, begun: completed(begun, CODES),
)
@click.option("--all", "everything", is_flag=True, help="Show the pages of all codes.")
@color_option
def command(codes: tuple[str, ...], everything: bool, color: str | None) -> None:
    """Show what a finding code means, why it matters and what to write instead.

    CODE is a code (GC201) or its name (nan-gradient). Without a code, all codes are listed.
    """
    prepare_streams()
    rows = list(CODES.values()) if everything else [find(word) for word in codes]
    if rows:
        _show("\n\n".join(page(row).strip() for row in rows) + "\n", color)
        return
    for row in CODES.values():
        click.echo(f"{row.code}  {row.name:<26}{row.severity:<9}{row.summary}")


def find(word: str) -> Code:
    """The code with this number or name. Raises UsageError if there is none."""
    by_name = {row.name: row for row in CODES.values()}
    row = CODES.get(word.upper()) or by_name.get(word.lower())
    if row is None:
        hint = did_you_mean(word, [*CODES, *by_name])
        raise UsageError(
            f"there is no finding code `{word}`.{hint}", "`gradcheck explain` lists all of them"
        )
    return row


def _show(text: str, color: str | None) -> None:
    style = style_for(sys.stdout, color)
    if not style.color:
        sys.stdout.write(text)
        return
    from rich.markdown import Markdown

    from gradcheck_cli.report.console import make_console

    console = make_console(sys.stdout, style)
    console.print(Markdown(text), width=min(width(sys.stdout), 100))
