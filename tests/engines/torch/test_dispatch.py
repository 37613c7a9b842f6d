"""Operations of PyTorch that take functions: what runs inside them is seen, and their tangents,
which PyTorch drops, are left out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._higher_order_ops.map import map as each_row
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from gradcheck_cli import check


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]


def branch(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda t: t.sin() * t, lambda t: t.exp(), (x,))


def loop(x: Any) -> Any:
    return while_loop(
        lambda i, t: i < 3, lambda i, t: (i + 1, t.sin() + x), (torch.tensor(0), x.clone())
    )[1]


def running_mean(x: Any) -> Any:
    def step(before: Any, row: Any) -> Any:
        after = 0.9 * before + 0.1 * row
        return after.clone(), after * row

    return scan(step, torch.zeros_like(x[0]), x)[1]


def rows(x: Any) -> Any:
    return each_row(lambda row: row.sin() * row.sum(), x)


X = torch.tensor([[0.4, -0.1], [0.9, 0.3]])


@pytest.mark.parametrize(
    ("layer", "name", "truth"),
    [
        (branch, "cond", "certified, from the trace"),
        (loop, "while_loop", "certified, from the trace"),
        (running_mean, "scan", "certified, from the trace"),
        (rows, "map", "certified, from the trace"),
    ],
)
def test_an_operation_that_takes_functions_is_right(layer: Any, name: str, truth: str) -> None:
    (result,) = check(layer, X).results
    assert {finding.code for finding in result.findings} == set()
    assert {(one.mode, one.truth) for one in result.checks} == {("reverse", truth)}
    assert f"torch: forward mode was left out: PyTorch's `{name}` loses tangents" in result.notes


def test_a_wrong_function_after_a_branch_is_named() -> None:
    (result,) = check(lambda x: Square.apply(branch(x)), X, dtypes=["float32"]).results
    (found,) = result.findings
    assert found.code == "GC101"
    assert found.cause is not None
    assert (found.cause.op, found.cause.text) == ("Square", "g * ctx.saved_tensors[0]")
    assert not any("TypeError" in note for note in result.notes)


def test_a_value_that_a_branch_detaches_is_named() -> None:
    def layer(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda t: t.detach() * t, lambda t: t.exp(), (x,))

    (result,) = check(layer, X, dtypes=["float32"]).results
    (found,) = result.findings
    assert found.code == "GC101"
    assert found.cause is not None
    assert (found.cause.kind, found.cause.text) == ("detached path", "t.detach()")
    assert found.cause.proven
