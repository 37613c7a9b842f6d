import io
import json

from gradcheck_cli.report import open_writer
from gradcheck_cli.report.json_report import as_json
from gradcheck_cli.report.style import Style

from . import samples


def test_each_spec_is_a_line_as_soon_as_it_ends_and_the_run_is_the_last_one() -> None:
    report, stream = samples.everything(), io.StringIO()
    writer = open_writer("jsonl", stream, Style(width=120))
    for count, result in enumerate(report.results, 1):
        writer.spec(result)
        assert stream.getvalue().count("\n") == count
    writer.finish(report)
    *results, run = map(json.loads, stream.getvalue().splitlines())
    assert {**run, "results": results} == as_json(report)
