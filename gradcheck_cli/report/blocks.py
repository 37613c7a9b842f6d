"""The block of text on the screen for one finding, or for one mistake in a spec."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import PurePath

from rich.text import Text

from gradcheck_cli.domain.codes import CODES, Severity
from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.report import Finding, SpecError, SpecResult
from gradcheck_cli.report.entries import entries_table
from gradcheck_cli.report.fixes import fix_lines
from gradcheck_cli.report.groups import described, detail_of
from gradcheck_cli.report.numbers import share_of
from gradcheck_cli.report.reasons import reason_lines
from gradcheck_cli.report.style import DIM, SEVERITY_STYLE, Style, labelled, plain, wrapped
from gradcheck_cli.report.window import place, window

_DETAIL_LINES = 8  # of a traceback, without -v
_FRAME = re.compile(r'\s*File "(?P<file>.*)", line (?P<line>\d+),? in ')


def code_name(code: str) -> str:
    return CODES[code].name if code in CODES else ""


def title(code: str, severity: Severity) -> str:
    """`error[GC201] nan-gradient`. A mistake in a configuration has no code."""
    return f"{severity}[{code}] {code_name(code)}".rstrip() if code else severity


def finding_place(finding: Finding, result: SpecResult) -> tuple[Source, Span]:
    """The place that a finding points to: the operation to blame or the line that failed, which may
    be in a file of the user's code; otherwise the place of the spec."""
    if finding.place is not None:
        return finding.place.source, finding.place.span
    if finding.cause is None:
        return result.source, finding.span
    return finding.cause.source or result.source, finding.cause.span


def finding_block(group: Sequence[Finding], result: SpecResult, style: Style) -> list[Text]:
    """Header, source window, entries, pattern, reason, help, and the command that repeats the
    finding."""
    first = group[0]
    severity = SEVERITY_STYLE[first.severity]
    detail = detail_of(group)
    source, span = finding_place(first, result)
    lines = [
        *_header(first, result.spec, described(group), style),
        *window(source.path, source, span, detail, severity, style),
    ]
    lines += entries_table(group, result, style)
    lines += _explanation(group, detail, style)
    lines += region_lines(group, style)
    lines += fix_lines(group, style)
    for part in _detail_lines(first, source, span):
        lines += _detail(part, style)
    if first.allowed:
        lines += labelled("allow", f"accepted: {first.reason}", style)
    lines += labelled("help", f"gradcheck explain {first.code}", style)
    if first.repeat:
        lines += labelled("rerun", first.repeat, style, whole=True)
    return lines


def finding_in_brief(group: Sequence[Finding], result: SpecResult, style: Style) -> list[Text]:
    """`      note[GC401] kink  relu.yaml:2:8  torch float32  a kink: every slope from 0 to 1`."""
    first = group[0]
    source, span = finding_place(first, result)
    accepted = f" (accepted: {first.reason})" if first.allowed else ""
    point = point_words(first)
    where = " ".join(part for part in (point, described(group)) if part)
    words = (place(source.path, span), where, f"{detail_of(group)}{accepted}")
    heading = title(first.code, first.severity)
    room = max(style.width - 8, 24)
    stand_in = "_" * len(heading)  # a single word, which is not broken
    head, *rest = wrapped("  ".join([stand_in, *(word for word in words if word)]), room)
    line = Text("      ").append(heading, style=SEVERITY_STYLE[first.severity])
    return [line.append(head.removeprefix(stand_in)), *(Text("        " + text) for text in rest)]


def point_words(finding: Finding) -> str:
    """`points[2]`, or `x=90` if a search found the point."""
    if finding.at:
        return plain(" ".join(finding.at))
    return "" if finding.point is None else f"points[{finding.point}]"


def _header(finding: Finding, spec: str, who: str, style: Style) -> list[Text]:
    point = point_words(finding)
    parts = [part for part in (plain(spec), point, plain(who)) if part]
    heading = title(finding.code, finding.severity)
    rest = wrapped("  ".join(parts), max(style.width - 6, 24))
    head = Text().append(heading, style=SEVERITY_STYLE[finding.severity])
    if len(heading) + 2 + len(rest[0]) <= style.width:
        head.append(f"  {rest.pop(0)}")
    return [head, *(Text("      " + line) for line in rest)]


def _explanation(group: Sequence[Finding], detail: str, style: Style) -> list[Text]:
    """Patterns, numbers of the run, and proofs, each once."""
    lines: list[Text] = []
    if group[0].pattern:
        lines += labelled("hint", f"pattern: {group[0].pattern}", style)
    lines += reason_lines(group, style)
    if style.verbose:
        for message in dict.fromkeys(finding.message for finding in group):
            if message and message != detail:
                lines += labelled("says", message, style)
    return lines


def region_lines(group: Sequence[Finding], style: Style) -> list[Text]:
    """The region of the domain in which gradients fail in the same way, according to a search. If
    regions differ, there is a line for each engine and dtype."""
    places: dict[str, list[Finding]] = {}
    for finding in group:
        if finding.search is not None and finding.search.region.predicate:
            kind, region = finding.search.kind, finding.search.region
            share = (
                "" if region.fraction is None else f", {share_of(region.fraction)} of the domain"
            )
            places.setdefault(f"{region.predicate}   {kind}{share}", []).append(finding)
    lines: list[Text] = []
    for words, findings in places.items():
        whose = "" if len(findings) == len(group) else f"{described(findings, among=group)}: "
        lines += labelled("where", f"{whose}{words}", style)
    return lines


def _detail_lines(finding: Finding, source: Source, span: Span) -> tuple[list[str], list[str]]:
    """The lines of the detail that the window does not show: the lines of the message after the
    first, and the stack frames, unless the only frame is the line in the window."""
    lines = finding.detail.rstrip().splitlines()
    said: list[str] = []
    if finding.message in lines:
        at = lines.index(finding.message)
        lines, said = lines[:at], lines[at + 1 :]
    frames = [(row, frame) for row, line in enumerate(lines) if (frame := _FRAME.match(line))]
    if len(frames) == 1:
        ((row, frame),) = frames
        is_shown = PurePath(frame["file"]).name == PurePath(source.path).name
        if is_shown and int(frame["line"]) == span.line:
            code = takewhile(lambda line: line.startswith(" " * 4), lines[row + 1 :])
            del lines[row : row + 1 + len(list(code))]
    return said, lines


def _detail(rows: Sequence[str], style: Style) -> list[Text]:
    shown = rows if style.verbose else rows[-_DETAIL_LINES:]
    lines = [f"        {style.dots} {len(rows) - len(shown)} lines before"]
    lines = lines if len(shown) < len(rows) else []
    for text in shown:
        text = text.expandtabs(4)
        margin = " " * (8 + len(text) - len(text.lstrip()))
        lines += [
            margin + part for part in wrapped(text.strip(), max(style.width - len(margin), 24))
        ]
    return [Text(line, style=DIM) for line in lines]


def error_block(error: SpecError, style: Style) -> list[Text]:
    """A mistake in a file: code, place, window, the path of the key, and what to write instead."""
    lines = [Text(title(error.code, "error"), style=SEVERITY_STYLE["error"])]
    lines += window(
        error.path, error.source, error.span, error.message, SEVERITY_STYLE["error"], style
    )
    if error.key:
        lines += labelled("key", error.key, style)
    if error.help:
        lines += labelled("help", error.help, style)
    return lines
