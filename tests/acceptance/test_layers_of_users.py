"""The layers of specs/layers/code, run once as a user runs them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.acceptance.conftest import Run


@pytest.fixture
def results(layers: Run) -> dict[str, dict[str, Any]]:
    assert layers.code == 0, layers.screen
    assert layers.report["errors"] == []
    return {result["spec"]: result for result in layers.report["results"]}


# 1/exp(x) as it is written first shows a defect, which its spec accepts with a reason: zero at 60
# and nan at 100, in both engines and both modes.
EXPECTED: dict[str, dict[str, int]] = {
    "affine_pair": {},
    "batch_norm_training": {},
    "dropout_training": {"GC601": 2},
    "fused_layer_norm": {},
    "keras_batch_norm_training": {},
    "keras_custom_layer": {},
    "keras_custom_loss": {},
    "linear_loss": {},
    "log_probabilities": {"GC201": 1, "GC203": 2},
    "log_probabilities_stable": {},
    "lstm_tagger": {},
    "reciprocal_exp_plain": {"GC201": 4, "GC302": 4},
    "reciprocal_exp_stable": {},
    "softmax_loss_pair": {},
    "spectral_filter": {},
    "spiking_neurons": {},
    "straight_through": {},
}


def test_each_layer_passes_with_the_findings_that_are_known(results: dict[str, Any]) -> None:
    found = {
        name: dict(Counter(finding["code"] for finding in result["findings"]))
        for name, result in results.items()
    }
    assert found == EXPECTED
    assert {result["status"] for result in results.values()} == {"passed"}


def test_parameters_are_checked_by_name(results: dict[str, Any]) -> None:
    def checked(name: str) -> set[str]:
        return {check["input"] for check in results[name]["checks"]}

    assert checked("lstm_tagger") == {
        "x",
        "lstm.weight_ih_l0",
        "lstm.weight_hh_l0",
        "lstm.bias_ih_l0",
        "lstm.bias_hh_l0",
        "scores.weight",
        "scores.bias",
    }
    assert checked("keras_batch_norm_training") == {"x", "gamma", "beta"}
    assert checked("linear_loss") == {"w", "b"}


def test_what_has_a_formula_beside_it_faces_the_certified_truth(results: dict[str, Any]) -> None:
    for name in ("keras_custom_layer", "fused_layer_norm", "batch_norm_training", "affine_pair"):
        assert {check["truth"] for check in results[name]["checks"]} == {"certified"}, name
    assert "certified" not in {check["truth"] for check in results["lstm_tagger"]["checks"]}


def test_the_custom_loss_has_its_known_numbers(layers: Run) -> None:
    mine = layers.screen.partition("ok    keras_custom_loss")[2].partition("float64 reverse")[2]
    shown = " ".join(mine.split()[:60])
    assert "value = 2.762641767681032," in shown
    assert "d/dkernel = [[-1.7600984777091067," in shown
