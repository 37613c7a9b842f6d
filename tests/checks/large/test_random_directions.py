"""A large gradient along random directions: what the report promises is found, in few runs, and the
entries behind a product that is off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.checks.examination import examine
from tests.checks.making import examined, layer_problem, torch_engine

X = np.random.default_rng(0).standard_normal(3000)


class Wrong(torch.autograd.Function):
    """sum(sin(x)), wrong by `error` in one entry of the gradient."""

    error = 0.0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.sin(x).sum()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        gradient = g * torch.cos(ctx.saved_tensors[0])
        gradient[123] += g * Wrong.error
        return gradient


class Opaque(Wrong):
    """The same by NumPy: there are no operations of which a program could be made."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.from_numpy(np.asarray(np.sin(x.numpy()).sum()))


@pytest.mark.parametrize(
    ("layer", "truth"), [(Wrong, "certified, from the trace"), (Opaque, "confirmed")]
)
def test_an_error_as_large_as_promised_is_found(
    layer: Any, truth: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = examined(layer, {"x": X}, modes=("reverse",))
    (check,) = right.checks
    assert (check.status, check.truth, check.power) == ("passed", truth, 0.999)
    assert check.caught is not None
    assert check.caught < 1e-6
    assert f"{check.caught:.1g} in any single entry" in right.notes[-1]
    monkeypatch.setattr(Wrong, "error", 2 * check.caught)
    (found,) = examined(layer, {"x": X}, modes=("reverse",)).findings
    assert found.entries[0].index == (123,)


@pytest.mark.parametrize("count", [2, 3000])
def test_errors_that_cancel_in_a_sum_of_signs_are_found(count: int) -> None:
    """Half of them +e, half of them -e: along signs alone, two of them hide every other time."""

    class Paired(Wrong):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            signs = torch.tensor([1e-5, -1e-5], dtype=g.dtype).repeat(count // 2)
            gradient = g * torch.cos(ctx.saved_tensors[0])
            gradient[:count] += signs
            return gradient

    for seed in range(2):
        x = np.random.default_rng(seed).standard_normal(3000)
        problem = layer_problem(Paired, {"x": x}, modes=("reverse",))
        answer = examine(torch_engine(), problem, blaming=False)
        assert {finding.code for finding in answer.findings} == {"GC101"}


def test_a_right_gradient_takes_one_backward_pass_and_ten_runs() -> None:
    (check,) = examined(Opaque, {"x": X}, modes=("reverse",)).checks
    assert (check.backward, check.status) == (1, "passed")
    assert check.forward <= 10


def test_more_power_takes_more_directions() -> None:
    usual = examined(Opaque, {"x": X}, modes=("reverse",))
    more = examined(Opaque, {"x": X}, modes=("reverse",), power=1 - 1e-9)
    assert more.checks[0].power == 1 - 1e-9
    assert more.checks[0].forward > usual.checks[0].forward


class Dense(torch.autograd.Function):
    """x @ w by NumPy, whose gradient by w is halved. `runs` counts forward and backward."""

    runs = [0, 0]  # noqa: RUF012  counted by static methods

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        Dense.runs[0] += 1
        ctx.save_for_backward(x, w)
        return torch.from_numpy(x.numpy() @ w.numpy())

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        Dense.runs[1] += 1
        x, w = ctx.saved_tensors
        return g @ w.T, x.T @ g / 2


def test_a_leaf_that_is_wrong_as_a_whole_is_not_halved_down_to_one_entry() -> None:
    inputs = {"x": X.reshape(30, 100), "w": np.random.default_rng(1).standard_normal((100, 200))}
    Dense.runs = [0, 0]
    problem = layer_problem(Dense, inputs, modes=("reverse",))
    (found,) = examine(torch_engine(), problem, blaming=False).findings
    assert (found.code, found.input) == ("GC101", "w")
    assert "examined entries" in found.message
    forwards, backwards = Dense.runs
    # two looks along all entries, three entries by themselves, and the columns of these; and the
    # noise, by moves of two sizes; two columns in float32 and float64, ten points each; and a
    # direction beside which ties would break
    assert forwards <= 2 * 10 + 3 * 10 + 3 * 10 + 24 + 7 + 2 * 20 + 14
    assert backwards <= 20


class Shifted(torch.autograd.Function):
    """sin(x) + b, whose gradient by b is that of the first sample alone, or their mean, and by x
    wrong in one entry."""

    mean = False

    @staticmethod
    def forward(ctx: Any, x: Any, b: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.sin(x) + b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        by_x = g * torch.cos(ctx.saved_tensors[0])
        by_x[7, 9] *= 1.01
        return by_x, g.mean(0) if Shifted.mean else g[0]


def test_a_pattern_is_of_all_entries_or_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = {"x": X[:1200].reshape(30, 40), "b": X[:40]}
    answer = examined(Shifted, inputs, modes=("reverse",))
    assert {finding.input: finding.pattern for finding in answer.findings} == {"x": None, "b": None}
    monkeypatch.setattr(Shifted, "mean", True)
    patterns = {f.input: f.pattern for f in examined(Shifted, inputs, modes=("reverse",)).findings}
    assert patterns["b"] == "factor 1/30: a mean over axis 0 of `x` where a sum is right"
