"""Mistakes in the derivatives of large layers are found, whatever their pattern, and named by the
array that has them; right layers pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.checks.large import projected
from gradcheck_cli.truth.numerics import block_sums
from tests.checks.large.planted import MISTAKES, SAMPLES, Affine, inputs
from tests.checks.large.test_cost import HIDDEN
from tests.checks.making import behaviour, examined
from tests.every import first

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "a hidden relu": lambda y: torch.relu(y) @ HIDDEN.to(y.dtype),
}


@pytest.fixture(params=["tangents", "differences"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer without operations that have rows is compared with differences."""
    if request.param == "differences":
        monkeypatch.setattr(projected, "lifted_tangents", lambda *_: None)


@pytest.mark.usefixtures("is_large", "by")
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_right_layer_passes(activation: str) -> None:
    layer = Affine(activation=ACTIVATIONS[activation])
    assert examined(layer, inputs(), dtype="float32").findings == ()
    assert behaviour(layer, inputs(), dtype="float32") == {}


CASES = [(name, activation) for activation in ACTIVATIONS for name in MISTAKES]


@pytest.mark.usefixtures("is_large", "by")
@pytest.mark.parametrize(("mistake", "activation"), first(5, CASES))
def test_a_mistake_is_found_in_its_array(mistake: str, activation: str) -> None:
    layer = Affine(mistake, ACTIVATIONS[activation])
    found = examined(layer, inputs(), dtype="float32").findings
    assert {(one.mode, one.input) for one in found} == {("reverse", MISTAKES[mistake].leaf)}
    assert {one.code for one in found} <= set(MISTAKES[mistake].codes)


@pytest.mark.usefixtures("is_large")
@pytest.mark.parametrize("activation", first(1, list(ACTIVATIONS)))
def test_a_mistake_of_forward_mode_is_found(activation: str) -> None:
    layer = Affine(activation=ACTIVATIONS[activation], forward_mode=True)
    found = examined(layer, inputs(), dtype="float32").findings
    assert {(one.code, one.mode) for one in found} == {("GC101", "forward")}


class _Last(torch.autograd.Function):
    """Its backward reads the arrays of the last call, whichever that was."""

    kept: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        _Last.kept = x.detach(), w.detach()
        return x @ w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = _Last.kept
        return g @ w.T, x.T @ g


@pytest.mark.usefixtures("is_large")
def test_arrays_that_a_call_leaves_for_another_are_found_where_gradients_are_sums() -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((200, 200)) / 200**0.5
    assert w.size > block_sums.FEW
    given = {"x": rng.standard_normal((SAMPLES, 200)), "w": w}
    found = behaviour(lambda x, w: torch.tanh(_Last.apply(x, w)), given, dtype="float32")
    assert found.keys() == {"GC605"}
