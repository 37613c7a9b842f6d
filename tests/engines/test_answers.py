"""What a stranger's engine may answer, and what is told of the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import (
    Evaluation,
    Failure,
    Gradient,
    Mode,
    Problem,
    Projection,
    Training,
    TrainingProblem,
)
from gradcheck_cli.engines import answers
from gradcheck_cli.engines.errors import EngineFault, WrongKind
from tests.conftest import loaded, program_of

VALUES = {"x": np.array([0.5, -1.0]), "w": np.array(0.7)}
PROGRAM = program_of("x * w", VALUES)
PROBLEM = Problem(PROGRAM, VALUES, ("x", "w"), "float64", "float64", "reverse")
RIGHT = Evaluation(
    "it",
    "float64",
    "float64",
    "reverse",
    np.zeros(2),
    {"x": Gradient(np.zeros((2, 2))), "w": Gradient(None)},
)


@pytest.mark.parametrize(
    ("mode", "projection"),
    [
        ("reverse", Projection()),
        ("reverse", Projection(rows=np.ones((3, 2)))),
        ("forward", Projection(columns={"x": np.ones((5, 2))})),
        ("reverse-over-reverse", Projection(rows=np.ones((1, 2)))),
        ("forward-over-reverse", Projection(np.ones((1, 2)), {"x": np.ones((5, 2))})),
    ],
)
def test_what_was_asked_for_goes_through(mode: Mode, projection: Projection) -> None:
    problem = replace(PROBLEM, mode=mode, projection=projection)
    got = loaded("reference").evaluate(problem)
    assert answers.evaluation(got, problem, "reference") is got
    assert got.gradients
    assert answers.evaluation(RIGHT, PROBLEM, "it") is RIGHT
    failed = replace(RIGHT, output=None, failure=Failure("raised", "no"))
    assert answers.evaluation(failed, PROBLEM, "it") is failed


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"engine": "another"}, "it was asked for it float64 .* but answers for another float64"),
        ({"output": None}, "the output is None, but should be a float64 array"),
        (
            {"output": np.zeros(2, "f4")},
            "the output is an array of float32, but should be a float64",
        ),
        ({"output": np.zeros(3)}, r"the output has shape \(3,\), but should have \(2,\)"),
        ({"gradients": {}}, "it does not answer for the gradient of `x`"),
        ({"gradients": {"x": [1.0], "w": None}}, "gradient of `x` is a list, but should be a Grad"),
        (
            {"gradients": {"x": Gradient(np.zeros(2)), "w": Gradient(None)}},
            r"gradient of `x` \(rows, columns\) has shape \(2,\), but should have \(2, 2\)",
        ),
    ],
)
def test_what_is_no_answer_is_told(change: dict[str, Any], says: str) -> None:
    with pytest.raises(EngineFault, match=says):
        answers.evaluation(replace(RIGHT, **change), PROBLEM, "it")
    with pytest.raises(EngineFault, match="it answers with None, not with an Evaluation"):
        answers.evaluation(None, PROBLEM, "it")


def test_a_path_has_every_step() -> None:
    problem = TrainingProblem(PROGRAM, VALUES, ("w",), 0.1, 2, "float64", "float64")
    right = Training("it", "float64", np.zeros(3), {"w": np.zeros(3)})
    assert answers.training(right, problem, "it") is right
    with pytest.raises(
        WrongKind, match=r"the path of `w` has shape \(2,\), but should have \(3,\)"
    ):
        answers.training(replace(right, parameters={"w": np.zeros(2)}), problem, "it")
    with pytest.raises(EngineFault, match="not with the Training of other in float64"):
        answers.training(right, problem, "other")
