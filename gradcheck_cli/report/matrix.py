"""A Markdown table of every spec on every engine, and the reasons why the cells of a row differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.report import Finding, Report, SpecError, SpecResult
from gradcheck_cli.report import ReportWriter
from gradcheck_cli.report.blocks import code_name
from gradcheck_cli.report.markdown import code
from gradcheck_cli.report.style import plain
from gradcheck_cli.report.summary import set_aside_words

_REFUSED = f"refused: {Codes.UNSUPPORTED_OPERATION}"


class Writer(ReportWriter):
    """A row for each spec, a column for each engine. The first column is about the point itself,
    independent of engines."""

    def finish(self, report: Report) -> None:
        engines = list(report.engines)
        results = sorted(report.results, key=lambda result: result.source.path)
        lines = [f"| | the point | {' | '.join(engines)} |", "|---" * (len(engines) + 2) + "|"]
        for result in results:
            cells = [_of_the_point(result), *(_cell(result, engine) for engine in engines)]
            lines.append(f"| {code(result.spec)} | {' | '.join(cells)} |")
        lines += [f"| {code(error.path)} | {error.code} |" for error in report.errors]
        notes = [
            *_disagreements(results, engines),
            *_refusals(results),
            *map(_mistake, report.errors),
            *map(plain, set_aside_words(report)),
        ]
        lines += ["", *(f"- {note}" for note in notes)] if notes else []
        self._stream.write("\n".join(lines) + "\n")


def _mistake(error: SpecError) -> str:
    """The message and help for a mistake in a file, whose row only has the code."""
    told = "; ".join(filter(None, (error.message, error.help)))
    return f"{code(error.path)} ({error.code}): {plain(told)}."


def _of(result: SpecResult, engine: str | None) -> list[Finding]:
    return [finding for finding in result.findings if finding.engine == engine]


def _of_the_point(result: SpecResult) -> str:
    found = {f"{finding.code} {code_name(finding.code)}" for finding in _of(result, None)}
    return ", ".join(sorted(found))


def _cell(result: SpecResult, engine: str) -> str:
    """ "pass", the codes that were found, or why there is neither."""
    codes = sorted({finding.code for finding in _of(result, engine)})
    if codes == [Codes.UNSUPPORTED_OPERATION]:
        return _REFUSED
    if codes:
        return ", ".join(codes)
    statuses = {check.status for check in result.checks if check.engine == engine}
    trained = any(training.engine == engine for training in result.trainings)
    if not statuses and not trained:
        return "-"
    return "pass" if statuses <= {"passed"} else "fail"


def _disagreements(results: Sequence[SpecResult], engines: Sequence[str]) -> Iterator[str]:
    """A line for each row: which engines pass, what the others found, and the reason for the
    difference."""
    for result in results:
        groups: dict[tuple[str, ...], list[str]] = {}
        for engine in engines:
            if _cell(result, engine) not in ("-", _REFUSED):
                groups.setdefault(tuple(_finding_lines(result, engine)), []).append(engine)
        if len(groups) < 2:
            continue
        here = [f"here {finding.code}, {finding.message}" for finding in _of(result, None)]
        parts = list(dict.fromkeys(here))
        parts += [
            f"{', '.join(names)}: {_with_causes(result, names, '; '.join(found)) or 'pass'}"
            for found, names in groups.items()
        ]
        yield f"{code(result.spec)}: {plain('. '.join(parts))}."


def _finding_lines(result: SpecResult, engine: str) -> Iterator[str]:
    """The findings of an engine: code, message, dtypes and points."""
    places: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    for finding in _of(result, engine):
        dtypes = places.setdefault((finding.code, finding.message), {})
        points = dtypes.setdefault(finding.dtype or "", {})
        if finding.point is not None:
            points[str(finding.point)] = None
    for (name, message), dtypes in sorted(places.items()):
        shown = [f"{dtype} at points {', '.join(p)}" if p else dtype for dtype, p in dtypes.items()]
        where = ", ".join(filter(None, shown))
        yield f"{name} ({where}), {message}" if where else f"{name}, {message}"


def _with_causes(result: SpecResult, names: Sequence[str], found: str) -> str:
    """The findings, followed by the operations that cause them."""
    mine = [one.cause.op for one in result.findings if one.engine in names and one.cause]
    causes = sorted({f"`{op}`" for op in mine})
    return f"{found}; by {' and '.join(causes)}" if causes else found


def _refusals(results: Sequence[SpecResult]) -> Iterator[str]:
    """A line for each reason: which specs an engine refuses because of it."""
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for result in results:
        refused: dict[str, str] = {}  # of each engine the first reason
        for finding in result.findings:
            if finding.code == Codes.UNSUPPORTED_OPERATION:
                refused.setdefault(finding.engine or "", finding.message)
        for engine, message in refused.items():
            reasons.setdefault((engine, message), {})[result.spec] = None
    for (engine, message), names in reasons.items():
        of = code(next(iter(names))) if len(names) == 1 else f"{len(names)} specs"
        yield f"{engine} refuses {of} ({Codes.UNSUPPORTED_OPERATION}): {plain(message)}."
