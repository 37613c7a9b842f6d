"""A layer that reads one triangle of a symmetric matrix is not accused of sharing its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.judge.gate import unexplained
from tests.checks.making import examined

A = np.array([[2.0, 0.5], [0.5, 1.5]])


@pytest.mark.parametrize("layer", [torch.linalg.cholesky, torch.linalg.eigvalsh])
def test_a_gradient_that_is_shared_out_is_a_note(layer: object) -> None:
    answer = examined(layer, {"a": A}, dtype="float64")
    assert not answer.findings
    assert {check.status for check in answer.checks} == {"passed"}
    assert all(check.passed_by[0].rule == "one triangle" for check in answer.checks)
    assert not list(unexplained(answer.checks, answer.findings))
    assert any("one triangle of `a`" in note for note in answer.notes)


def test_a_matrix_that_is_not_symmetric_or_read_whole_is_judged() -> None:
    apart = A + np.array([[0.0, 0.1], [0.0, 0.0]])
    assert {f.code for f in examined(torch.linalg.cholesky, {"a": apart}).findings} == {"GC101"}

    class Shared(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * torch.tensor([[1.0, 2.0], [0.5, 1.0]])

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            both = g * torch.tensor([[1.0, 2.0], [0.5, 1.0]])
            return (both + both.T) / 2

    assert {f.code for f in examined(Shared.apply, {"a": A}).findings} == {"GC101"}
