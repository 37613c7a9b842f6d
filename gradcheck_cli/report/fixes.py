"""The lines about fixes: what to write instead, and the results of the trials."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from gradcheck_cli.domain.decimals import DISTINCT_DIGITS
from gradcheck_cli.domain.engines import FRAMEWORK_OF
from gradcheck_cli.domain.report import Finding, Fix
from gradcheck_cli.domain.thresholds import FEW_ULPS
from gradcheck_cli.report.groups import described
from gradcheck_cli.report.numbers import significant, small_or_relative
from gradcheck_cli.report.search_words import searched_words
from gradcheck_cli.report.style import DIM, Style, labelled, plain


def fix_lines(group: Sequence[Finding], style: Style) -> list[Text]:
    """The fixes of a group of findings, each once, and the reason why the others have none."""
    fixes: dict[str, list[tuple[Finding, Fix]]] = {}
    without: dict[str, list[Finding]] = {}
    for finding in group:
        if finding.fix is not None:
            fixes.setdefault(finding.fix.model, []).append((finding, finding.fix))
        elif finding.no_fix:
            without.setdefault(finding.no_fix, []).append(finding)
    lines: list[Text] = []
    for members in fixes.values():
        lines += _fix(members, group, style)
    for reason, findings in without.items():
        whose = f" in {described(findings, among=group)}" if len(findings) < len(group) else ""
        lines += labelled("fix", f"none{whose}: {reason}", style)
    return lines


def short_fix(finding: Finding) -> str:
    """A short formula, for formats with a single line."""
    if finding.fix is None or "\n" in finding.fix.after:
        return ""
    return finding.fix.after


def _fix(members: list[tuple[Finding, Fix]], group: Sequence[Finding], style: Style) -> list[Text]:
    finding, fix = members[0]
    tried = _trial_words(finding, fix)
    lines: list[Text]
    if "\n" in fix.after:
        what = "state the derivative" if fix.custom else "write"
        lines = labelled("fix", f"{what}, {_in_place(fix)}:", style)
        lines += [Text("          " + plain(line)) for line in fix.after.splitlines()]
        lines += labelled("", tried, style) if tried else []
    else:
        place = "" if fix.model == fix.after and fix.place is None else _in_place(fix)
        lines = labelled(
            "fix", "   ".join(part for part in (fix.after, place, tried) if part), style
        )
    for detail in _details(members, group):
        lines += [Text(line.plain, style=DIM) for line in labelled("", detail, style)]
    if style.verbose:
        lines += _code(members, style)
    return lines


def _in_place(fix: Fix) -> str:
    where = "" if fix.place is None else f" ({fix.place.line})"
    return f"in place of {_one_line(fix.before)}{where}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _trial_words(finding: Finding, fix: Fix) -> str:
    if fix.value is None:
        return ""
    dtype = finding.dtype or "float64"
    value = significant(fix.value, DISTINCT_DIGITS.get(dtype, 17))
    after = fix.ulps_after
    off = "" if after is None else f", {small_or_relative(after, dtype)}"
    explained = ", no more than rounding explains" if (after or 0.0) > FEW_ULPS else ""
    return f"tried at this point: {value}{off}{explained}"


def _details(members: list[tuple[Finding, Fix]], group: Sequence[Finding]) -> list[str]:
    fix = members[0][1]
    by_count: dict[tuple[int, int], list[Finding]] = {}
    for finding, one in members:
        by_count.setdefault((one.right, one.points), []).append(finding)
    details = []
    for (right, points), findings in by_count.items():
        whole = len(by_count) == 1 and len(findings) == len(group)
        who = "" if whole else f" in {described(findings, among=group)}"
        details.append(f"right at {right} of {points} fresh points around it{who}")
    if fix.searched is not None:
        details += searched_words(fix.searched)
    if fix.condition:
        details.append(f"equal where {_one_line(fix.condition)}")
    if fix.kink:
        details.append(f"where the original has no derivative, this one has {fix.kink}")
    return details


def _code(members: list[tuple[Finding, Fix]], style: Style) -> list[Text]:
    """Python code of a fix for each framework of the findings; for all frameworks if there is
    none."""
    fix = members[0][1]
    engines = {finding.engine for finding, _ in members}
    wanted = [name for engine, name in FRAMEWORK_OF.items() if engine in engines]
    lines: list[Text] = []
    for name in dict.fromkeys(wanted or FRAMEWORK_OF.values()):
        if name in fix.code:
            lines += labelled("code", f"{name}:", style)
            lines += [
                Text("          " + plain(line), style=DIM) for line in fix.code[name].splitlines()
            ]
    return lines
