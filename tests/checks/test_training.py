"""Which paths a training asks for, and what it makes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradcheck_cli.checks import training
from gradcheck_cli.checks.protocol import Ask
from gradcheck_cli.checks.training import TrainingPaths
from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.evaluation import Failure, Training, TrainingProblem
from tests.conftest import spec_of

SPEC = spec_of("x ** 2", {"x": 1.0})
PROBLEM = TrainingProblem(
    SPEC.program,
    {"x": np.array(1.0)},
    ("x",),
    rate=0.25,
    steps=1,
    dtype="float32",
    rounding="float32",
)
ABSENT = Training("eigen", "float32", failure=Failure("unsupported", "has no such device"))


def examined() -> TrainingPaths:
    case = Case(SPEC, None, "float32", {}, {}, (), None)
    return TrainingPaths(case, PROBLEM, {"torch": None, "eigen": ABSENT})


def path(ask: Ask) -> Training:
    """From 1 along x^2: to 0.5."""
    assert isinstance(ask.question, TrainingProblem)
    parameters = {"x": np.array([1.0, 0.5])}
    losses = np.array([1.0, 0.25])
    return Training(ask.engine or "reference", ask.question.dtype, losses, parameters)


def test_engines_and_the_reference_are_asked_at_once() -> None:
    one = examined()
    steps = one.steps()
    asks = next(steps)
    assert [(ask.engine, ask.question.dtype) for ask in asks] == [
        ("torch", "float32"),
        (None, "float64"),
        (None, "float32"),
    ]
    with pytest.raises(StopIteration):
        steps.send([path(ask) for ask in asks])
    assert [(found.engine, found.failure) for found in one.paths] == [
        ("torch", None),
        ("eigen", ABSENT.failure),
    ]
    assert [(check.engine, check.status) for check in one.checks] == [
        ("torch", "passed"),
        ("eigen", "error"),
    ]


def test_a_judge_that_breaks_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(case: object) -> object:
        return 1 / 0

    monkeypatch.setattr(training, "judge_training", broken)
    one = examined()
    steps = one.steps()
    asks = next(steps)
    with pytest.raises(StopIteration):
        steps.send([replace(path(ask), losses=None) for ask in asks])
    (mistake,) = one.mistakes
    assert (mistake.code, mistake.dtype) == ("GC706", "float32")
    assert mistake.message.startswith("the training could not be judged: ZeroDivisionError")
