"""The examinations of one check bind a plain function once for the same numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import pytest
import torch
from jax import numpy as jnp
from torch import nn

from gradcheck_cli import check
from gradcheck_cli.engines.layer.isolation import reusable, surroundings
from gradcheck_cli.engines.layer.subject import SubjectRequest
from gradcheck_cli.engines.registry import engines
from tests.checks.making import layer_problem


def requested(layer: Any, x: Any = (0.5, 2.0), engine: str = "torch") -> SubjectRequest:
    problem = layer_problem(layer, {"x": x}, engine=engine)
    values = {"x": np.asarray(x, dtype=np.float64)}
    return SubjectRequest(problem.implementation, values, "float64", "float64")


def bound(request: SubjectRequest) -> Any:
    engine = engines()[request.implementation.engine].engine
    assert engine is not None
    return engine.subject(request)


def square(x: Any) -> Any:
    return x * x


@pytest.mark.parametrize(
    ("engine", "function"), [("torch", square), ("jax", square), ("jax", jax.jit(square))]
)
def test_the_same_function_at_the_same_numbers_is_bound_once(engine: str, function: Any) -> None:
    request = requested(function, engine=engine)
    same = replace(request, values={"x": request.values["x"].copy()})
    with surroundings():
        first = bound(request)
        other = bound(request)  # while the first is in use
        assert other is not first
        first.differentiate(())
        first.stencils.looped = 3
        first.close()
        first.close()  # twice is once
        again = bound(same)
        assert again is first
        assert (again.wrt, again.stencils.looped) == (("x",), 0)
        assert bound(same) is not first
        assert again.value({}).tolist() == [0.25, 4.0]
    assert reusable() is None


class Counted(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * x


CAPTURED = torch.tensor([2.0, 3.0], dtype=torch.float64)
HELD = jnp.array([2.0, 3.0])


@jax.tree_util.register_dataclass
@dataclass
class Scaled:
    w: Any

    def __call__(self, x: Any) -> Any:
        return x * self.w


@pytest.mark.parametrize(
    "change",
    [
        lambda one: replace(one, values={"x": one.values["x"] * (1 + 2**-52)}),
        lambda one: replace(one, values={"x": np.array([[0.5, 2.0]])}),
        lambda one: replace(one, dtype="float32"),
        lambda one: replace(one, rounding="float32"),
        lambda one: replace(one, seed=1),
        lambda one: replace(one, data=frozenset({"x"})),
        lambda one: replace(one, domains={"x": (0.0, 3.0)}),
        lambda one: replace(one, implementation=requested(lambda x: x + x).implementation),
    ],
)
def test_what_is_asked_differently_is_bound_anew(change: Any) -> None:
    request = requested(square)
    with surroundings():
        first = bound(request)
        first.close()
        assert bound(change(request)) is not first
        assert bound(request) is first


@pytest.mark.parametrize(
    ("engine", "layer"),
    [
        pytest.param("torch", Counted(), id="module"),
        pytest.param("torch", lambda x: x * CAPTURED, id="captured"),
        pytest.param("jax", Scaled(jnp.ones(2)), id="tree"),
        pytest.param("jax", lambda x: x * HELD, id="captured by a function of JAX"),
    ],
)
def test_a_layer_that_holds_arrays_is_bound_anew(engine: str, layer: Any) -> None:
    request = requested(layer, engine=engine)
    with surroundings():
        first = bound(request)
        first.close()
        assert bound(request) is not first


def test_nothing_is_left_outside_of_a_check() -> None:
    first = bound(requested(square))
    first.close()
    assert bound(requested(square)) is not first


def test_a_check_calls_a_function_less_often_for_it() -> None:
    shapes: list[bool] = []

    def layer(x: Any) -> Any:
        shapes.append(x.requires_grad)
        return torch.sin(x)

    x = torch.linspace(0.1, 1.0, 3, dtype=torch.float64)
    assert check(layer, x, dtypes="float64", modes="reverse").passed
    before = len(shapes)
    assert check(layer, x, dtypes="float64", modes="reverse").passed
    assert len(shapes) - before <= 18  # one more for each time that it is bound
