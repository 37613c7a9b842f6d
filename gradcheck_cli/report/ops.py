"""The table of operations: as a list, as the page of one row, and as a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from rich.text import Text

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.trace.kernel_rows import MOVES
from gradcheck_cli.formula.calls import usage
from gradcheck_cli.report.style import LABEL, Style, labelled
from gradcheck_cli.report.table import table_lines
from reference_engine.op import Op, Point, Several

Entry = TypeVar("Entry", Op, Several, Op | Several)

ROUNDING = {
    "none": "none: the value is exact",
    "result": "a few units in the last place of the value",
    "sums": "that of partial sums, which may be larger than the value",
    "inputs": "as much as a few roundings of every argument do",
}
HEADER = ("operation", "value", "derivative", "domain", "engines")


@dataclass(frozen=True, slots=True)
class Support:
    """The rows that an engine has, why it lacks others, and the limitations of some."""

    has: frozenset[str]
    remarks: Mapping[str, str]


def families(ops: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Rows by family, both in alphabetical order."""
    by_family: dict[str, list[Entry]] = {}
    for op in sorted(ops, key=lambda op: (op.family, op.name)):
        by_family.setdefault(op.family, []).append(op)
    return by_family


def summary(op: Op | Several, engines: Mapping[str, Support]) -> tuple[str, str, str, str, str]:
    if isinstance(op, Several):
        return usage(op), op.formula, f"of each: {', '.join(op.results)}", "", ""
    return usage(op), op.formula, op.derivative, op.domain, having(op, engines)


def having(op: Op, engines: Mapping[str, Support]) -> str:
    """The engines that have a row, or the few that lack it."""
    names = [name for name, support in engines.items() if op.name in support.has]
    others = [name for name in engines if name not in names]
    if not others:
        return "all"
    return f"all but {', '.join(others)}" if len(others) < len(names) else ", ".join(names)


def list_lines(
    ops: Iterable[Op | Several], engines: Mapping[str, Support], style: Style
) -> list[Text]:
    """Every row in one line, family by family."""
    lines: list[Text] = []
    for family, members in families(ops).items():
        lines += [Text(), Text(family, style=LABEL)] if lines else [Text(family, style=LABEL)]
        rows = [summary(op, engines) for op in members]
        lines += table_lines(HEADER, rows, style, indent=2, wrap=range(len(HEADER)))
    return lines


def facts(op: Op | Several, engines: Mapping[str, Support]) -> Sequence[tuple[str, str]]:
    """The facts about a row in the order of its page, without those that it lacks."""
    if isinstance(op, Several):
        results = ", ".join(op.results)
        rows: tuple[tuple[str, str], ...] = (
            ("value", op.formula),
            ("results", f"{results}: {results} = {usage(op)}"),
            ("aliases", ", ".join(op.aliases)),
            ("family", op.family),
        )
        return [(label, text) for label, text in rows if text]
    rows = (
        ("value", op.formula),
        ("derivative", op.derivative if op.differentiable else "none, by declaration"),
        ("domain", op.domain),
        ("form", op.stability),
        *((point.kind, point_text(point)) for point in op.points),
        ("rounding", ROUNDING[op.rounding]),
        ("aliases", ", ".join(op.aliases)),
        ("family", op.family),
        ("engines", having(op, engines)),
        *(
            (name, f"{'' if op.name in support.has else 'none: '}{support.remarks[op.name]}")
            for name, support in engines.items()
            if op.name in support.remarks
        ),
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
    if point.raises:
        parts.append(f"{' and '.join(point.raises)} raise an error")
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


def page_lines(op: Op | Several, engines: Mapping[str, Support], style: Style) -> list[Text]:
    lines = [Text(usage(op), style=LABEL)]
    for label, text in facts(op, engines):
        lines += labelled(label, text, style, column=12)
    return lines


def lift_lines(framework: str, stated: Mapping[str, str], style: Style) -> list[Text]:
    """One line for each operation with its rows. Operations that only move numbers share the last
    line."""
    moves = [name for name, rows in stated.items() if rows == MOVES]
    rows = [(name, rows) for name, rows in stated.items() if rows != MOVES]
    if moves:
        rows.append((MOVES, ", ".join(moves)))
    table = table_lines(("operation", "rows"), rows, style, indent=2, wrap=(1,))
    return [Text(f"{framework} ({len(stated)})", style=LABEL), *table]
