"""The table of wrong entries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from rich.text import Text

from gradcheck_cli.domain.decimals import DISTINCT_DIGITS, shortest
from gradcheck_cli.domain.evaluation import SECOND
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Entry, Finding, Indexing, SpecResult
from gradcheck_cli.report.groups import described
from gradcheck_cli.report.numbers import FEW, depth, error, significant, with_bar
from gradcheck_cli.report.style import DIM, Style, wrapped
from gradcheck_cli.report.table import table_lines

SHOWN_ROWS = 5
MANY = 10  # further entries, from which on a picture says more than their number
WIDEST = 72  # cells of the picture

_BLOCKS = " ▁▂▃▄▅▆▇█"
_TOP = 2 * (len(_BLOCKS) - 1)


@dataclass(frozen=True, slots=True)
class _Row:
    entry: str
    computed: str
    truth: str
    difference: str
    error: str


def entry_label(finding: Finding, index: tuple[int, ...], output: str, output_axes: int) -> str:
    """`x`, `W[0,1]`, or `dy[2]/dx[1]` if the output is not a scalar; `W[0,1] by cotangent 2` and
    `dy[2] by W, direction 0` for products; `z[0].re` and `z[0].im` for complex numbers.
    `output_axes` is used if the finding does not say how many axes the output has."""
    name = finding.input
    complex_output = complex_input = False
    if name is None:
        return output + bracketed(index)
    if finding.indexing is not None:
        if finding.indexing.cotangents or finding.indexing.directions:
            return _of_product(finding.indexing, name, index, output)
        output_axes = finding.indexing.output_axes
        complex_output = finding.indexing.complex_output
        complex_input = finding.indexing.complex_input
    second = "." in name if finding.mode is None else finding.mode in SECOND
    if output_axes == 0 or len(index) < output_axes or second:
        return name + bracketed(index, complex_input)
    left = bracketed(index[:output_axes], complex_output)
    return f"d{output}{left}/d{name}{bracketed(index[output_axes:], complex_input)}"


def _of_product(how: Indexing, name: str, index: tuple[int, ...], output: str) -> str:
    left, right = index[: how.output_axes], index[how.output_axes :]
    which = f"cotangent {left[0]}" if left else "a random cotangent"
    if not how.directions:
        return f"{name}{bracketed(right, how.complex_input)} by {which}"
    along = f"direction {right[-1]}"
    if how.cotangents:
        return f"{name} by {which}, {along}"
    return f"d{output}{bracketed(left, how.complex_output)} by {name}, {along}"


def bracketed(index: Sequence[int], is_complex: bool = False) -> str:
    """An index as in a formula, with the part of a complex number: "[0,1].im"."""
    if is_complex:
        return bracketed(index[:-1]) + (".im" if index[-1] else ".re")
    return f"[{','.join(str(part) for part in index)}]" if index else ""


@dataclass(frozen=True, slots=True)
class EntriesTable:
    """The worst entries of a group of findings as texts, and the number of `more` entries. An entry
    counts once, however many engines, dtypes and modes have it. Column 1 says who computed a
    number, if that differs (`tell_apart`)."""

    header: list[str]
    rows: list[list[str]]
    more: int
    tell_apart: bool


def entries_of(
    group: Sequence[Finding], output: str, output_axes: int, style: Style
) -> EntriesTable | None:
    """The table, or None if there is no entry to show."""
    rows: dict[_Row, list[Finding]] = {}
    for finding in group:
        for entry in finding.entries:
            label = entry_label(finding, entry.index, output, output_axes)
            rows.setdefault(_row(label, entry, finding, style), []).append(finding)
    if not rows:
        return None
    limit = 1 if group[0].pattern else SHOWN_ROWS  # the pattern holds for all of them
    shown = list(rows.items()) if style.verbose else list(rows.items())[:limit]
    most = max(len(finding.entries) + finding.more for finding in group)  # others are among them
    known, seen = ({row.entry for row in some} for some in (rows, dict(shown)))
    more = max(len(known), most) - len(seen)
    tell_apart = any(len(members) < len(group) for members in rows.values())
    header, body = _cells(group, shown, tell_apart)
    if all(finding.engine is None for finding in group):  # of the point, not of what was computed
        wanted = ["entry", header[-3], header[-2]]
        columns = [header.index(name) for name in wanted]
        header, body = wanted, [[cells[column] for column in columns] for cells in body]
        if all(cell == "-" for cells in body for cell in cells[1:]):
            return None
    return EntriesTable(header, body, more, tell_apart)


def entries_table(group: Sequence[Finding], result: SpecResult, style: Style) -> list[Text]:
    """The worst entries of a group of findings, and how many more there are. If there are many, a
    picture shows the errors by index."""
    axes = depth(result.readings[0].output) if result.readings else 0
    table = entries_of(group, result.output_name, axes, style)
    if table is None:
        return []
    wrap = (1,) if table.tell_apart else ()
    spare = () if style.verbose else ("finite difference",)
    truth = [column for column, name in enumerate(table.header) if name.startswith("truth")]
    lines = table_lines(
        table.header, table.rows, style, indent=2, wrap=wrap, spare=spare, titles=truth
    )
    if table.more:
        noun = "entry" if table.more == 1 else "entries"
        picture = _picture(group[0], result, style) if table.more > MANY else []
        end = "; their errors by index:" if picture else ""
        told = wrapped(f"and {table.more} more {noun}{end}", style.width - 2)
        lines += [Text(f"  {line}", style=DIM) for line in told]
        lines += picture
    return lines


def _picture(finding: Finding, result: SpecResult, style: Style) -> list[Text]:
    """The errors of the first finding, if its whole gradient is known."""
    if finding.at:  # no reading is of that point
        return []
    name = finding.input or ""
    who = (finding.engine, finding.dtype, finding.mode, finding.point)
    compared = next(
        (
            reading.compared[name]
            for reading in result.readings
            if (reading.engine, reading.dtype, reading.mode, reading.point) == who
            and name in reading.compared
        ),
        None,
    )
    if compared is None or not style.unicode:
        return []
    errors = zip(compared.truth.ravel().tolist(), compared.ulps.ravel().tolist(), strict=True)
    # without a truth there is no error
    ulps = [0.0 if math.isnan(truth) else off for truth, off in errors]
    lines = sparkline(ulps, min(style.width - 4, WIDEST))
    return [Text(f"    {line}".rstrip()) for line in lines] if any(map(str.strip, lines)) else []


def _row(label: str, entry: Entry, finding: Finding, style: Style) -> _Row:
    dtype = finding.dtype or "float64"
    digits = 17 if style.verbose else DISTINCT_DIGITS.get(dtype, 17)
    zero = entry.computed == 0 and not style.verbose  # whose sign tells nothing about the gradient
    computed = (
        "none" if entry.computed is None else shortest(0.0 if zero else entry.computed, dtype)
    )
    truth = shortest(entry.truth) if digits == 17 and entry.truth is not None else None
    if style.verbose and truth is not None and entry.truth_error is not None:
        truth += f" {style.plus_minus} {significant(entry.truth_error, 2)}"
    return _Row(
        entry=label,
        computed=computed,
        truth=truth or significant(entry.truth, digits),
        difference=with_bar(
            entry.finite_difference, entry.finite_difference_error, dtype, style.plus_minus
        ),
        error=error(entry.computed, entry.truth, entry.ulps, dtype),
    )


def _cells(
    group: Sequence[Finding], shown: list[tuple[_Row, list[Finding]]], tell_apart: bool
) -> tuple[list[str], list[list[str]]]:
    engines = {finding.engine for finding in group}
    computed = (group[0].engine or "computed") if len(engines) == 1 else "computed"
    sources = {finding.truth_source for finding in group}
    source = group[0].truth_source if len(sources) == 1 else None
    truth = f"truth ({source})" if source else "truth"
    header = ["entry", computed, truth, "finite difference", "error"]
    body = [[row.entry, row.computed, row.truth, row.difference, row.error] for row, _ in shown]
    if tell_apart:
        header.insert(1, "by")
        for cells, (_, members) in zip(body, shown, strict=True):
            cells.insert(1, described(members, among=group))
    return header, body


def sparkline(ulps: Sequence[float], width: int) -> tuple[str, str]:
    """The upper and lower line of the picture, at most `width` wide. Each column shows the largest
    error of a range of entries. Heights are logarithmic, from a few ulps to the largest error;
    infinity and nan have full height."""
    columns = min(len(ulps), width)
    edges = [column * len(ulps) // columns for column in range(columns + 1)]
    worst = [max(map(_bounded, ulps[a:b])) for a, b in pairwise(edges)]
    largest = max((error for error in worst if math.isfinite(error)), default=FEW)
    heights = [_height(error, largest) for error in worst]
    half = _TOP // 2
    upper = "".join(_BLOCKS[max(height - half, 0)] for height in heights)
    return upper, "".join(_BLOCKS[min(height, half)] for height in heights)


def _bounded(error: float) -> float:
    return math.inf if math.isnan(error) else error


def _height(error: float, largest: float) -> int:
    if error < FEW:
        return 0
    if not math.isfinite(error) or largest == FEW:
        return _TOP
    return 1 + round((_TOP - 1) * math.log(error / FEW) / math.log(largest / FEW))
