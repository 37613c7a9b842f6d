"""Reports as text, as a run writes them."""

from __future__ import annotations

import io

from gradcheck_cli.domain.report import Report
from gradcheck_cli.report import open_writer
from gradcheck_cli.report.style import Style


def written(name: str, report: Report, width: int = 100, **style: bool) -> str:
    """`report` in the format `name`, with characters escaped that UTF-8 cannot hold."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="")
    writer = open_writer(name, stream, Style(width=width, **style))
    for result in report.results:
        writer.spec(result)
    writer.finish(report)
    stream.flush()
    return raw.getvalue().decode("utf-8")
