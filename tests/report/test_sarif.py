"""SARIF is compared with its official schema, which OASIS publishes; the file here is the one of
the npm package @microsoft/jest-sarif 1.0.0-beta.0."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.domain.report import Report

from . import samples
from .validator import mistakes
from .writing import written

SCHEMA = json.loads(Path(__file__).with_name("sarif-2.1.0-rtm.5.json").read_text("utf-8"))


def log(report: Report) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(written("sarif", report))
    return loaded


@pytest.mark.parametrize(
    "report", [samples.everything(), samples.strange(), samples.report(), samples.many(3)]
)
def test_a_log_is_what_the_official_schema_says(report: Report) -> None:
    assert mistakes(log(report), SCHEMA) == []


def test_a_result_in_full() -> None:
    (run,) = log(samples.everything())["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["GC101", "GC201", "GC401", "GC905"]
    assert rules[1]["help"]["markdown"].startswith("# GC201 nan-gradient\n")
    result = run["results"][1]
    assert "error[GC201]" in result.pop("properties")["screen"]
    assert result == {
        "ruleId": "GC201",
        "ruleIndex": 1,
        "level": "error",
        "message": {
            "text": "reciprocal_exp, torch, tensorflow float32 reverse: the gradient is nan, and "
            "the truth is a number\noverflows float32: exp(100) = 2.69e+43 > 3.40e+38"
        },
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {
                        "uri": "specs/reciprocal_exp.yaml",
                        "uriBaseId": "%SRCROOT%",
                    },
                    "region": {"startLine": 6, "startColumn": 12, "endLine": 6, "endColumn": 18},
                },
                "logicalLocations": [{"name": "reciprocal_exp"}],
            }
        ],
        "partialFingerprints": {"gradcheck/v1": "a1b2c3"},
        "occurrenceCount": 2,
    }


def test_what_a_spec_allows_is_suppressed_with_its_reason() -> None:
    allowed = replace(samples.nan_finding("torch"), allowed=True, reason="we never get there")
    (run,) = log(samples.report(replace(samples.reciprocal_exp(), findings=(allowed,))))["runs"]
    assert run["results"][0]["suppressions"] == [
        {"kind": "inSource", "justification": "we never get there"}
    ]
