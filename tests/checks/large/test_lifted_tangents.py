"""Products of a large layer, compared with the tangents of the operations that it ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.large.lifted_tangents import LiftedTangents, lifted_tangents
from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.truth.layers.projections import Projections
from tests.checks.making import examined, layer_problem, torch_engine

RNG = np.random.default_rng(0)
X = {"x": RNG.standard_normal((8, 40)), "w": RNG.standard_normal((40, 40)) / 40**0.5}
pytestmark = pytest.mark.usefixtures("is_large")


def product(x: Any, w: Any) -> Any:
    """The layer behind a hidden ReLU: every output has kinks nearby."""
    return torch.relu(x @ w) @ w.t()


def tangents_of(layer: Callable[..., Any]) -> tuple[LiftedTangents | None, Projections]:
    problem = layer_problem(layer, X)
    subjects = Subjects(torch_engine(), problem)
    bound = BoundLayer("torch", problem, *2 * [subjects.bound("float64")], subjects.bound)
    truth = Projections(bound.highest, bound.value(bound.highest), bound.bounds, problem.seed)
    return lifted_tangents(bound, truth), truth


def errors_of(layer: Callable[..., Any]) -> tuple[tuple[Finding, ...], str]:
    answer = examined(layer, X, dtype="float32")
    return tuple(one for one in answer.findings if one.severity == "error"), answer.notes[0]


def test_a_tangent_is_that_of_the_layer() -> None:
    tangents, truth = tangents_of(product)
    assert tangents is not None
    found = tangents.along(0)
    assert found is not None
    along = {
        name: torch.tensor(part).reshape(X[name].shape) for name, part in truth.direction(0).items()
    }
    given = tuple(torch.tensor(value) for value in X.values())
    _, expected = torch.func.jvp(product, given, (along["x"], along["w"]))
    np.testing.assert_allclose(found.value, expected.flatten().numpy(), rtol=1e-12, atol=1e-12)
    assert np.all(found.error < 1e-10)


def test_a_tangent_at_another_point_is_that_of_the_layer_there() -> None:
    tangents, truth = tangents_of(product)
    assert tangents is not None
    moved = X["x"] + 0.5
    along = {"w": truth.direction(0)["w"]}
    x, w = torch.tensor(moved), torch.tensor(X["w"])
    turned = torch.tensor(along["w"]).reshape(w.shape)
    _, expected = torch.func.jvp(lambda w: product(x, w), (w,), (turned,))
    found = tangents.at({"x": moved}, along)
    np.testing.assert_allclose(found, expected.flatten().numpy(), rtol=1e-12, atol=1e-12)


def test_one_direction_decides_in_spite_of_kinks() -> None:
    errors, note = errors_of(product)
    assert errors == ()
    assert note.endswith("the derivative of its operations in float64 decides")


class Opaque(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.from_numpy(2 * x.numpy())

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g


@pytest.mark.parametrize(
    ("layer", "is_lifted"),
    [
        # a term that the operations lack, because NumPy computed it
        (lambda x, w: product(x, w) + 1e-6 * torch.from_numpy(np.sin(x.detach().numpy())), True),
        (lambda x, w: product(x, w) * float(x.detach().norm()), True),
        (lambda x, w: torch.round(8 * (x @ w)), False),
        (lambda x, w: Opaque.apply(x @ w), False),
    ],
)
def test_operations_that_are_not_the_whole_layer_decide_nothing(
    layer: Callable[..., Any], is_lifted: bool
) -> None:
    tangents, _ = tangents_of(layer)
    assert (tangents is not None) == is_lifted
    assert tangents is None or tangents.along(0) is None


def test_a_lost_term_is_found_by_differences() -> None:
    def layer(x: Any, w: Any) -> Any:
        return product(x, w) + 1e-3 * torch.from_numpy(np.sin(x.detach().numpy()))

    errors, note = errors_of(layer)
    assert {(one.code, one.input) for one in errors} == {("GC101", "x")}
    assert note.endswith("finite differences decide")


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return torch.where(x > 0.5, 1.001 * g, g * (x > 0))


def test_a_wrong_backward_is_found() -> None:
    errors, note = errors_of(lambda x, w: Wrong.apply(x @ w) @ w.t())
    assert {one.code for one in errors} == {"GC101"}
    assert note.endswith("finite differences decide")


def test_a_step_beyond_a_domain_decides_nothing() -> None:
    problem = layer_problem(
        lambda x, w: torch.sqrt(1 - x**2) @ w,
        {"x": np.full((8, 40), 1.0), "w": X["w"]},
        domain=(-1.0, 1.0),
    )
    subjects = Subjects(torch_engine(), problem)
    bound = BoundLayer("torch", problem, *2 * [subjects.bound("float64")], subjects.bound)
    truth = Projections(bound.highest, bound.value(bound.highest), bound.bounds, problem.seed)
    tangents = lifted_tangents(bound, truth)
    assert tangents is not None
    assert tangents.along(0) is None
