"""Gradients at ties: each entry may be any slope of its kink, all of them together not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.checks.making import examined
from tests.checks.test_verdicts import function

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
