"""Gradients at ties: each entry may be any slope of its kink, all of them together not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from gradcheck_cli import check
from gradcheck_cli.domain.evaluation import FIRST_ORDER, SECOND
from tests.checks.making import examined
from tests.checks.test_verdicts import function
from tests.every import first

pytestmark = pytest.mark.usefixtures("one_thread")

TIED = {"x": np.array([1.0, 1.0, 0.0])}
SAME = {"x": np.array([1.0, 2.0]), "y": np.array([1.0, 0.0])}


def codes(layer: Any, inputs: dict[str, Any]) -> set[str]:
    return {f.code for f in examined(layer, inputs).findings if f.severity != "note"}


def largest(share: float) -> Any:
    return function(lambda x: x.max(), lambda g, x: g * share * (x == x.max()))


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_shares_of_a_tie_that_do_not_add_up_are_wrong(share: float) -> None:
    answer = examined(largest(share), TIED)
    assert {f.code for f in answer.findings if f.severity == "error"} == {"GC101"}
    wrong = next(f for f in answer.findings if f.code == "GC101")
    assert f"the slope is 1, but the gradient gives {2 * share:.6g}" in str(wrong)
    assert wrong.pattern is None


def test_a_tie_of_two_inputs_that_is_counted_twice_is_wrong() -> None:
    both = function(torch.maximum, lambda g, x, y: (g * (x >= y), g * (y >= x)))
    assert codes(both, SAME) == {"GC101"}
    one = function(torch.maximum, lambda g, x, y: (g * (x >= y), g * (y > x)))
    assert codes(one, SAME) == set()


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: x.max(),
        lambda x: x.min() - x.max(),
        lambda x: x.median(),
        lambda x: x.sort().values * torch.tensor([1.0, 2.0, 3.0], dtype=x.dtype),
        lambda x: F.relu(x - 1) + F.relu(1 - x).sum(),
        lambda x: (x[:, None] - x[None]).abs().sum(),
        lambda x: torch.softmax(x - x.detach(), 0).max(),
        lambda x: (x - x.detach()).norm(),
    ],
)
def test_right_choices_at_ties_pass(layer: Callable[..., Any]) -> None:
    assert codes(layer, TIED) == set()


def steps(slope: float) -> Any:
    """clip(x, -0.7, 0.7) with this slope of its own at the kinks."""
    return function(
        lambda x: torch.clamp(x, -0.7, 0.7),
        lambda g, x: g * torch.where(x.abs() == 0.7, slope, 1.0 * (x.abs() < 0.7)),
    )


BESIDE = {
    "of a bound": lambda x: F.relu(F.hardtanh(x, -0.7, 0.7)),
    "and of another kink": lambda x: F.hardtanh(x, -0.7, 0.7).sum() + F.relu(x).sum(),
    "of a mask": lambda x: torch.where(x < 0.7, x, 0.7 + 0 * x),
    "of an array": lambda x: torch.maximum(x, torch.tensor(0.7, dtype=x.dtype)),
    "of a difference": lambda x: F.relu(3 * x - 2.1) + F.relu(5 * x - 1.5),
    "of a quotient": lambda x: F.hardtanh(x / 0.7),
    "by a rule of one's own": steps(0.5),
}


@pytest.mark.parametrize("size", [5, 1500])
@pytest.mark.parametrize("name", BESIDE)
def test_a_kink_within_the_rounding_of_the_inputs_accuses_nobody(name: str, size: int) -> None:
    """float32 has a number for 0.7, and is at a kink there; 0.7 and this number are apart."""
    numbers = np.array([0.7, 0.3, -0.7, 0.0, 1.9], np.float32)
    x = np.resize(numbers, size)
    report = check(BESIDE[name], torch.from_numpy(x), dtypes="float32")
    assert not [f for f in report.findings if f.severity != "note"]


@pytest.mark.parametrize("size", [5, 1500])
def test_a_slope_of_neither_side_is_wrong_beside_a_kink(size: int) -> None:
    x = np.resize(np.array([0.7, 0.3, -0.2, 0.1, 1.9], np.float32), size)
    off = function(
        lambda x: torch.clamp(x, -0.7, 0.7),
        lambda g, x: g * torch.where(x == x[0], 3.0, 1.0 * (x < 0.7)),
    )
    answer = examined(off, {"x": x}, dtype="float32")
    assert [f for f in answer.findings if f.severity == "error"]


@pytest.mark.parametrize("off", [1e-3, 1e-6])
def test_what_is_further_from_a_kink_than_rounding_is_accused(off: float) -> None:
    """1 + x rounds to 1 for small x, however exactly x is known."""
    answer = examined(lambda x: F.relu((1 + off * x) - 1), {"x": [1e-3, 2e-4]}, dtype="float32")
    assert bool([f for f in answer.findings if f.severity == "error"]) == (off < 1e-3)


def test_a_right_gradient_beside_many_kinks_is_not_called_wrong() -> None:
    x = np.resize(np.array([0.7, 0.3, -0.7, 0.0, 1.9], np.float32), 1500)
    answer = examined(lambda x: torch.maximum(x, torch.tensor(0.7)), {"x": x}, dtype="float32")
    assert not [f for f in answer.findings if f.severity == "error" or "wrong" in f.message]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "layer",
    [
        lambda x: torch.clamp(x, min=x.mean()),  # 0.3 is the mean, and rounding moves it
        lambda x: F.hardshrink(x, 0.3),
        lambda x: torch.floor(10 * x) * x,  # 10 times the float64 next to 0.3 is 3, rounded
        lambda x: torch.fmod(x, 0.1),
        lambda x: F.hardshrink(x, 0.3) + F.softshrink(x, 0.1),  # nothing is smooth at some points
    ],
)
@pytest.mark.parametrize("x", first(2, [[0.3, 0.7, -0.1, 0.3], [-0.3, 0.1], [0.3]]))
def test_a_jump_within_the_rounding_of_the_inputs_accuses_nobody(
    layer: Any, dtype: str, x: list[float]
) -> None:
    answer = examined(layer, {"x": np.array(x, dtype)}, dtype=dtype)
    assert not [f for f in answer.findings if f.severity == "error"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("modes", [FIRST_ORDER, ("reverse",), ("forward",)])
def test_what_is_flat_around_a_tie_is_smooth(modes: Any, dtype: str) -> None:
    layer = lambda x: torch.clamp(x.norm(), min=1e-6)  # noqa: E731
    answer = examined(layer, {"x": np.zeros(2)}, dtype=dtype, modes=modes)
    assert answer.failure is None
    assert not answer.findings


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: F.smooth_l1_loss(x, torch.full_like(x, 0.2), beta=0.1, reduction="none"),
        lambda x: F.huber_loss(3 * x, torch.full_like(x, 0.2), delta=0.1, reduction="none"),
        lambda x: torch.where(3 * x < 0.3, x**2, x**3),
    ],
)
def test_a_second_derivative_may_jump_within_the_rounding_of_the_inputs(layer: Any) -> None:
    x = np.array([0.1, 0.3, 0.7], np.float32)
    answer = examined(layer, {"x": x}, dtype="float32", modes=(*FIRST_ORDER, *SECOND))
    assert not [f for f in answer.findings if f.severity == "error"]
