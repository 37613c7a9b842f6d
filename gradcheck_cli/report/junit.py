"""JUnit XML, which CI services show as tests."""

from __future__ import annotations

import re
from collections.abc import Iterable

from junitparser import Attr, Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from gradcheck_cli.domain.report import Report, SpecResult
from gradcheck_cli.report import ReportWriter
from gradcheck_cli.report.blocks import title
from gradcheck_cli.report.problems import Problem, problems_of, problems_of_mistakes
from gradcheck_cli.report.style import plain
from gradcheck_cli.report.summary import set_aside_words


class Writer(ReportWriter):
    """A suite for each file, a test for each spec and for each mistake in a file. A test fails if
    its spec makes the run fail; all other findings are its output."""

    def finish(self, report: Report) -> None:
        suites: dict[str, TestSuite] = {}
        for path, case in _cases(report):
            suites.setdefault(path, TestSuite(_xml(path))).append(case)
        whole = JUnitXml("gradcheck")
        for suite in suites.values():
            suite.update_statistics()
            for words in set_aside_words(report):
                suite.add_property("set aside", _xml(words))
            whole.append(suite)
        whole.update_statistics()
        self._stream.write(whole.tostring().decode("utf-8") + "\n")


class Case(TestCase):
    """A test case with the file of the spec, which GitLab links to."""

    file = Attr()


def _cases(report: Report) -> Iterable[tuple[str, Case]]:
    for result in report.results:
        yield result.source.path, _of_spec(result, report.fail_on)
    for problem in problems_of_mistakes(report):
        path = problem.path or "-"
        case = _case(title(problem.code, problem.severity), path)
        case.result = [_outcome(Error, [problem])]
        yield path, case


def _of_spec(result: SpecResult, fail_on: str) -> Case:
    case = _case(result.spec, result.source.path, result.duration_s)
    problems = list(problems_of(result))
    if result.fails_on(fail_on):
        kind = Error if result.status == "error" else Failure
        case.result = [_outcome(kind, problems)]
        return case
    if result.unchecked:
        case.result = [Skipped("nothing was checked")]
    case.system_out = _xml("\n\n".join([*(problem.block for problem in problems), *result.notes]))
    return case


def _case(name: str, path: str, seconds: float = 0.0) -> Case:
    case = Case(_xml(name), classname=_xml(path), time=seconds)
    case.file = _xml(path)
    return case


def _outcome(kind: type[Error | Failure], problems: list[Problem]) -> Error | Failure:
    """One outcome with all problems, because many readers only show the first of several."""
    worst = problems[0]
    outcome = kind(_xml(worst.message), _xml(title(worst.code, worst.severity)))
    outcome.text = _xml("\n\n".join(problem.block for problem in problems))
    return outcome


def _xml(text: str) -> str:
    """The text without characters that XML 1.0 cannot represent."""
    lines = (plain(line) for line in text.split("\n"))
    return re.sub("[\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):x}", "\n".join(lines))
