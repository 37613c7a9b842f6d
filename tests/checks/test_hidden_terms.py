"""What hides a term of a tiny value hides it from both modes: neither is accused, unless it is off
by more than a term."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd import forward_ad

import gradcheck_cli
from tests.every import first

LOGITS = ([0.3, -0.5, 200.0], [0.0, 150.0], [1.0, 2.0, 3.0, 120.0])


def entropy(logits: torch.Tensor) -> torch.Tensor:
    p = torch.softmax(logits, -1)
    return -(p * torch.log_softmax(logits, -1)).sum()


def steeper(logits: torch.Tensor) -> torch.Tensor:
    return entropy(logits) ** 1.5


def only_by_forward_mode(value: torch.Tensor, factor: float) -> torch.Tensor:
    """The value, with this factor on its tangent."""
    primal, tangent = forward_ad.unpack_dual(value)
    return value if tangent is None else forward_ad.make_dual(primal, factor * tangent)


def codes(layer: Any, logits: list[float]) -> set[str]:
    x = torch.tensor(logits, dtype=torch.float64)
    found = gradcheck_cli.check(layer, x, dtypes=["float64"]).findings
    return {one.code for one in found}


@pytest.mark.parametrize("logits", first(2, LOGITS))
@pytest.mark.parametrize("layer", [entropy, steeper])
def test_a_lost_term_is_undecided(layer: Any, logits: list[float]) -> None:
    assert codes(layer, logits) <= {"GC501"}


@pytest.mark.parametrize("factor", [-1.0, 3.0])
def test_modes_that_are_further_apart_disagree(factor: float) -> None:
    found = codes(lambda x: only_by_forward_mode(entropy(x), factor), LOGITS[0])
    assert "GC105" in found


def test_a_mode_is_not_left_out_beside_its_finding() -> None:
    """A captured tensor takes no tangent; the note says so of it, and of nothing else."""
    weight = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)

    def layer(x: torch.Tensor) -> torch.Tensor:
        return only_by_forward_mode(x * weight, 3.0)

    report = gradcheck_cli.check(layer, torch.tensor([0.5, 0.7], dtype=torch.float64))
    assert {one.code for one in report.findings if one.mode == "forward"} & {"GC101", "GC105"}
    words = " ".join(str(report).split())
    assert "forward mode by `weight` was left out" in words
    assert "forward mode was left out" not in words


@pytest.mark.parametrize("size", first(1, [1.0, 1e-20]))
@pytest.mark.parametrize(
    ("choose", "sign"), first(1, [("maximum", 1), ("fmax", 1), ("minimum", -1)])
)
def test_a_tangent_that_a_steeper_one_absorbs_is_lost_to_rounding(
    choose: str, sign: int, size: float
) -> None:
    """PyTorch's tangent of a maximum, b' + (a > b) (a' - b'), absorbs a' beside b' in both dtypes,
    and only the term behind it is left."""

    def layer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return size * (getattr(torch, choose)(sign * y / (1 + x * x), x * y) + 0.01 * x * x)

    x, y = (torch.tensor([one], dtype=torch.float64) for one in (1e-18, 1.0))
    assert {one.code for one in gradcheck_cli.check(layer, x, y).findings} == {"GC301"}
