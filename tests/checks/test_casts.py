"""Layers that go on in a narrower dtype on their way: judged by its digits, and by no fewer."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.evaluation import FIRST_ORDER
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from gradcheck_cli.explain.fixes.trials import DROPPED
from tests.checks.making import behaviour, examined, layer_problem
from tests.every import first

REVERSE = ("reverse",)

pytestmark = pytest.mark.usefixtures("one_thread")


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape)


def answered(engine: Engine, layer: Any, x: Any, dtype: str) -> LayerAnswer:
    """What is said of a layer of this engine."""
    engine.load()
    problem = layer_problem(layer, {"x": x}, dtype=dtype, modes=REVERSE)
    mine = replace(problem.implementation, engine=engine.capabilities.name, target="layer")
    answer = examine(engine, replace(problem, implementation=mine), blaming=False)
    assert answer.failure is None, answer.failure
    return answer


def told(answer: LayerAnswer) -> set[str]:
    """The codes of what is more than a note."""
    assert answer.failure is None, answer.failure
    return {finding.code for finding in answer.findings if finding.severity != "note"}


class Automatic(nn.Module):
    """Linear in bfloat16, as autocast has it; it has no form in float64."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.tanh(self.linear(x.float())).to(x.dtype)


class Half(torch.autograd.Function):
    """The square in float16, whose derivative is `factor` times too large."""

    factor = 1.0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return (x.half() * x.half()).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * g * x * Half.factor


class Forgetful(torch.autograd.Function):
    """sin in full precision, whose derivative is computed in bfloat16."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return (g.bfloat16() * torch.cos(x.bfloat16())).to(g.dtype)


class Compressed(Forgetful):
    """sin in full precision, which keeps its input in bfloat16 for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x.bfloat16())
        return torch.sin(x)


def summed(x: Any) -> Any:
    """Into a buffer of float32, beside a constant of float16."""
    total = torch.zeros(x.shape, dtype=torch.float32)
    total += torch.sinh(x.bfloat16()) * torch.tensor(0.1, dtype=torch.float16)
    return total.to(x.dtype).softmax(-1)


def product(x: Any) -> Any:
    return torch.tanh((x.bfloat16() @ x.bfloat16().T).to(x.dtype))


RIGHT = {
    "autocast": (Automatic(), normal(2, 5), ("float32",)),
    "half": (lambda x: torch.tanh(x.half()).to(x.dtype) * x, normal(2, 3), ("float32", "float64")),
    "buffer": (summed, normal(4), ("float32", "float64")),
    "stated": (Half, normal(4), ("float32", "float64")),
    "large": (product, normal(30, 40), ("float32", "float64")),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_layers_raise_no_alarm(name: str) -> None:
    layer, x, dtypes = RIGHT[name]
    for dtype in dtypes:
        modes = REVERSE if name == "autocast" else FIRST_ORDER  # bfloat16 takes its time here
        answer = examined(layer, {"x": x}, dtype=dtype, modes=modes)
        assert not told(answer)
        assert {check.status for check in answer.checks} == {"passed"}
        assert {check.dtype for check in answer.checks} == {dtype}


@pytest.mark.parametrize("dtype", first(1, ["float32", "float64"]))
@pytest.mark.parametrize("size", [4, 3000])
def test_a_wrong_derivative_is_told_all_the_same(size: int, dtype: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(Half, "factor", 1.02)
    answer = examined(
        Half, {"x": 0.5 + np.abs(normal(size))}, dtype=dtype, modes=REVERSE, blaming=False
    )
    assert told(answer) == {"GC101"}
    assert {finding.dtype for finding in answer.findings} == {dtype}


def test_a_formula_is_held_to_more_than_the_digits_of_bfloat16() -> None:
    """By a tenth too large: rounding in bfloat16 may do as much to x ** 3, but there is none in the
    layer without its casts."""

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return (x.bfloat16() ** 3).to(x.dtype)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return (3.3 * g.bfloat16() * x.bfloat16() ** 2).to(x.dtype)

    answer = examined(Cube, {"x": normal(5)}, dtype="float32", modes=REVERSE, blaming=False)
    (found,) = answer.findings
    assert found.code == "GC101"
    assert found.pattern == "factor 1.1"
    assert [check.status for check in answer.checks] == ["failed"]


@pytest.mark.parametrize("size", [4, 3000])
def test_what_leaves_the_graph_in_float16(size: int) -> None:
    """On short steps, a flight of stairs, the gradient that forgets it is right."""
    answer = examined(
        lambda x: torch.tanh(x.half()).detach().to(x.dtype) * x,
        {"x": normal(size)},
        modes=REVERSE,
        blaming=False,
    )
    assert told(answer) == {"GC101"}


@pytest.mark.parametrize("layer", [Forgetful, Compressed])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_backward_in_bfloat16_loses_digits(layer: type, dtype: str) -> None:
    answer = examined(layer, {"x": normal(4)}, dtype=dtype, modes=REVERSE, blaming=False)
    (found,) = answer.findings
    assert (found.code, found.severity) == ("GC301", "error")
    assert any(f"the {dtype} backward pass continues in bfloat16" in note for note in answer.notes)


@pytest.mark.parametrize("layer", [Forgetful, Compressed])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_cast_that_costs_the_digits_is_the_cause(layer: type, dtype: str) -> None:
    answer = examined(layer, {"x": normal(4)}, dtype=dtype, modes=REVERSE)
    (found,) = answer.findings
    assert found.cause is not None
    assert (found.cause.kind, found.cause.proven) == ("narrowing cast", True)
    assert "bfloat16" in found.cause.text
    assert found.no_fix == DROPPED


class Careful(torch.autograd.Function):
    """What is cast has no part in the loss: the backward subtracts what is nearly equal."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x, torch.zeros_like(x).half())
        return x - torch.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, none = ctx.saved_tensors
        return g * (1 - torch.cos(x)) + none


def test_a_cast_that_costs_nothing_is_not_the_cause() -> None:
    answer = examined(Careful, {"x": np.array([1e-3, 2e-3])}, dtype="float32", modes=REVERSE)
    (found,) = (found for found in answer.findings if found.code == "GC301")
    assert found.cause is not None
    assert found.cause.kind == "cancellation"


def test_second_derivatives_have_the_same_digits() -> None:
    modes = ("reverse-over-reverse", "forward-over-reverse")
    layer = lambda x: torch.tanh(x.half()).to(x.dtype) * x  # noqa: E731
    assert not told(examined(layer, {"x": normal(3)}, dtype="float32", modes=modes))


def test_it_is_said_where_and_what_digits_count() -> None:
    answer = examined(summed, {"x": normal(4)}, modes=REVERSE)
    (note,) = (note for note in answer.notes if "internally" in note)
    assert note.startswith("torch: the layer computes in bfloat16 internally (`x.bfloat16()`, ")
    assert note.endswith("its float64 gradient is judged at bfloat16 precision")


def test_digits_that_float64_loses_are_no_cast() -> None:
    """What was lifted has nowhere to be float32; its values jump by as much as if it had been."""
    inputs = {"x": np.array([1e-9, 0.5])}
    answer = examined(lambda x: torch.log(1 - torch.exp(-x)), inputs, modes=REVERSE)
    assert told(answer) == {"GC301"}
    assert not answer.notes


def test_behaviour_has_the_same_digits() -> None:
    for layer in (Automatic(), Half, Forgetful):
        assert not behaviour(layer, {"x": normal(2, 5)}, dtype="float32")


# --- NumPy ---


def buffered(x: Any) -> Any:
    h = np.zeros(x.shape, np.float16)
    h[...] = x
    h *= h
    return np.sqrt(1 + h, dtype=np.float16).astype(x.dtype)


def past_it(x: Any) -> Any:
    """NumPy's own types see to it that no class of arrays hears of it."""
    return np.float16(x).astype(x.dtype) ** 2


@pytest.mark.parametrize("size", first(1, [4, 2000]))
@pytest.mark.parametrize(
    ("forward", "backward", "codes"),
    [
        (buffered, lambda u, x: u * x / np.sqrt(1 + x * x), set()),
        (buffered, lambda u, x: u * x / (1 + x * x), {"GC101"}),
        (np.sin, lambda u, x: (u.astype("f2") * np.cos(x)).astype("f2").astype(u.dtype), {"GC301"}),
        (past_it, lambda u, x: 2 * u * x, {"GC501"}),
    ],
    ids=["right", "wrong", "backward", "unknown"],
)
def test_pairs(forward: Any, backward: Any, codes: set[str], size: int) -> None:
    layer = SimpleNamespace(forward=forward, backward=backward)
    for dtype in ("float32", "float64") if forward is not np.sin else ("float64",):
        assert told(answered(NumpyEngine(), layer, normal(size), dtype)) == codes


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (lambda x: torch.tanh(x.float()), [0.001, 8.0, -15.0]),
        (lambda x: torch.tanh(x.float()).to(x.dtype), [0.5, -15.0]),
        (lambda x: (1 - torch.cos(x.float())) / x.float(), [20.0, 1e-6]),
        (lambda x: torch.log(1 + torch.exp(x.float())), [8.0, -30.0]),
    ],
)
def test_digits_that_are_lost_in_float64_too_are_no_wrong_rule(layer: Any, x: list[float]) -> None:
    found = told(examined(layer, {"x": np.array(x)}, modes=REVERSE, blaming=False))
    assert found <= {"GC301", "GC302", "GC303"}


@pytest.mark.parametrize("factor", first(1, [1.01, 1.5, -1.0]))
def test_a_wrong_rule_behind_a_cast_is_wrong(factor: float) -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.tanh(x.float())

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return (g.double() * factor / torch.cosh(x.double()) ** 2).to(x.dtype)

    x = {"x": np.array([0.001, 8.0, -15.0])}
    assert "GC101" in told(examined(lambda x: Scaled.apply(x), x, modes=REVERSE, blaming=False))
