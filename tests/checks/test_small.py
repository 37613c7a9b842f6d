"""Layers whose Jacobian is computed whole: no run is made twice."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gradcheck_cli import check
from gradcheck_cli.checks.examination import examine
from gradcheck_cli.checks.small import Whole
from gradcheck_cli.truth.conditioning import rounding_cost
from tests.checks.making import examined, layer_problem, torch_engine


class Squared(torch.autograd.Function):
    """x^2. `runs` counts forward and backward."""

    runs = [0, 0]  # noqa: RUF012  counted by static methods

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        Squared.runs[0] += 1
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        Squared.runs[1] += 1
        return 2 * g * ctx.saved_tensors[0]


class RoughlySquared(Squared):
    """Off by a few units in the last place of float32."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        off = 8 * torch.finfo(torch.float32).eps if g.dtype is torch.float32 else 0.0
        return Squared.backward(ctx, g) * (1 + off)


@pytest.mark.parametrize(
    ("layer", "dtype", "jacobians"),
    [(Squared, "float64", 1), (Squared, "float32", 1), (RoughlySquared, "float32", 2)],
)
def test_a_jacobian_is_computed_once_in_each_precision_that_is_asked(
    layer: Any, dtype: str, jacobians: int
) -> None:
    Squared.runs = [0, 0]
    x = [0.5, -1.5, 2.0, 3.0, -0.25]
    problem = layer_problem(layer, {"x": x}, dtype=dtype, modes=("reverse",))
    answer = examine(torch_engine(), problem)
    (check,) = answer.checks
    assert (check.status, check.backward) == ("passed", len(x))
    assert Squared.runs[1] == jacobians * len(x)  # what is plainly right is asked in its own alone


def test_only_rows_that_are_not_plainly_right_are_asked_in_the_highest_precision() -> None:
    class RoughAtOne(Squared):
        """Off by a few units in the last place of float32, at one entry."""

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            off = torch.zeros(5, dtype=g.dtype)
            off[2] = 8 * torch.finfo(torch.float32).eps if g.dtype is torch.float32 else 0.0
            return Squared.backward(ctx, g) * (1 + off)

    Squared.runs = [0, 0]
    x = [0.5, -1.5, 2.0, 3.0, -0.25]
    problem = layer_problem(RoughAtOne, {"x": x}, dtype="float32", modes=("reverse",))
    answer = examine(torch_engine(), problem)
    assert [check.status for check in answer.checks] == ["passed"]
    assert Squared.runs[1] == len(x) + 1


def test_an_input_without_numbers_has_a_gradient_without_numbers() -> None:
    def layer(x: Any, y: Any) -> Any:
        return x.sum() + 2 * y

    problem = layer_problem(layer, {"x": np.zeros(0), "y": [1.0]}, modes=("reverse", "forward"))
    answer = examine(torch_engine(), problem)
    assert answer.failure is None
    assert {check.status for check in answer.checks} == {"passed"}
    assert not answer.findings


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_tangent_that_never_arrives_is_missing_as_a_gradient_is(dtype: str) -> None:
    def layer(x: Any, w: Any) -> Any:
        return torch.sin(w) + torch.from_numpy(np.cos(x.detach().numpy()))

    inputs = {"x": np.array([0.3, 1.2]), "w": np.array([0.5, 1.0])}
    answer = examined(layer, inputs, dtype=dtype)
    found = {(f.mode, f.code, f.input) for f in answer.findings if f.severity == "error"}
    assert found == {("reverse", "GC102", "x"), ("forward", "GC102", "x")}


@pytest.mark.parametrize(("off", "looks"), [(6e-7, 1), (1e-3, 2)])
def test_costs_are_found_for_suspects_and_for_all_where_these_do_not_explain_them(
    off: float, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Scaled(Squared):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g * ctx.saved_tensors[0] * (1 + off)

    asked: list[bool] = []
    costed = Whole.costed

    def counted(self: Whole) -> Any:
        asked.append(self.suspect_entries is not None)
        return costed(self)

    monkeypatch.setattr(Whole, "costed", counted)
    answer = examined(Scaled, {"x": np.array([0.5, -1.5])}, dtype="float32", modes=("reverse",))
    assert asked[:2] == [True, False][:looks]
    assert bool(answer.findings) == (looks == 2)
    for finding in answer.findings:
        assert finding.entries[0].finite_difference is not None


TINY = 1e-13  # a few hundred ulps of float64, and far less than a quarter of its digits


@pytest.mark.parametrize(
    ("dtype", "off", "forward", "weighed", "wrong"),
    [
        ("float32", {torch.float32: 2e-6}, 1.0, False, False),
        ("float32", {torch.float32: 2e-6, torch.float64: 2e-6}, 1.0, True, True),
        ("float64", {torch.float64: TINY}, 1.0, False, False),
        ("float64", {}, 1 + TINY, True, False),  # float32 may give the same number
    ],
)
def test_small_errors_of_one_precision_are_not_weighed(
    dtype: str,
    off: Mapping[Any, float],
    forward: float,
    weighed: bool,
    wrong: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return forward * x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * g * x * (1 + off.get(x.dtype, 0.0))

    asked: list[Whole] = []
    costed = Whole.costed
    monkeypatch.setattr(Whole, "costed", lambda self: asked.append(self) or costed(self))
    answer = examined(Scaled, {"x": np.array([0.5, -1.5])}, dtype=dtype, modes=("reverse",))
    assert bool(asked) == weighed
    assert [f.code for f in answer.findings if f.severity == "error"] == ["GC101"] * wrong


@pytest.mark.parametrize("wrong", [False, True])
def test_a_layer_that_differentiates_by_its_input_has_values_where_gradients_are_tracked(
    wrong: bool,
) -> None:
    def penalty(x: Any) -> Any:
        (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=not wrong, retain_graph=True)
        return (slope * x).sum()

    answer = examined(penalty, {"x": [0.5, -1.5]}, dtype="float64")
    assert answer.failure is None
    assert {finding.code for finding in answer.findings} == ({"GC101"} if wrong else set())
    modes = {check.mode: check.status for check in answer.checks}
    assert modes["reverse"] == ("failed" if wrong else "passed")
    assert not any(status == "failed" for mode, status in modes.items() if mode != "reverse")


class Opaque(torch.autograd.Function):
    """A square that is taken in NumPy."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.from_numpy(x.detach().numpy() ** 2)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 0 * g


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (lambda x: torch.ones_like(x), "no difference along it changes the value"),
        (lambda x, y: y.sin(), "no operation that ran leads from it to the output"),
        (lambda x: x**2, ""),  # no slope at 0, and yet it depends
        (lambda x: Opaque.apply(x), ""),
    ],
)
def test_a_gradient_that_is_zero_as_the_output_does_not_depend_is_said_to_be(
    layer: Any, why: str
) -> None:
    inputs = {"x": [0.0, 0.0], "y": [0.5, 1.5]}
    taken = {name: inputs[name] for name in inspect.signature(layer).parameters}
    answer = examined(layer, taken, dtype="float64", modes=("reverse",))
    assert not answer.findings
    told = [note for note in answer.notes if "does not depend" in note]
    expected = f"torch: the output does not depend on `x`: {why}, so its gradient is zero"
    assert told == ([expected] if why else [])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, q: Any) -> Any:
        return self.inside(q, q, q)[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (Attention(), (1, 2, 4)),
        (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), (5, 3)),
        (nn.Sequential(nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3)), (2, 2, 4)),
    ],
    ids=["attention", "linear", "convolution"],
)
def test_what_rounding_leaves_of_a_derivative_of_0_takes_no_further_enclosures(
    layer: Any, shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bias of keys, or in front of a normalisation, has no effect. Its gradient is a sum that
    cancels: small beside its terms, and not beside 0."""
    monkeypatch.delattr(rounding_cost, "certify")
    x = torch.linspace(-1, 2, int(np.prod(shape))).reshape(shape).sin()
    assert check(layer, x, dtypes=dtype, modes="reverse").passed
