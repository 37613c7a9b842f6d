"""Differences of a gradient say nothing where the gradient itself is contradicted, and nothing
where they cross a kink that meets the point."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.truth.layers.second_order import RowGradients, SecondTruth, Weights
from tests.checks.making import subject_of, torch_engine

UNBOUNDED = (-np.inf, np.inf)


def second(subject: Subject) -> SecondTruth:
    sizes = {leaf.name: leaf.size for leaf in subject.leaves}
    return SecondTruth(
        RowGradients(subject),
        np.ones(sum(output.size for output in subject.outputs)),
        {name: np.eye(size) for name, size in sizes.items()},
        dict.fromkeys(sizes, UNBOUNDED),
        "float64",
        {},
    )


def weights(truth: SecondTruth) -> Weights:
    sizes = truth.sizes
    zeros = {(a, b): np.zeros((sizes[a], sizes[b])) for a in sizes for b in sizes}
    return Weights(zeros, zeros, {})


class Half(torch.autograd.Function):
    """x^2, whose second entry is said to have half of its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 2 * x * torch.tensor([1.0, 0.5], dtype=x.dtype)


def test_a_gradient_is_computed_once_a_point() -> None:
    calls = []

    def layer(x: Any) -> Any:
        calls.append(1)
        return (x**3).sum()

    gradients = RowGradients(subject_of(torch_engine(), layer, x=[1.0, 2.0]))
    moved = {"x": np.array([1.5, 2.0])}
    row = np.ones(1)
    first, count = gradients.at(row, moved), len(calls)
    assert gradients.at(row, dict(moved)) is first
    assert len(calls) == count
    assert gradients.at(row, {}) is not first


def test_an_entry_of_a_gradient_that_differences_contradict_is_doubtful() -> None:
    truth = second(subject_of(torch_engine(), Half, x=[0.7, 1.3]))
    assert truth.doubtful({})["x"].tolist() == [False, True]


def test_differences_of_the_gradient_are_the_hessian() -> None:
    truth = second(subject_of(torch_engine(), lambda x, y: (x**2 * y).sum(), x=[2.0], y=[3.0]))
    own = {
        ("x", "x"): np.array([[6.0]]),
        ("x", "y"): np.array([[4.0]]),
        ("y", "x"): np.array([[4.0]]),
        ("y", "y"): np.array([[0.0]]),
    }
    blocks, reasons = truth.blocks(own, weights(truth))
    assert not reasons
    for key, block in blocks.items():
        assert abs(block.value.item() - own[key].item()) <= block.error.item() < 1e-4


def test_an_entry_that_crosses_a_kink_is_free_and_the_others_are_not() -> None:
    truth = second(
        subject_of(torch_engine(), lambda x, y: (x.abs() * y + y**2).sum(), x=[0.0], y=[3.0])
    )
    wrong = {(a, b): np.array([[7.0]]) for a in "xy" for b in "xy"}
    blocks, _ = truth.blocks(wrong, weights(truth))
    kinds = {key: PointKind(int(block.kind.item())) for key, block in blocks.items()}
    assert kinds["x", "x"] == PointKind.KINK
    assert kinds["y", "y"] != PointKind.KINK
