"""The report as one HTML file with text and pictures, which needs no network.

`page` and `section` compute the content; `templates` has the markup, style and script.
"""

from __future__ import annotations

from gradcheck_cli.domain.report import Report
from gradcheck_cli.report import ReportWriter


class Writer(ReportWriter):
    """One page, written at the end of the run."""

    def finish(self, report: Report) -> None:
        from gradcheck_cli.report.html.page import page

        self._stream.write(page(report))
