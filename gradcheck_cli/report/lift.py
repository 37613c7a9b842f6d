"""Which framework operations can be lifted to the op table: `gradcheck ops --lift`."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from gradcheck_cli.engines.trace.kernel_rows import MOVES
from gradcheck_cli.report.style import LABEL, Style
from gradcheck_cli.report.table import table_lines


def lift_lines(framework: str, stated: Mapping[str, str], style: Style) -> list[Text]:
    """One line an operation with its rows; those that only move numbers stand last, in one."""
    moves = [name for name, rows in stated.items() if rows == MOVES]
    rows = [(name, rows) for name, rows in stated.items() if rows != MOVES]
    if moves:
        rows.append((MOVES, ", ".join(moves)))
    table = table_lines(("operation", "rows"), rows, style, indent=2, wrap=(1,))
    return [Text(f"{framework} ({len(stated)})", style=LABEL), *table]
