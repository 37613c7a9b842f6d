"""Forward mode of a layer: its whole Jacobian where that has few columns, else directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradcheck_cli.checks.forward_mode import COLUMNS, DIRECTIONS, Pushes
from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.engines.layer.subject import Subject
from tests.checks.making import layer_problem, torch_engine


def pushes(
    layer: Any, modes: tuple[Mode, ...] = ("reverse",), dtype: str = "float64", **inputs: Any
) -> tuple[Pushes, Subject]:
    problem = layer_problem(layer, inputs, modes=modes, dtype=dtype)
    subject = Subjects(torch_engine(), problem).bound(dtype)
    return Pushes("torch", problem, subject), subject


class NoJvp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g


def test_few_columns_are_pushed_one_by_one() -> None:
    made, subject = pushes(lambda x, y: x**2 * y, x=[1.0, 2.0], y=[3.0, 4.0])
    assert made.directions is None
    found = made.evaluation(subject)
    assert found is not None
    assert np.array_equal(found.gradients["x"].values, np.diag([6.0, 16.0]))  # type: ignore[arg-type]
    assert np.array_equal(found.gradients["y"].values, np.diag([1.0, 4.0]))  # type: ignore[arg-type]
    assert found.forward == 4


def test_many_are_pushed_along_directions_that_the_dtype_holds() -> None:
    x = np.linspace(0.1, 1.0, COLUMNS + 1)
    made, subject = pushes(lambda x: x**2, x=x, dtype="float32")
    assert made.directions is not None
    along = made.directions["x"]
    assert along.shape == (DIRECTIONS, x.size)
    assert np.array_equal(FORMATS["float32"].round(along), along)
    found = made.evaluation(subject)
    assert found is not None
    expected = (2 * subject.leaves[0].value * along).T
    np.testing.assert_allclose(found.gradients["x"].values, expected, rtol=1e-6)  # type: ignore[arg-type]


def test_columns_that_nobody_asked_for_are_nan_and_leaves_without_any_are_left_out() -> None:
    made, subject = pushes(lambda x, y: x * y, x=[1.0, 2.0], y=[3.0, 4.0])
    asked = {"x": np.array([False, True]), "y": np.zeros(2, np.bool_)}
    found = made.evaluation(subject, asked=asked)
    assert found is not None
    assert list(found.gradients) == ["x"]
    values = found.gradients["x"].values
    assert values is not None
    assert np.isnan(values[:, 0]).all()
    assert values[:, 1].tolist() == [0.0, 4.0]


def test_a_layer_without_forward_mode_is_a_note_unless_the_mode_was_named() -> None:
    made, subject = pushes(NoJvp, x=[1.0, 2.0])
    assert made.evaluation(subject) is None
    assert len(made.notes) == 1
    assert "torch: forward mode was left out" in made.notes[0]


def test_an_output_that_no_tangent_reaches_has_no_gradient() -> None:
    made, subject = pushes(lambda x, y: y + x.detach(), x=[1.0], y=[2.0])
    found = made.evaluation(subject)
    assert found is not None
    assert found.gradients["x"].values is None
    assert found.gradients["y"].values is not None
