"""The table of operations, as a list, as the page of one row, and as a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from gradcheck_cli.report.style import LABEL, Style, labelled
from gradcheck_cli.report.table import table_lines

if TYPE_CHECKING:
    from reference_engine.op import Op

HEADER = ("operation", "value", "derivative", "domain")


def signature(op: Op) -> str:
    """`sum(x, axis=None, keepdims=False)`; a keyword without a default stands bare."""
    keywords = [
        name if type(default).__name__ == "_Required" else f"{name}={default!r}"
        for name, default in op.keywords.items()
    ]
    return f"{op.name}({', '.join([*op.arrays, *keywords])})"


def families(ops: Iterable[Op]) -> dict[str, list[Op]]:
    """Rows by family, both in alphabetical order."""
    found: dict[str, list[Op]] = {}
    for op in sorted(ops, key=lambda op: (op.family, op.name)):
        found.setdefault(op.family, []).append(op)
    return found


def row(op: Op) -> tuple[str, str, str, str]:
    return signature(op), op.formula, op.derivative, op.domain


def list_lines(ops: Iterable[Op], style: Style) -> list[Text]:
    """Every row in one line, family by family."""
    lines: list[Text] = []
    for family, members in families(ops).items():
        lines += [Text(), Text(family, style=LABEL)] if lines else [Text(family, style=LABEL)]
        lines += table_lines(
            HEADER, [row(op) for op in members], style, indent=2, wrap=range(len(HEADER))
        )
    return lines


def facts(op: Op) -> Sequence[tuple[str, str]]:
    """What a row says, in the order of a page; what it does not have is left out."""
    rows = (
        ("value", op.formula),
        ("derivative", op.derivative if op.differentiable else "none, by declaration"),
        ("domain", op.domain),
        ("singular", op.singular),
        ("kinks", op.kinks),
        ("rounding", "none: the value is exact" if op.exact else "the value is rounded"),
        ("aliases", ", ".join(op.aliases)),
        ("family", op.family),
        ("source", op.source),
    )
    return [(label, text) for label, text in rows if text]


def page_lines(op: Op, style: Style) -> list[Text]:
    lines = [Text(signature(op), style=LABEL)]
    for label, text in facts(op):
        lines += labelled(label, text, style, column=12)
    return lines
