"""Reports: one file a format. A format prints what a run found and computes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from gradcheck_cli.domain.report import Report, SpecResult
    from gradcheck_cli.report.style import Style

FORMATS = ("full", "concise", "json")


class Writer(Protocol):
    """Receives each spec when it is finished, and the whole report at the end."""

    def spec(self, result: SpecResult) -> None: ...

    def finish(self, report: Report) -> None: ...


def open_writer(name: str, stream: TextIO, style: Style) -> Writer:
    """The writer of one of FORMATS; only that format's code is loaded."""
    if name == "full":
        from gradcheck_cli.report.full import FullWriter

        return FullWriter(stream, style)
    if name == "concise":
        from gradcheck_cli.report.concise import ConciseWriter

        return ConciseWriter(stream, style)
    if name == "json":
        from gradcheck_cli.report.json_report import JsonWriter

        return JsonWriter(stream, style)
    raise ValueError(f"no such format: {name}")
