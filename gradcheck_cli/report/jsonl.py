"""JSON lines: results during a run, for programs that follow it."""

from __future__ import annotations

import json
from typing import Any

from gradcheck_cli.domain.report import Report, SpecResult
from gradcheck_cli.report import ReportWriter
from gradcheck_cli.report.json_report import result_as_json, run_as_json


class Writer(ReportWriter):
    """A line for each spec when it ends, with an element of `results` of the JSON report. The last
    line is that report without `results`."""

    def spec(self, result: SpecResult) -> None:
        self._line(result_as_json(result))

    def finish(self, report: Report) -> None:
        self._line(run_as_json(report))

    def _line(self, value: dict[str, Any]) -> None:
        self._stream.write(json.dumps(value, allow_nan=False) + "\n")
