from __future__ import annotations

import json
from dataclasses import replace

from gradcheck_cli.domain.report import Report

from . import samples
from .writing import written


def test_each_problem_is_an_entry_that_gitlab_takes() -> None:
    found = json.loads(written("gitlab", samples.everything()))
    assert [(one["check_name"], one["severity"]) for one in found] == [
        ("GC905", "critical"),
        ("GC201", "critical"),
        ("GC101", "critical"),
        ("GC401", "info"),
    ]
    assert found[1] == {
        "description": "error[GC201] nan-gradient reciprocal_exp torch, tensorflow float32 "
        "reverse: the gradient is nan, and the truth is a number\n"
        "overflows float32: exp(100) = 2.69e+43 > 3.40e+38",
        "check_name": "GC201",
        "fingerprint": "a1b2c3",
        "severity": "critical",
        "location": {"path": "specs/reciprocal_exp.yaml", "lines": {"begin": 6}},
    }
    assert len({one["fingerprint"] for one in found}) == 4


def left_out() -> Report:
    finding = samples.nan_finding("torch")
    ignored = replace(finding, reason="--ignore GC201")
    allowed = replace(finding, allowed=True, reason="known")
    result = replace(samples.reciprocal_exp(), findings=(allowed,), suppressed=(ignored, ignored))
    return samples.report(result)


def test_what_does_not_count_is_one_entry_with_its_count() -> None:
    *_, last = json.loads(written("gitlab", left_out()))
    words = "1 allowed; 2 findings ignored by --ignore GC201"
    assert (last["description"], last["severity"]) == (words, "info")
