"""The table of operations, as a list, as the page of one row, and as a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from gradcheck_cli.report.style import LABEL, Style, labelled
from gradcheck_cli.report.table import table_lines

if TYPE_CHECKING:
    from reference_engine.op import Op, Point

ROUNDING = {
    "none": "none: the value is exact",
    "result": "a few units in the last place of the value",
    "sums": "that of partial sums, which may be larger than the value",
    "inputs": "as much as a few roundings of every argument do",
}
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
        ("form", op.stability),
        *((point.kind, point_text(point)) for point in op.points),
        ("rounding", ROUNDING[op.rounding]),
        ("aliases", ", ".join(op.aliases)),
        ("family", op.family),
        ("source", op.source),
    )
    return [(label, text) for label, text in rows if text]


def point_text(point: Point) -> str:
    """`x1 = x2: gradient 0.5, 0.5; tensorflow gives 1, 0`"""
    parts = [] if point.value is None else [f"value {_numbers(point.value)}"]
    if any(one is not None for one in point.gradient):
        parts.append(f"gradient {_gradient(point.gradient)}")
    else:
        parts.append("no gradient")
    for engine, gradient in point.differs.items():
        parts.append(f"{engine} gives {_gradient(gradient)}")
    if point.reason:
        parts.append(point.reason)
    return f"{point.where}: {'; '.join(parts)}"


def _gradient(gradient: Sequence[Any]) -> str:
    return ", ".join(_numbers(one) for one in gradient)


def _numbers(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_numbers(one) for one in value)}]"
    return f"{value:.6g}"


def page_lines(op: Op, style: Style) -> list[Text]:
    lines = [Text(signature(op), style=LABEL)]
    for label, text in facts(op):
        lines += labelled(label, text, style, column=12)
    return lines
