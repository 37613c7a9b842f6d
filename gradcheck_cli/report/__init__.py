"""Reports: one file for each format. A format prints the results of a run and computes nothing."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from gradcheck_cli.domain.report import Report, SpecResult
    from gradcheck_cli.report.style import Style

# name: (module, what it is for). A format's class is called `Writer`.
FORMATS = {
    "full": ("full", "the screen: every finding with its cause and its fix"),
    "concise": ("concise", "one line per finding and a summary, for editors and grep"),
    "json": ("json_report", "one object, whose schema `gradcheck schema report` prints"),
    "junit": ("junit", "JUnit XML: one test per spec"),
    "sarif": ("sarif", "SARIF 2.1.0, for code scanning"),
    "github": ("github", "annotations in the log of a GitHub action"),
    "gitlab": ("gitlab", "a code quality report for GitLab"),
    "markdown": ("markdown", "a comment on a pull request"),
    "matrix": ("matrix", "a Markdown table of specs by engine"),
    "suite": ("suite", "a Markdown table of operations and their findings"),
    "html": ("html", "one page with pictures, for a browser; it needs no network"),
    "jsonl": ("jsonl", "one line of JSON per spec as it finishes, then one for the run"),
}

ILLUSTRATED = ("html",)
"""The formats with pictures, which the run makes (`RunOptions.illustrated`)."""


class ReportWriter:
    """Receives each spec when it is finished, and the whole report at the end. Most formats write
    nothing before the end, because they begin with a count or with the worst finding."""

    def __init__(self, stream: TextIO, style: Style) -> None:
        self._stream = stream
        self._style = style

    def spec(self, result: SpecResult) -> None:
        pass

    def finish(self, report: Report) -> None:
        raise NotImplementedError


def open_writer(name: str, stream: TextIO, style: Style) -> ReportWriter:
    """The writer of one of FORMATS. Only the code of that format is imported."""
    module = importlib.import_module(f"gradcheck_cli.report.{FORMATS[name][0]}")
    return module.Writer(stream, style)
