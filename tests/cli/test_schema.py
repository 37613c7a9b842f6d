import json
from pathlib import Path

from gradcheck_cli import specfile
from gradcheck_cli.report.schema import report_schema

from .calling import call_here


def test_both_schemas_are_printed_as_json(tmp_path: Path) -> None:
    assert json.loads(call_here("schema", cwd=tmp_path).out) == specfile.schema()
    assert json.loads(call_here("schema", "spec", cwd=tmp_path).out) == specfile.schema()
    assert json.loads(call_here("schema", "report", cwd=tmp_path).out) == report_schema()


def test_there_is_no_third(tmp_path: Path) -> None:
    screen = call_here("schema", "reprot", cwd=tmp_path)
    assert (screen.code, screen.out) == (2, "")
