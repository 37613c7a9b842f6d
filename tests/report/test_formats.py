"""What all formats have in common: the same report, said in each of them."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gradcheck_cli.domain.report import Report
from gradcheck_cli.report import FORMATS
from gradcheck_cli.report.summary import summary_line
from tests.every import first

from . import samples
from .writing import written

SNAPSHOTS = Path(__file__).parent / "snapshots"
TEXTS = [name for name in FORMATS if name != "html"]  # a page is looked at in a browser


def sarif_results(text: str) -> list[dict[str, Any]]:
    (run,) = json.loads(text)["runs"]
    return [result for result in run["results"] if "suppressions" not in result]


def codes_in(name: str, text: str) -> set[str]:
    if name == "sarif":  # the pages of its rules name further codes
        return {result["ruleId"] for result in sarif_results(text)}
    return set(re.findall(r"GC\d{3}", text))


@pytest.mark.parametrize("name", TEXTS)
def test_every_format_has_the_same_codes(name: str) -> None:
    assert codes_in(name, written(name, samples.everything())) == {
        *("GC101", "GC201", "GC401", "GC905")
    }


def test_formats_that_count_findings_agree() -> None:
    report = samples.everything()
    whole = json.loads(written("json", report))
    expected = Counter(whole["summary"]["findings"])
    lines = [json.loads(line) for line in written("jsonl", report).splitlines()]
    assert Counter(lines[-1]["summary"]["findings"]) == expected
    assert Counter(one["code"] for line in lines[:-1] for one in line["findings"]) == expected
    expected["GC905"] = 1
    counts: Counter[str] = Counter()
    for result in sarif_results(written("sarif", report)):
        counts[result["ruleId"]] += result["occurrenceCount"]
    assert counts == expected
    assert Counter(re.findall(r"\[(GC\d+)\]", written("concise", report))) == expected


@pytest.mark.parametrize("name", ["full", "github", "markdown"])
def test_formats_for_people_end_or_begin_with_the_summary(name: str) -> None:
    report = samples.everything()
    assert " ".join(summary_line(report).plain.split()) in " ".join(written(name, report).split())


@pytest.mark.parametrize("name", ["full", "concise", "junit", "github", "markdown", "matrix"])
def test_what_does_not_count_is_counted(name: str) -> None:
    """GitLab's list has no place for it."""
    assert "2 findings ignored by" in " ".join(written(name, samples.strange()).split())


@pytest.mark.parametrize("name", [*FORMATS, "suite"])
def test_every_format_says_what_would_mend_a_mistake(name: str) -> None:
    said = written(name, samples.everything())
    assert "did you mean" in " ".join(said.split())


def test_logs_of_machines_count_what_does_not_count() -> None:
    report = samples.strange()
    (run,) = json.loads(written("sarif", report))["runs"]
    whole = json.loads(written("json", report))
    for summary in (run["properties"]["summary"], whole["summary"]):
        assert sum(summary["suppressed"].values()) == 2


@pytest.mark.parametrize("fail_on", ["error", "warning"])
def test_a_test_fails_where_the_spec_makes_the_run_fail(fail_on: str) -> None:
    (finding,) = replace(samples.relu_kink()).findings[:1]
    warned = replace(
        samples.quadratic(), findings=(replace(finding, code="GC303", severity="warning"),)
    )
    report = replace(
        samples.report(warned, samples.reciprocal_exp(), errors=(samples.spec_error(),)),
        fail_on=fail_on,
    )
    suites = ElementTree.fromstring(written("junit", report))
    failing = sum(result.fails_on(fail_on) for result in report.results)
    assert failing == {"error": 1, "warning": 2}[fail_on]
    assert {key: suites.get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": str(failing),
        "errors": "1",
    }


def lasting(text: str) -> str:
    """Without the pages of the codes, which SARIF carries and which have tests of their own."""
    return re.sub('"# GC.*"', '"the page"', text)


@pytest.mark.parametrize("name", TEXTS)
def test_strange_names_and_numbers(name: str) -> None:
    """Compares with tests/report/snapshots; `make snapshots` writes them anew."""
    path = SNAPSHOTS / f"strange.{name}"
    text = lasting(written(name, samples.strange())).encode()
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_bytes(text)
    assert text == path.read_bytes()


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_in_a_name_steers_whoever_reads_it(name: str) -> None:
    text = written(name, samples.strange())
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", text)
    assert not re.search("^::error:: ", text, re.M)
    if name == "junit":
        ElementTree.fromstring(text)
    if name in ("json", "sarif", "gitlab"):
        json.loads(text, parse_constant=pytest.fail)


@pytest.mark.parametrize("name", TEXTS)
def test_a_run_without_a_spec(name: str) -> None:
    assert codes_in(name, written(name, samples.report())) == set()


@pytest.mark.parametrize("name", first(2, TEXTS))
def test_five_thousand_findings(name: str, five_thousand: Report) -> None:
    start = time.process_time()
    text = written(name, five_thousand)
    assert "GC201" in text
    assert time.process_time() - start < 60  # seconds; a quadratic writer takes minutes


@pytest.fixture(scope="module")
def five_thousand() -> Report:
    return samples.many(5000)
