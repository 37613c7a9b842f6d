"""A layer that reads one triangle of a symmetric matrix is not accused of sharing its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.checks.making import examined

A = np.array([[2.0, 0.5], [0.5, 1.5]])
SEVERAL = np.stack([A, 2 * A])
B = np.random.default_rng(0).standard_normal((8, 8))
LARGE = B @ B.T / 8 + 2 * np.eye(8)


class OfOneTriangle(torch.autograd.Function):
    """The lower triangle times (1, 2, 3), with a backward of the class's own."""

    weights = torch.tensor([[1.0, 0.0], [2.0, 3.0]])

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        return a * OfOneTriangle.weights


class Shared(OfOneTriangle):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        right = g * OfOneTriangle.weights
        return (right + right.T) / 2


class Transposed(OfOneTriangle):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return (g * OfOneTriangle.weights).T


class Doubled(OfOneTriangle):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        right = g * OfOneTriangle.weights
        return right + torch.tril(right, -1).T


@pytest.mark.parametrize("a", [A, SEVERAL, LARGE], ids=["one", "several", "large"])
@pytest.mark.parametrize("layer", [torch.linalg.cholesky, torch.linalg.eigvalsh])
def test_a_gradient_that_is_shared_out_is_a_note(layer: object, a: np.ndarray) -> None:
    answer = examined(layer, {"a": a}, dtype="float64")
    assert not [finding for finding in answer.findings if finding.severity == "error"]
    assert {check.status for check in answer.checks} == {"passed"}
    assert any("one triangle of `a`" in note for note in answer.notes)


def test_a_hermitian_matrix() -> None:
    a = np.array([[2.0, 0.5 + 0.25j], [0.5 - 0.25j, 1.5]])
    for layer in (torch.linalg.eigvalsh, torch.linalg.cholesky):
        answer = examined(layer, {"a": a})
        assert not answer.findings
        assert {check.status for check in answer.checks} == {"passed"}


def test_no_matrices_at_all() -> None:
    def pooled(a: Any) -> Any:
        return torch.nn.functional.adaptive_avg_pool1d(a, 2)

    answer = examined(pooled, {"a": np.zeros((0, 4, 4))}, dtype="float64")
    assert not [finding for finding in answer.findings if finding.severity == "error"]


def test_it_behaves_as_well() -> None:
    """Forward and reverse mode of Cholesky share its derivative out in different ways."""
    assert not examined(torch.linalg.cholesky, {"a": A}, behaviour=True).findings
    assert not examined(Shared.apply, {"a": A}, behaviour=True).findings


def test_a_parameter_is_a_matrix_too() -> None:
    class Whitened(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.covariance = torch.nn.Parameter(torch.eye(2))

        def forward(self, x: Any) -> Any:
            return torch.linalg.cholesky(self.covariance) @ x

    answer = examined(Whitened(), {"x": np.array([0.5, 2.0])})
    assert not answer.findings
    assert any("one triangle of `covariance`" in note for note in answer.notes)


def test_what_is_no_sharing_out_is_judged() -> None:
    apart = A + np.array([[0.0, 0.1], [0.0, 0.0]])
    assert {
        f.code for f in examined(torch.linalg.cholesky, {"a": apart}, blaming=False).findings
    } == {"GC101"}
    assert not examined(Shared.apply, {"a": A}).findings
    for wrong in (Transposed, Doubled):
        assert {f.code for f in examined(wrong.apply, {"a": A}, blaming=False).findings} == {
            "GC101"
        }


def test_a_matrix_that_is_read_whole_is_judged() -> None:
    class Whole(torch.autograd.Function):
        weights = torch.tensor([[1.0, 2.0], [0.5, 1.0]])

        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * Whole.weights

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return (g * Whole.weights + (g * Whole.weights).T) / 2

    assert {f.code for f in examined(Whole.apply, {"a": A}, blaming=False).findings} == {"GC101"}
