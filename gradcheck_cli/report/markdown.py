"""Markdown for a comment on a pull request, and for the summary of a step on GitHub."""

from __future__ import annotations

import html
import re

from gradcheck_cli.domain.report import Report
from gradcheck_cli.report import ReportWriter
from gradcheck_cli.report.blocks import title
from gradcheck_cli.report.problems import Problem, problems
from gradcheck_cli.report.style import plain
from gradcheck_cli.report.summary import summary_line

LONGEST = 60_000  # characters; a comment on GitHub has at most 65,536


class Writer(ReportWriter):
    """The summary, followed by each problem with its screen folded away, worst first. Accepted
    findings are only counted in the summary; so are notes of a quiet report."""

    def finish(self, report: Report) -> None:
        parts = [f"### gradcheck\n\n{html.escape(summary_line(report).plain, quote=False)}\n"]
        shown = [problem for problem in problems(report) if not problem.allowed]
        if self._style.quiet:
            shown = [problem for problem in shown if problem.severity != "note"]
        room = LONGEST - len(parts[0])
        for position, problem in enumerate(shown):
            section = _section(problem)
            room -= len(section)
            if room < 0:
                rest = len(shown) - position
                parts.append(f"\n…and {rest} more, which do not fit here.\n")
                break
            parts.append(section)
        self._stream.write("".join(parts))


def _section(problem: Problem) -> str:
    heading = title(problem.code, problem.severity)
    about = [f"<b>{heading}</b>"]
    about += [f"<code>{html.escape(problem.spec)}</code>"] if problem.spec else []
    about += [html.escape(problem.who)] if problem.who else []
    fence = _fence(problem.block, 3)
    return (
        f"\n<details><summary>{' '.join(about)}</summary>\n\n"
        f"{fence}text\n{problem.block}\n{fence}\n\n</details>\n"
    )


def code(text: str) -> str:
    """`text` as code, also inside a table."""
    fence = _fence(text, 1)
    space = " " if "`" in text else ""
    return f"{fence}{space}{plain(text)}{space}{fence}".replace("|", "\\|")


def _fence(text: str, least: int) -> str:
    """A fence of more backticks than `text` has in a row."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))
