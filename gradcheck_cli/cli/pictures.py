"""`--format` and `--output` of commands that show one picture for each spec, or text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from gradcheck_cli.cli.outputs import Output, check_targets
from gradcheck_cli.domain.errors import UsageError

if TYPE_CHECKING:
    from rich.text import Text

    from gradcheck_cli.report.style import Style


def picture_options(*forms: str) -> Callable[[Any], Any]:
    """The options `--format` (as `form`) and `--output`. A picture may be text or any of
    `forms`."""

    def options(command: Any) -> Any:
        output = click.option(
            "--output",
            type=click.Path(dir_okay=False),
            help="Write the picture to this file, as SVG if no --format is given, and print text.",
        )
        return click.option(
            "--format",
            "form",
            type=click.Choice(("text", *forms)),
            help="The form of the picture; default: text.",
        )(output(command))

    return options


def refuse_several(count: int, what: str, form: str | None, output: str | None) -> None:
    """Raise UsageError if several pictures would have to be in one file."""
    if count > 1 and (output is not None or form == "svg"):
        raise UsageError(f"{what}, but one file can hold only one picture")


def put_picture(
    lines: Sequence[Text],
    drawn: Mapping[str, Callable[[], str]],
    form: str | None,
    output: str | None,
    style: Style,
    source: str,
) -> None:
    """Print the picture, or print its `lines` and write it to the file `output`, which must not be
    `source`. `drawn` has a function for each form other than text. Raises UsageError."""
    from gradcheck_cli.report.console import print_lines

    draw = drawn.get(form or ("text" if output is None else "svg"))
    if output is None and draw is not None:
        click.echo(draw(), nl=False)
        return
    print_lines(sys.stdout, style, lines)
    if output is None:
        return
    with Output(output) as file:
        check_targets([file], [source, source.rpartition(":")[0]])  # layers.py:Net
        file.put(draw() if draw else "".join(f"{line.plain}\n" for line in lines))
