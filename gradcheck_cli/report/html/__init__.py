"""The report as one HTML file: words and pictures, and nothing that needs a network.

What a page shows is made in `page` and `section`; `templates` has its markup, style and script.
"""

from __future__ import annotations

from gradcheck_cli.domain.report import Report
from gradcheck_cli.report import ReportWriter


class Writer(ReportWriter):
    """One page, written when the run is over."""

    def finish(self, report: Report) -> None:
        from gradcheck_cli.report.html.page import page

        self._stream.write(page(report))
