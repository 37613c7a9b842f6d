import copy
import io
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.search import Region, Search, SearchedFix, Witness
from gradcheck_cli.report import open_writer
from gradcheck_cli.report.blocks import finding_block
from gradcheck_cli.report.json_report import as_json
from gradcheck_cli.report.schema import report_schema
from gradcheck_cli.report.style import Style

from . import samples
from .validator import mistakes


def written() -> dict[str, Any]:
    stream = io.StringIO()
    writer = open_writer("json", stream, Style(width=120))
    report = samples.everything()
    for result in report.results:
        writer.spec(result)
    assert stream.getvalue() == ""
    writer.finish(report)
    loaded: dict[str, Any] = json.loads(stream.getvalue(), parse_constant=pytest.fail)
    return loaded


def test_the_report_is_what_its_schema_says() -> None:
    assert mistakes(written(), report_schema()) == []


def test_the_keys_of_the_contract() -> None:
    report = written()
    assert list(report) == [
        "schema_version",
        "tool",
        "seed",
        "fail_on",
        "duration_s",
        "interrupted",
        "signal",
        "summary",
        "errors",
        "results",
    ]
    assert report["schema_version"] == 1
    assert report["tool"] == {"name": "gradcheck", "version": "0.1.0", "engines": samples.ENGINES}
    assert report["summary"] == {
        "specs": 5,
        "passed": 3,
        "failed": 2,
        "errors": 1,
        "checks": 20,
        "findings": {"GC101": 3, "GC201": 2, "GC401": 3},
        "allowed": 0,
        "ignored": {},
        "suppressed": {},
        "unchanged": 0,
    }


def test_a_searched_finding_has_its_region() -> None:
    edges = np.array(88.75), np.array(100.0)
    witness = Witness({"x": np.array(90.0)}, "x", math.nan, 1.0)
    search = Search(
        "torch",
        "float32",
        "gradient-nonfinite",
        "found",
        witness,
        Region(({"x": edges},), (), "x >= 88.75", 0.1),
    )
    fixed = SearchedFix("torch", "float32", "exp(-x)", ("a rule",), ("undefined",), (search,))
    fix = replace(samples.tried_fix(), searched=fixed)
    finding = replace(samples.nan_finding("torch"), search=search, at=("x=90",), fix=fix)
    whole = as_json(samples.report(replace(samples.quadratic(), findings=(finding,))))
    assert mistakes(whole, report_schema()) == []
    found = whole["results"][0]["findings"][0]
    assert (found["at"], found["region"]["boxes"]) == (["x=90"], [{"x": [88.75, 100.0]}])
    assert found["fix"]["searched"]["proven"] == ["undefined"]
    screen = "\n".join(
        line.plain for line in finding_block([finding], samples.quadratic(), Style(width=100))
    )
    assert "x=90  torch" in screen
    assert "where x >= 88.75   gradient-nonfinite, 10 % of the domain" in screen
    assert "proven absent over the same domain: undefined" in screen


def test_an_interrupted_report_names_the_signal() -> None:
    whole = as_json(samples.report(samples.quadratic()))
    assert (whole["interrupted"], whole["signal"]) == (False, None)
    early = as_json(replace(samples.report(samples.quadratic()), interrupted=True, signal=15))
    assert (early["interrupted"], early["signal"]) == (True, "SIGTERM")
    assert mistakes(early, report_schema()) == []


def test_a_finding_in_full() -> None:
    assert written()["results"][2]["findings"][0] == {
        "code": "GC201",
        "name": "nan-gradient",
        "severity": "error",
        "engine": "torch",
        "dtype": "float32",
        "mode": "reverse",
        "input": "x",
        "point": None,
        "at": None,
        "region": None,
        "index": [],
        "message": "the gradient is nan, and the truth is a number",
        "computed": "nan",
        "truth": -3.7200759760208356e-44,
        "truth_error": 4e-60,
        "finite_difference": -3.7200759760208361e-44,
        "finite_difference_error": 4.2e-53,
        "ulps": "nan",
        "cause": {
            "op": "exp",
            "phase": "forward",
            "path": "specs/reciprocal_exp.yaml",
            "line": 6,
            "column": 12,
            "detail": "overflows float32: exp(100) = 2.69e+43 > 3.40e+38",
            "kind": "overflow",
            "engine_op": "aten.exp.default",
            "proven": True,
            "proof": "with only `exp(x)` exact, the gradient is right",
            "repaired_ulps": 0.4,
        },
        "stage": None,
        "pattern": None,
        "fix": None,
        "no_fix": None,
        "location": {"path": "specs/reciprocal_exp.yaml", "line": 6, "column": 8},
        "fingerprint": "a1b2c3",
        "repeat": "gradcheck run reciprocal_exp.yaml --engine torch --dtype float32 --seed 0",
        "allowed": False,
        "reason": None,
    }


def test_a_mistake_in_a_spec() -> None:
    assert written()["errors"] == [
        {
            "code": "GC905",
            "path": "specs/bad.yaml",
            "line": 2,
            "column": 8,
            "message": "unknown operation `epx`",
            "help": "did you mean `exp`?",
        }
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_are_strings(value: float) -> None:
    from gradcheck_cli.report.json_report import as_json

    (entry,) = samples.nan_finding("torch").entries
    finding = replace(samples.nan_finding("torch"), entries=(replace(entry, computed=value),))
    report = samples.report(replace(samples.reciprocal_exp(), findings=(finding,)))
    assert as_json(report)["results"][0]["findings"][0]["computed"] == str(value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), 2),
        (("seed",), "0"),
        (("extra",), 1),
        (("results", 0, "status"), "ok"),
        (("results", 0, "checks", 0, "max_ulps"), "many"),
        (("results", 2, "findings", 0, "code"), "201"),
        (("results", 2, "findings", 0, "cause", "phase"), "sideways"),
        (("results", 2, "findings", 0, "cause", "kind"), "bad luck"),
        (("results", 2, "findings", 0, "cause", "proven"), "yes"),
        (("results", 2, "findings", 0, "location", "line"), 0),
    ],
)
def test_the_schema_refuses_what_is_wrong(path: tuple[Any, ...], value: Any) -> None:
    report = copy.deepcopy(written())
    place: Any = report
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert mistakes(report, report_schema())


def test_a_fix_that_was_tried() -> None:
    from gradcheck_cli.report.json_report import as_json

    fixed = replace(samples.nan_finding("torch"), fix=samples.tried_fix())
    result = replace(samples.reciprocal_exp(), findings=(fixed,))
    (finding,) = as_json(samples.report(result))["results"][0]["findings"]
    assert list(finding["fix"])[:5] == ["before", "after", "ulps_before", "ulps_after", "code"]
    assert finding["fix"]["after"] == "exp(-x)"
    assert finding["fix"]["ulps_before"] == "nan"
    assert finding["fix"]["points"] == {"tried": 8, "right": 7}


def test_a_name_that_is_no_utf_8_is_written_so_that_every_reader_takes_it() -> None:
    stream = io.StringIO()
    result = samples.quadratic()
    source = replace(result.source, path="bad\udcff.yaml")
    writer = open_writer("json", stream, Style(width=120))
    writer.finish(samples.report(replace(result, source=source)))
    assert "\\udcff" not in stream.getvalue().replace("\\\\udcff", "")
    assert json.loads(stream.getvalue())["results"][0]["path"] == "bad\\udcff.yaml"
