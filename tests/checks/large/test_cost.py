"""What the check of a large layer takes, counted in runs of the layer: on no machine is it busy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.checks import examination
from gradcheck_cli.checks.behaviour import checks
from gradcheck_cli.checks.large.forward_mode import Forward
from gradcheck_cli.testing.api import check
from gradcheck_cli.truth.layers import projections
from tests.checks.making import behaviour, examined

HIDDEN = torch.randn(128, 128, generator=torch.Generator().manual_seed(0))
COST = {torch.float32: 1, torch.float64: 2}


@pytest.mark.usefixtures("is_large")
@pytest.mark.parametrize(
    ("activation", "most"),
    [  # forward runs in float32, of which a backward pass takes two
        (torch.tanh, 54),  # 52 were counted
        (torch.relu, 54),  # 52: kinks do not matter
        (lambda y: torch.relu(y) @ HIDDEN.to(y.dtype), 54),
        (lambda y: torch.tanh(y.float()).to(y.dtype), 340),  # 334: again without the cast
    ],
)
def test_a_right_layer_of_one_matrix_takes_few_runs(
    activation: Callable[[Any], Any], most: int
) -> None:
    spent: list[int] = []

    def layer(x: Any, w: Any) -> Any:
        y = activation(x @ w)
        spent.append(COST[x.dtype])
        if y.requires_grad:
            y.register_hook(lambda g: spent.append(2 * COST[g.dtype]))
        if torch.autograd.forward_ad._current_level >= 0:
            spent.append(COST[x.dtype])
        return y

    rng = np.random.default_rng(0)
    inputs = {"x": rng.standard_normal((16, 128)), "w": rng.standard_normal((128, 128)) / 128**0.5}
    answer = examined(layer, inputs, dtype="float32")
    assert not answer.findings
    (part,) = re.findall(r"(\S+) of the gradient's norm", answer.notes[-1])
    assert float(part) <= projections.TARGET_OF_MANY
    assert behaviour(layer, inputs, dtype="float32") == {}
    assert sum(spent) <= most


class _Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(128, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        DTYPES.append(x.dtype)
        return torch.tanh(self.linear(x))


DTYPES: list[torch.dtype] = []


@pytest.mark.usefixtures("is_large")
def test_parameters_that_are_many_are_known_before_the_behaviour_is_examined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In float32 alone, then: of a copy in float64 nothing but its size would be used."""
    at_behaviour: list[int] = []

    def behave(*given: Any) -> Any:
        at_behaviour.append(len(DTYPES))
        return checks.behave(*given)

    monkeypatch.setattr(examination, "behave", behave)
    report = check(_Module(), np.ones((4, 128)), engines=["torch"], dtypes=["float32"])
    assert report.results[0].status == "passed"
    (before,) = at_behaviour
    assert {torch.float32, torch.float64} == set(DTYPES[:before])
    assert {torch.float32} == set(DTYPES[before:])


@pytest.mark.usefixtures("is_large")
def test_a_gradient_that_is_zero_asks_for_no_slopes_beside_the_point() -> None:
    """Its digits are rounding alone, which no other slope has to explain."""
    runs: list[torch.dtype] = []

    def layer(x: Any, w: Any, b: Any) -> Any:
        runs.append(x.dtype)
        y = x @ w + b
        return torch.tanh(y - y.mean(0))

    rng = np.random.default_rng(0)
    inputs = {"x": rng.standard_normal((16, 128)), "w": rng.standard_normal((128, 128)) / 128**0.5}
    answer = examined(layer, {**inputs, "b": rng.standard_normal(128)}, dtype="float32")
    assert answer.findings == ()
    assert runs.count(torch.float64) <= 12  # 11; 47 with slopes


@pytest.mark.usefixtures("is_large")
def test_units_that_rounding_takes_beyond_their_kinks_are_excused_by_a_few_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sums are rounded where they are large, so the rounding of the inputs reaches few of the
    kinks. What excuses reverse mode excuses the same product by forward mode."""
    monkeypatch.setattr(Forward, "_slopes_beside", None)
    rng, runs = np.random.default_rng(4), []
    inputs = {
        "x": rng.standard_normal((16, 256)),
        "w": rng.standard_normal((256, 256)) / 16,
        "v": rng.standard_normal((256, 256)) / 16,
    }
    inputs = {name: value.astype(np.float32).astype(np.float64) for name, value in inputs.items()}
    sums = inputs["x"] @ inputs["w"]
    bias = np.float32(rng.uniform(-4e-7, 4e-7, 256) - sums[np.arange(256) % 16, np.arange(256)])
    inputs["b"] = np.where(np.arange(256) < 16, bias, 0.1).astype(np.float64)

    def sum_of(x: Any, w: Any, b: Any) -> Any:
        return (x @ w + b + 8) - 8

    def layer(x: Any, w: Any, b: Any, v: Any) -> Any:
        runs.append(x.dtype)
        return torch.relu(sum_of(x, w, b)) @ v

    wide = [torch.tensor(inputs[name]) for name in "xwb"]
    narrow = sum_of(*[one.float() for one in wide])
    assert torch.count_nonzero((narrow > 0) != (sum_of(*wide) > 0)) > 2
    answer = examined(layer, inputs, dtype="float32")
    assert {one.code for one in answer.findings} == {"GC502"}
    assert runs.count(torch.float64) <= 12  # 8
