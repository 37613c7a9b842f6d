"""The benchmark of searches counts what is found, proven and falsely proven."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks import search

CASES = [json.loads(line) for line in search.DATA.read_text("utf-8").splitlines()]


def case(name: str) -> Mapping[str, Any]:
    return next(one for one in CASES if one["name"] == name)


def answer(kind: str, verdict: str) -> dict[str, Any]:
    return {"kind": kind, "verdict": verdict, "seconds": 1.0}


def test_a_proof_of_absence_of_what_occurs_is_false(capsys: pytest.CaptureFixture[str]) -> None:
    searches = [answer("gradient-nonfinite", "proven-absent"), answer("value-nonfinite", "found")]
    assert (
        search.summed_up("one", [case("recip_exp")], {"recip_exp": searches}, {"recip_exp": set()})
        == 1
    )
    assert "FALSE PROOF: gradient-nonfinite" in capsys.readouterr().out


def test_what_is_safe_is_counted_where_it_is_proven(capsys: pytest.CaptureFixture[str]) -> None:
    searches = [answer(kind, "proven-absent") for kind in case("exp_neg")["safe"]]
    assert (
        search.summed_up("one", [case("exp_neg")], {"exp_neg": searches}, {"exp_neg": set()}) == 0
    )
    assert "proven 6 of 6; safe in all six kinds and proven 1 of 1" in capsys.readouterr().out


def test_what_is_rare_fails_nearly_nowhere_in_the_domain(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wide = {**case("recip_exp"), "inputs": {"x": {"shape": [], "domain": [-100.0, 1e9]}}}
    kind = "gradient-underflow-to-zero"
    assert search.rare(case("recip_exp"), "reference") == set()
    assert kind in search.rare(wide, "reference")
    searches = [answer(kind, "found")]
    search.summed_up("one", [wide], {"recip_exp": searches}, {"recip_exp": {kind}})
    assert "found 1 of 4, of rare ones 1 of 1" in capsys.readouterr().out


def test_names_of_cases_are_distinct_and_no_kind_is_both() -> None:
    assert len({one["name"] for one in CASES}) == len(CASES)
    assert not [one["name"] for one in CASES if set(one["breaks"]) & set(one["safe"])]


def test_a_case_is_searched() -> None:
    answers = search.searched([case("recip_pos")], "torch", "1")
    assert not [one for one in answers["recip_pos"] if one["verdict"] == "found"]
    assert search.summed_up("one", [case("recip_pos")], answers, {"recip_pos": set()}) == 0
