"""`gradcheck ops`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gradcheck_cli.cli.streams import color_option, prepare_streams, style_for, talk
from gradcheck_cli.cli.words import completed, did_you_mean
from gradcheck_cli.domain.errors import UsageError

if TYPE_CHECKING:
    from gradcheck_cli.report.ops import Support
    from reference_engine.op import Op, Several


@click.command()
@click.argument(
    "words",
    nargs=-1,
    metavar="[NAME|WORD]...",
    shell_complete=lambda context, parameter, begun: completed(begun, _names()),
)
@click.option(
    "--lift",
    is_flag=True,
    help="List the framework operations that can be lifted from layers.",
)
@color_option
def command(words: tuple[str, ...], lift: bool, color: str | None) -> None:
    """List the operations of the formula language: value, derivative, domain, engines.

    The name or alias of an operation shows its whole row; any other word lists the rows that
    contain it. With --lift, a word lists the framework operations that contain it or are lifted to
    a row that does.
    """
    from gradcheck_cli.report.console import print_lines
    from gradcheck_cli.report.ops import lift_lines, list_lines, page_lines
    from reference_engine.op import find, find_several

    prepare_streams()
    style = style_for(sys.stdout, color)
    if lift:
        for framework, stated in _restated_operations(words).items():
            print_lines(sys.stdout, style, lift_lines(framework, stated, style))
        return
    engines = supports()
    if not words:
        print_lines(sys.stdout, style, list_lines(_all_operations(), engines, style))
    for word in words:
        op = find(word) or find_several(word)
        if op is not None:
            print_lines(sys.stdout, style, page_lines(op, engines, style))
        else:
            print_lines(sys.stdout, style, list_lines(_containing(word), engines, style))


def supports() -> dict[str, Support]:
    """The operations of each registered engine of formulas, without importing any framework."""
    from gradcheck_cli.engines.registry import engines
    from gradcheck_cli.report.ops import Support

    told: dict[str, Support] = {}
    for name, entry in engines().items():
        if entry.engine is None:
            continue
        try:
            support = Support(entry.engine.operations(), entry.engine.remarks())
        except Exception as error:  # a plug-in's error must not hide other engines
            from gradcheck_cli.engines.tracebacks import one_line

            talk(f"the engine `{name}` does not list its operations: {one_line(error)}")
            continue
        if support.has:
            told[name] = support
    return told


def _restated_operations(words: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """By framework, the operations that have rows and match one of the words, without importing the
    framework. Raises UsageError if there is none."""
    from gradcheck_cli.engines.registry import engines
    from gradcheck_cli.engines.trace.kernel_rows import stated_in_rows

    by_framework: dict[str, dict[str, str]] = {}
    for name, one in engines().items():
        if one.engine is not None and one.engine.capabilities.kernels:
            stated = stated_in_rows(one.engine.capabilities.kernels)
            chosen = {
                op: rows
                for op, rows in stated.items()
                if not words or any(word.lower() in f"{op} {rows}".lower() for word in words)
            }
            if chosen:
                by_framework[name] = chosen
    if not by_framework:
        raise UsageError(
            f"no framework operation is called `{words[0]}` or lifted to an operation of that name",
            "`gradcheck ops --lift` lists all of them",
        )
    return by_framework


def _all_operations() -> list[Op | Several]:
    import reference_engine  # noqa: F401 - fills the table
    from reference_engine.op import SEVERAL, TABLE

    return [*TABLE.values(), *SEVERAL.values()]


def _names() -> list[str]:
    return [row.name for row in _all_operations()]


def _containing(word: str) -> list[Op | Several]:
    """The rows that contain `word`. Raises UsageError if there is none."""
    wanted = word.lower()
    rows = [
        op
        for op in _all_operations()
        if any(wanted in text.lower() for text in (op.name, *op.aliases, op.family, op.formula))
    ]
    if not rows:
        names = [name for op in _all_operations() for name in (op.name, *op.aliases)]
        hint = did_you_mean(word, names)
        raise UsageError(
            f"no operation is called `{word}` or mentions it.{hint}",
            "`gradcheck ops` lists all of them",
        )
    return rows
