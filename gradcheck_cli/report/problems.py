"""The problems of a report with their places, for formats that point to files of a repository.

A problem is a group of findings that say the same thing, or a mistake in a spec file.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.text import Text

from gradcheck_cli.domain.codes import Severity
from gradcheck_cli.domain.place import COMMAND_LINE, STDIN, Span
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding, Report, SpecError, SpecResult
from gradcheck_cli.report.blocks import error_block, finding_block, finding_place
from gradcheck_cli.report.fixes import short_fix
from gradcheck_cli.report.groups import described, detail_of, grouped
from gradcheck_cli.report.style import Style, plain, plain_lines

WORST_FIRST: tuple[Severity, ...] = ("error", "warning", "note")
_SCREEN = Style(width=100)
_QUOTED = re.compile(r"`([^`]*)`")


@dataclass(frozen=True, slots=True)
class Problem:
    """`path` is relative to the repository; None for standard input and options. `who` names
    engines, dtypes and modes, `block` is the text on the screen. `findings` is the group, empty for
    a mistake. `fingerprint` is unique in the report."""

    severity: Severity
    code: str
    path: str | None
    span: Span | None
    spec: str
    who: str
    message: str
    block: str
    findings: tuple[Finding, ...] = ()
    fingerprint: str = ""

    @property
    def allowed(self) -> str:
        """The reason why the spec accepts it; empty if it does not."""
        return self.findings[0].reason if self.findings and self.findings[0].allowed else ""


def problems(report: Report) -> list[Problem]:
    """All problems of a report, worst first."""
    unordered = list(problems_of_mistakes(report))
    for result in report.results:
        unordered += problems_of(result)
    worst_first = sorted(unordered, key=_rank)
    counts: Counter[str] = Counter()
    for position, problem in enumerate(worst_first):
        counts[problem.fingerprint] += 1
        if (count := counts[problem.fingerprint]) > 1:
            name = f"{problem.fingerprint}-{count}"
            worst_first[position] = replace(problem, fingerprint=name)
    return worst_first


def _rank(problem: Problem) -> tuple[int, float]:
    """The severity, then the error in ulps; nan and infinity come first."""
    ulps = (entry.ulps for finding in problem.findings for entry in finding.entries[:1])
    known = [off for off in ulps if off is not None and not math.isnan(off)]
    return WORST_FIRST.index(problem.severity), -max(known, default=math.inf)


def problems_of(result: SpecResult) -> Iterator[Problem]:
    """The problems of one spec, in the order of its findings."""
    for group in grouped(result.findings):
        first = group[0]
        source, span = finding_place(first, result)
        yield Problem(
            severity=first.severity,
            code=first.code,
            path=in_repository(source.path),
            span=span,
            spec=plain(result.spec),
            who=plain(described(group)),
            message=_message(group),
            block=_text(finding_block(group, result, _SCREEN)),
            findings=group,
            fingerprint=first.fingerprint,
        )


def problems_of_mistakes(report: Report) -> Iterator[Problem]:
    """The mistakes in spec files."""
    for error in report.errors:
        yield _of_mistake(error)


def _of_mistake(error: SpecError) -> Problem:
    import hashlib  # with all of OpenSSL, and only a mistake needs it

    message = "\n".join(part for part in (error.message, error.help) if part)
    named = _QUOTED.findall(error.message)  # no other words: a new wording is not a new mistake
    known = (error.code, error.path, error.key, *named)
    return Problem(
        severity="error",
        code=error.code,
        path=in_repository(error.path),
        span=error.span,
        spec="",
        who="",
        message=_plain_lines(message),
        block=_text(error_block(error, _SCREEN)),
        fingerprint=hashlib.sha256("\0".join(known).encode(errors="replace")).hexdigest()[:16],
    )


def _message(group: tuple[Finding, ...]) -> str:
    """The message, the explanation at the place, and the fix, on a line each."""
    first = group[0]
    lines = [first.message, detail_of(group)]
    if short_fix(first):
        lines.append(f"write {short_fix(first)}")
    return _plain_lines("\n".join(dict.fromkeys(lines)))


def _text(lines: Sequence[Text]) -> str:
    return "\n".join(line.plain for line in lines)


def _plain_lines(text: str) -> str:
    return "\n".join(plain_lines(text))


def in_repository(path: str) -> str | None:
    """`path` with slashes, relative to the folder that contains `.git`, or to the working folder if
    there is none. Paths outside of it are unchanged."""
    if path in (STDIN, COMMAND_LINE):
        return None
    here = Path.cwd()
    root = next((place for place in (here, *here.parents) if (place / ".git").exists()), here)
    whole = Path(os.path.abspath(path))
    shown = whole.relative_to(root) if whole.is_relative_to(root) else Path(path)
    return shown.as_posix()
