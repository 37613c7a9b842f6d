"""The report as one HTML file: words and pictures, and nothing that needs a network.

What a page shows is made in `page` and `section`; `templates` has its markup, style and script.
"""

from __future__ import annotations

from typing import TextIO

from gradcheck_cli.domain.report import Report, SpecResult
from gradcheck_cli.report.style import Style


class Writer:
    """One page, written when the run is over."""

    def __init__(self, stream: TextIO, style: Style) -> None:
        self._stream = stream

    def spec(self, result: SpecResult) -> None:
        """Nothing yet: the page begins with what failed."""

    def finish(self, report: Report) -> None:
        from gradcheck_cli.report.html.page import page

        self._stream.write(page(report))
