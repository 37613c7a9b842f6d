import json
from pathlib import Path

from gradcheck_cli import specfile
from gradcheck_cli.report.schema import report_schema

from .calling import call


def test_both_schemas_are_printed_as_json(tmp_path: Path) -> None:
    assert json.loads(call("schema", cwd=tmp_path).out) == specfile.schema()
    assert json.loads(call("schema", "spec", cwd=tmp_path).out) == specfile.schema()
    assert json.loads(call("schema", "report", cwd=tmp_path).out) == report_schema()


def test_there_is_no_third(tmp_path: Path) -> None:
    screen = call("schema", "reprot", cwd=tmp_path)
    assert (screen.code, screen.out) == (2, "")
