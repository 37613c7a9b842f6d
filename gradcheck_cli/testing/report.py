"""The result of `check`, and the exception of `assert_gradients`."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from gradcheck_cli.cli.exits import PASSED, verdict
from gradcheck_cli.cli.streams import PLAIN_WIDTH
from gradcheck_cli.domain.codes import CODES
from gradcheck_cli.domain.errors import Brief
from gradcheck_cli.domain.evaluation import FIRST_ORDER, modes_in
from gradcheck_cli.domain.records import dataclass, replace
from gradcheck_cli.domain.report import Finding, Report, SpecError, SpecResult


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport(Report):
    """The report of `gradcheck run` for one layer or formula. `str` returns the same text."""

    def __repr__(self) -> str:
        """One line: `<CheckReport: GC201 nan-gradient in reciprocal_exp>`."""
        count = len(self.result.checks)
        checks = f"{count} {'check' if count == 1 else 'checks'}"
        found = f"{self.result.spec} passed" if self.passed else headline(self)
        return f"<CheckReport: {found}; {checks}>"

    def _repr_html_(self) -> str:
        """The section of `--format html`, which a notebook displays."""
        from gradcheck_cli.report.html.page import spec_html

        return spec_html(self.result)

    def to_dict(self) -> dict[str, Any]:
        """The JSON report (`gradcheck schema report`) as dictionaries and lists."""
        from gradcheck_cli.report.json_report import as_json

        return as_json(self)

    def to_dataframe(self) -> Any:
        """A pandas.DataFrame with a row for each entry: engine, dtype, mode, point, input, its
        index, what was computed, the truth, and the error in ulps. Raises UsageError without
        pandas."""
        from gradcheck_cli.testing.notebook import data_frame

        return data_frame(self.result)

    def plot(self) -> Any:
        """A matplotlib Figure: for each input, a map of the errors of the worst gradient. Raises
        UsageError without matplotlib, and if no gradient was computed entry by entry."""
        from gradcheck_cli.testing.notebook import figure

        return figure(self.result)

    @property
    def result(self) -> SpecResult:
        return self.results[0]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, including notes."""
        return self.result.findings

    @property
    def passed(self) -> bool:
        """Whether at least one check ran, and no error was found."""
        return not self.fails_on("error")

    def fails_on(self, severity: str) -> bool:
        """Whether there is a finding of at least this severity."""
        return verdict(self, severity) != PASSED

    def __str__(self) -> str:
        return screen(self)


class GradientError(Brief, AssertionError):
    """Gradients are wrong. The message is the whole report, and `report` has it as data."""

    def __init__(self, report: CheckReport) -> None:
        super().__init__(f"{headline(report)}\n\n{report}")
        self.report = report

    def __reduce__(self) -> tuple[Callable[..., GradientError], tuple[CheckReport]]:
        return GradientError, (self.report,)  # it may be raised in another process


class NotRight(Exception):
    """The exception of a spec in pytest, which shows the report in place of a traceback."""


def headline(report: Report) -> str:
    """One line that says what is wrong: "GC201 nan-gradient in reciprocal_exp"."""
    counted = (f for r in report.results for f in r.findings if not f.allowed)
    grave = [f.code for f in counted if f.severity != "note"]
    told = ", ".join(f"{code} {CODES[code].name}" for code in dict.fromkeys(grave))
    names = ", ".join(result.spec for result in report.results)
    return f"{told or 'nothing was checked'} in {names}"


def with_calls(result: SpecResult, called: str | None, seed: int) -> SpecResult:
    """The result with Python calls that repeat each finding, in place of command lines. `called` is
    the name that the caller typed for the layer, or None if it has none."""
    findings = (replace(f, repeat=_call(f, called, seed)) for f in result.findings)
    return replace(result, findings=tuple(findings))


def _call(finding: Finding, called: str | None, seed: int) -> str:
    parts = [] if called is None else [called, "..."]
    parts += [f'dtypes=["{finding.dtype}"]'] if finding.dtype else []
    if finding.mode:
        modes = ", ".join(f'"{mode}"' for mode in FIRST_ORDER if mode in modes_in(finding.mode))
        parts.append(f"modes=[{modes}]")
    arguments = ", ".join([*parts, f"seed={seed}"])
    return f"this check with {arguments}" if called is None else f"check({arguments})"


def screen(report: Report) -> str:
    """The output of `gradcheck run`, without colours."""
    from gradcheck_cli.report import open_writer
    from gradcheck_cli.report.style import Style

    stream = io.StringIO()
    writer = open_writer("full", stream, Style(width=PLAIN_WIDTH))
    for result in report.results:
        writer.spec(result)
    writer.finish(report)
    return stream.getvalue().rstrip("\n")


def mistakes_screen(mistakes: Sequence[SpecError]) -> str:
    """The mistakes of a spec as `gradcheck run` shows them, without the line that counts specs."""
    blocks, _, _ = screen(Report("", {}, 0, 0.0, errors=tuple(mistakes))).rpartition("\n")
    return blocks.strip()
