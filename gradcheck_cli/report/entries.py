"""The table of wrong entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from gradcheck_cli.domain.report import Entry, Finding
from gradcheck_cli.report.groups import described
from gradcheck_cli.report.numbers import DISTINCT_DIGITS, shortest, significant, ulps, with_bar
from gradcheck_cli.report.style import DIM, LABEL, Style, plain

SHOWN_ROWS = 5
_GAP = 3


@dataclass(frozen=True, slots=True)
class _Row:
    entry: str
    computed: str
    truth: str
    difference: str
    error: str


def entry_label(finding: Finding, index: tuple[int, ...], output: str, output_axes: int) -> str:
    """`x`, `W[0,1]`, or `dy[2]/dx[1]` where the output is not a scalar."""
    name = finding.input
    if name is None:
        return output + _bracketed(index)
    if output_axes == 0 or len(index) < output_axes or "." in name:
        return name + _bracketed(index)
    split = index[:output_axes], index[output_axes:]
    return f"d{output}{_bracketed(split[0])}/d{name}{_bracketed(split[1])}"


def _bracketed(index: Sequence[int]) -> str:
    return f"[{','.join(str(part) for part in index)}]" if index else ""


def entries_table(
    group: Sequence[Finding], output: str, output_axes: int, style: Style
) -> list[Text]:
    """The worst entries of a group of findings, and how many more there are."""
    rows: dict[_Row, list[Finding]] = {}
    for finding in group:
        for entry in finding.entries:
            label = entry_label(finding, entry.index, output, output_axes)
            rows.setdefault(_row(label, entry, finding, style), []).append(finding)
    if not rows:
        return []
    shown = list(rows.items()) if style.verbose else list(rows.items())[:SHOWN_ROWS]
    more = len(rows) - len(shown) + sum(finding.more for finding in group)
    tell_apart = any(len(members) < len(group) for members in rows.values())
    header, body = _cells(group, shown, tell_apart)
    lines = _laid_out(header, body, style)
    if more:
        noun = "entry" if more == 1 else "entries"
        lines.append(Text(f"  and {more} more {noun}", style=DIM))
    return lines


def _row(label: str, entry: Entry, finding: Finding, style: Style) -> _Row:
    dtype = finding.dtype or "float64"
    digits = 17 if style.verbose else DISTINCT_DIGITS.get(dtype, 17)
    computed = "none" if entry.computed is None else shortest(entry.computed, dtype)
    truth = shortest(entry.truth) if digits == 17 and entry.truth is not None else None
    if style.verbose and truth is not None and entry.truth_error is not None:
        truth += f" {style.plus_minus} {significant(entry.truth_error, 2)}"
    return _Row(
        entry=plain(label),
        computed=computed,
        truth=truth or significant(entry.truth, digits),
        difference=with_bar(
            entry.finite_difference, entry.finite_difference_error, dtype, style.plus_minus
        ),
        error=ulps(entry.ulps),
    )


def _cells(
    group: Sequence[Finding], shown: list[tuple[_Row, list[Finding]]], tell_apart: bool
) -> tuple[list[str], list[list[str]]]:
    engines = {finding.engine for finding in group}
    computed = (group[0].engine or "computed") if len(engines) == 1 else "computed"
    sources = {finding.truth_source for finding in group}
    source = group[0].truth_source if len(sources) == 1 else None
    truth = f"truth ({source})" if source else "truth"
    header = ["entry", plain(computed), truth, "finite difference", "error"]
    body = [[row.entry, row.computed, row.truth, row.difference, row.error] for row, _ in shown]
    if tell_apart:
        header.insert(1, "by")
        for cells, (_, members) in zip(body, shown, strict=True):
            cells.insert(1, described(members))
    return header, body


def _laid_out(header: list[str], body: list[list[str]], style: Style) -> list[Text]:
    widths = [
        max(cell_len(row[column]) for row in (header, *body)) for column in range(len(header))
    ]
    if 2 + sum(widths) + _GAP * (len(widths) - 1) > style.width:
        return _stacked(header, body)
    lines = [_line(header, widths, LABEL)]
    lines += [_line(row, widths, "") for row in body]
    return lines


def _line(cells: list[str], widths: list[int], style: str) -> Text:
    padded = [
        cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)
    ]
    return Text("  " + (" " * _GAP).join(padded).rstrip(), style=style)


def _stacked(header: list[str], body: list[list[str]]) -> list[Text]:
    """One number a line, for narrow screens."""
    width = max(cell_len(name) for name in header[1:])
    lines = []
    for row in body:
        lines.append(Text("  ").append(row[0], style=LABEL))
        for name, cell in zip(header[1:], row[1:], strict=True):
            lines.append(Text("    ").append(name.ljust(width + 2), style=DIM).append(cell))
    return lines
