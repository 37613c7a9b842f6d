"""The section of the page for one spec: its findings, its checks, and pictures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from gradcheck_cli.domain.codes import Families
from gradcheck_cli.domain.decimals import PRECISION
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.graph import Graph
from gradcheck_cli.domain.program import INPUT
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Check, Comparison, Finding, Fix, Reading, SpecResult
from gradcheck_cli.report.blocks import code_name, finding_place, point_words, region_lines
from gradcheck_cli.report.curve import curve_picture
from gradcheck_cli.report.entries import entries_of
from gradcheck_cli.report.graph import word_of_derivatives
from gradcheck_cli.report.graph_svg import graph_svg
from gradcheck_cli.report.groups import described, detail_of, grouped
from gradcheck_cli.report.html.heat_map import heat_map, legend, level
from gradcheck_cli.report.html.scatter import scatter
from gradcheck_cli.report.numbers import FEW, depth, significant, small_or_relative
from gradcheck_cli.report.reasons import reason_lines, stories_of
from gradcheck_cli.report.search_words import searched_words
from gradcheck_cli.report.status import mark_of, quality_of
from gradcheck_cli.report.style import Style, plain, unlabelled
from gradcheck_cli.report.window import place

STYLE = Style(width=10_000)  # a page breaks lines by itself
_MOST_MAPS = 4  # of one spec
_MOST_GRAPHS = 3
_MOST_FINDINGS = 40
_OPEN_FINDINGS = 2  # the others are folded, so that the pictures are not far
_LINES = 2  # of the source around the place of a finding

WORDS = {
    "FAIL": ("failed", "error"),
    "ERROR": ("broke", "error"),
    "warn": ("warning", "warning"),
    "part": ("in part", "warning"),
    "none": ("unchecked", "warning"),
    "known": ("accepted", "note"),
    "ok": ("passed", "ok"),
}
"""The mark of a spec's line: what a page calls it, and its colour."""


def section(result: SpecResult, number: int, pictures: bool = True) -> dict[str, Any]:
    """The values for the template of a spec."""
    word, tone = WORDS[mark_of(result)[0]]
    groups = grouped(result.findings)
    shown = groups[:_MOST_FINDINGS]
    return {
        "id": f"spec-{number}",
        "name": result.spec,
        "path": plain(result.source.path),
        "status": result.status,
        "word": word,
        "tone": tone,
        "quality": quality_of(result),
        "seconds": result.duration_s,
        "engines": list(_engines(result)),
        "codes": list(dict.fromkeys(finding.code for finding in result.findings)),
        "findings": [_finding(group, result) for group in shown],
        "open_findings": _OPEN_FINDINGS,
        "more_findings": sum(len(group) for group in groups[_MOST_FINDINGS:]),
        "suppressed": Counter((one.code, one.reason) for one in result.suppressed).items(),
        "checks": checks_table(result),
        "notes": result.notes,
        "maps": _maps(result) if pictures else [],
        "graphs": _graphs(result) if pictures else [],
        "curve": _curve(result) if pictures else None,
        "pictures": pictures,
    }


def _engines(result: SpecResult) -> Iterator[dict[str, str]]:
    """Each engine with the worst of its checks and findings."""
    outcomes: dict[str, str] = {check.engine: "ok" for check in result.checks}
    for finding in result.findings:
        if finding.engine and not finding.allowed:
            before = outcomes.get(finding.engine, "ok")
            graver = finding.severity if finding.severity != "note" else "ok"
            order = ("ok", "warning", "error")
            outcomes[finding.engine] = max(before, graver, key=order.index)
    for check in result.checks:
        if check.status != "passed" and outcomes[check.engine] == "ok":
            outcomes[check.engine] = "known"
    signs = {"ok": "✓", "warning": "!", "error": "✗", "known": "~"}
    for name, tone in outcomes.items():
        yield {"name": name, "tone": tone, "sign": signs[tone]}


def _finding(group: Sequence[Finding], result: SpecResult) -> dict[str, Any]:
    first = group[0]
    source, span = finding_place(first, result)
    axes = depth(result.readings[0].output) if result.readings else 0
    labelled = [("pattern", first.pattern)] if first.pattern else []
    first_story, *stories = _stories(group) or [""]
    labelled += [("why", first_story)] if first_story else []
    labelled += [part for part in unlabelled(reason_lines(group, STYLE)) if part[0] != "why"]
    labelled += unlabelled(region_lines(group, STYLE))
    labelled += [("fix", f"none: {why}") for why in dict.fromkeys(f.no_fix for f in group) if why]
    return {
        "code": first.code,
        "name": code_name(first.code),
        "severity": first.severity,
        "who": described(group),
        "input": first.input,
        "point": point_words(first),
        "detail": detail_of(group),
        "place": place(source.path, span),
        "source": list(_source_lines(source.line, span.line, span.column, span.end_column)),
        "table": entries_of(group, result.output_name, axes, STYLE),
        "labelled": labelled,
        "stories": stories,
        "fixes": list(_fixes(group)),
        "trace": first.detail,
        "allowed": first.reason if first.allowed else None,
        "repeat": first.repeat,
    }


def _stories(group: Sequence[Finding]) -> list[str]:
    stories = stories_of(group)
    if len(stories) == 1:
        return list(stories)
    return [f"in {described(mine, among=group)}: {story}" for story, mine in stories.items()]


def _source_lines(line: Any, number: int, start: int, end: int) -> Iterator[dict[str, Any]]:
    """The marked line with its neighbours, in parts: before, marked, after."""
    around = range(max(number - _LINES, 1), number + _LINES + 1)
    there = [at for at in around if line(at).strip() or at == number]
    for at in range(there[0], there[-1] + 1):
        text = line(at)
        cut = (start - 1, end - 1) if at == number else (len(text), len(text))
        parts = text[: cut[0]], text[cut[0] : cut[1]], text[cut[1] :]
        yield {"number": at, "parts": parts}


def _fixes(group: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    """Each fix once: the code, the error before and after (unknown if there is no derivative), and
    where it was tried."""
    seen: dict[str, tuple[Finding, Fix]] = {}
    for finding in group:
        if finding.fix is not None:
            seen.setdefault(finding.fix.model, (finding, finding.fix))
    for finding, fix in seen.values():
        dtype = finding.dtype or "float64"
        yield {
            "fix": fix,
            "bars": []
            if fix.ulps_after is None
            else [
                ("before", *_bar(fix.ulps_before, dtype)),
                ("after", *_bar(fix.ulps_after, dtype)),
            ],
            "value": None if fix.value is None else significant(fix.value, 9),
            "who": f"{finding.engine or ''} {dtype}".strip(),
            "searched": [] if fix.searched is None else list(searched_words(fix.searched)),
        }


def _bar(ulps: float | None, dtype: str) -> tuple[float, str, str]:
    """The width of a bar in per cent of all digits, the error in words, and its level."""
    if ulps is None or not math.isfinite(ulps):
        return 100.0, "no number", "x"
    bits = PRECISION[dtype] - 1
    width = max(math.log2(max(ulps, 1.0)) / bits * 100, 1.5)
    return min(width, 100.0), small_or_relative(ulps, dtype), level(ulps, dtype)


@dataclass(frozen=True, slots=True)
class ChecksTable:
    """The worst errors: a row for each engine, dtype, mode and point, a column for each input. A
    cell has a text, a level, and whether the check failed."""

    inputs: list[str]
    rows: list[tuple[str, list[tuple[str, str, str] | None]]]


def checks_table(result: SpecResult) -> ChecksTable:
    """All checks of a spec."""
    inputs = list(dict.fromkeys(check.input for check in result.checks))
    rows: dict[str, dict[str, Check]] = {}
    for check in result.checks:
        point = "" if check.point is None else f" points[{check.point}]"
        rows.setdefault(f"{check.engine} {check.dtype} {check.mode}{point}", {})[check.input] = (
            check
        )
    return ChecksTable(
        inputs,
        [
            (who, [_cell(mine[name], result) if name in mine else None for name in inputs])
            for who, mine in rows.items()
        ],
    )


def _cell(check: Check, result: SpecResult) -> tuple[str, str, str]:
    if check.max_ulps is not None:
        text, mark = (
            small_or_relative(check.max_ulps, check.dtype),
            level(check.max_ulps, check.dtype),
        )
    elif check.status == "passed":
        text, mark = ", ".join(one.rule for one in check.passed_by) or "no error known", "u"
    else:
        text, mark = _why_not(check, result), "x"
    if check.status == "passed" and check.passed_by:
        mark = "0" if mark == "0" else "u"
    return text, mark, check.status


def _why_not(check: Check, result: SpecResult) -> str:
    """The findings of a check that has no error in ulps."""
    mine = (check.engine, check.dtype, check.mode, check.input)
    codes = [
        finding.code
        for finding in result.findings
        if finding.severity != "note"
        and all(
            theirs in (None, own)
            for theirs, own in zip(
                (finding.engine, finding.dtype, finding.mode, finding.input), mine, strict=True
            )
        )
    ]
    if any(code.startswith(Families.NOT_FINITE) for code in codes):
        return "no number"
    return ", ".join(dict.fromkeys(codes)) or check.status


def _maps(result: SpecResult) -> list[dict[str, Any]]:
    """Heat maps of the gradients that are off, worst first. Gradients with the same wrong entries
    share one map. If the spec passed: the map of the largest error."""
    alike: dict[Any, list[_Shown]] = {}
    for reading in result.readings:
        for name, compared in reading.compared.items():
            one = _Shown(reading, name, compared)
            alike.setdefault((name, reading.point, one.lost.tobytes()), []).append(one)
    groups = sorted(alike.values(), key=lambda same: (not same[0].lost.any(), -same[0].worst))
    off = [same for same in groups if same[0].worst >= FEW]
    drawn = [made for same in off or groups[:1] if (made := _map(same)) is not None]
    more = len(drawn) - _MOST_MAPS
    return [*drawn[:_MOST_MAPS], {"more": more}] if more > 0 else drawn


@dataclass(frozen=True, slots=True)
class _Shown:
    """A gradient of one reading with respect to one input, compared with the truth."""

    reading: Reading
    name: str
    compared: Comparison

    @property
    def worst(self) -> float:
        """The largest error; inf if an entry is not a number although its truth is."""
        known = np.isfinite(self.compared.truth)
        if np.any(known & ~np.isfinite(self.compared.computed)):
            return math.inf
        return float(np.max(self.compared.ulps[known], initial=0.0))

    @property
    def lost(self) -> Array:
        """Which entries have lost half of their digits. Engines with the same wrong entries share a
        map."""
        half = 2.0 ** (PRECISION[self.reading.dtype] / 2)
        return np.isfinite(self.compared.truth) & ~(self.compared.ulps < half)


def _map(same: Sequence[_Shown]) -> dict[str, Any] | None:
    first = same[0]
    dtype, point = first.reading.dtype, first.reading.point
    made = heat_map(first.name, first.compared, dtype)
    if made is None:
        return None
    others = [f"{one.reading.engine} {one.reading.dtype} {one.reading.mode}" for one in same[1:]]
    return {
        "title": f"{first.name}, {dtype}{'' if point is None else f' at points[{point}]'}",
        "who": f"{first.reading.engine} {first.reading.mode}",
        "others": list(dict.fromkeys(others)),
        "lost": bool(first.lost.any()),
        "map": made,
        "legend": legend(dtype),
        "scatter": scatter(first.name, first.compared, dtype),
    }


def _graphs(result: SpecResult) -> list[dict[str, Any]]:
    """The graph of each traced run, and of each lifted layer, with the operations that findings
    blame. Graphs that blame the same operations are shown once."""
    pictures: dict[Any, dict[str, Any]] = {}
    for graph in result.graphs:
        blamed = frozenset(_nodes_to_blame(graph, result))
        key = graph.lifted, blamed
        if key in pictures or sum(node.op != INPUT for node in graph.program.nodes) == 0:
            continue
        point = "" if graph.point is None else f" at points[{graph.point}]"
        title = f"{graph.engine} {graph.dtype} {graph.mode}{point}"
        if graph.lifted:
            title = f"the {graph.lifted} layer, lifted{point}; numbers of the reference engine"
        pictures[key] = {
            "title": title,
            "words": word_of_derivatives(graph),
            "forward": graph.mode == "forward",
            "svg": Markup(graph_svg(graph, blamed, result.spec)),
            "blamed": bool(blamed),
        }
    ordered = [graph for graph in pictures.values() if graph["blamed"]]
    return (ordered or list(pictures.values()))[:_MOST_GRAPHS]


def _nodes_to_blame(graph: Graph, result: SpecResult) -> Iterator[int]:
    """The nodes to blame: those that causes name, or, for a layer, those at the same place."""
    for finding in result.findings:
        cause = finding.cause
        if cause is None or finding.severity == "note":
            continue
        if graph.lifted and graph.lifted == finding.engine:
            at = cause.source and cause.source.path, cause.span
            for index, node in enumerate(graph.program.nodes):
                if node.source is not None and (node.source.path, node.span) == at:
                    yield index
        elif cause.node is not None and _about(finding) == _about(graph):
            yield cause.node


def _about(what: Finding | Graph) -> tuple[str | None, ...]:
    return what.engine, what.dtype, what.mode, None if what.point is None else str(what.point)


def _curve(result: SpecResult) -> Markup | None:
    if result.curve is None or not result.curve.lines:
        return None
    return Markup(curve_picture(result.curve))
