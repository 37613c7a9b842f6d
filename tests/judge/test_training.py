"""Training paths against the reference engine's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.case import TrainingCase
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Failure, Training, TrainingProblem
from gradcheck_cli.judge import judge_training
from tests.conftest import loaded, spec_of

STEPS = 4
EXACT = 2.0 * 0.5 ** np.arange(STEPS + 1)  # a path that halves at every step
U = FORMATS["float32"].unit_roundoff


def path(
    w: Any = EXACT, b: Any = EXACT, *, engine: str = "torch", dtype: str = "float32"
) -> Training:
    return Training(engine, dtype, np.zeros(STEPS + 1), {"w": np.asarray(w), "b": np.asarray(b)})


def made(*paths: Training, **fields: Any) -> TrainingCase:
    """These paths beside an exact one; the reference rounds to within u of it."""
    spec = spec_of("(w - b) ** 2", {"w": 2.0, "b": 2.0})
    problem = TrainingProblem(spec.program, {}, ("w", "b"), 0.01, STEPS, "float32", "float32")
    given = {"exact": path(dtype="float64"), "calibration": path(EXACT * (1 + U), EXACT * (1 + U))}
    return TrainingCase(spec, problem, "float32", paths, **{**given, **fields})


def codes(case: TrainingCase) -> list[tuple[str, str | None]]:
    return [(finding.code, finding.input) for finding in judge_training(case)[1]]


def test_the_same_path_passes() -> None:
    checks, findings = judge_training(made(path(), path(engine="tensorflow")))
    assert findings == ()
    assert [(c.engine, c.input, c.status) for c in checks] == [
        ("torch", "w", "passed"),
        ("torch", "b", "passed"),
        ("tensorflow", "w", "passed"),
        ("tensorflow", "b", "passed"),
    ]
    assert {(c.mode, c.truth, c.max_ulps) for c in checks} == {("training", "reference-path", 0.0)}
    assert {(c.forward, c.backward) for c in checks} == {(STEPS + 1, STEPS)}


@pytest.mark.parametrize(
    ("off", "expected"),
    [
        (0.0, []),
        (4 * U * EXACT[0], []),  # a rounding a step is granted
        (1e-6, []),
        (1e-4, [("GC101", "w")]),
        (1.0, [("GC101", "w")]),
        (np.nan, [("GC101", "w")]),
        (np.inf, [("GC101", "w")]),
    ],
)
def test_where_a_path_may_end(off: float, expected: list[tuple[str, str]]) -> None:
    case = made(path(EXACT + off))
    assert codes(case) == expected
    assert [c.status for c in judge_training(case)[0]] == [
        "failed" if expected else "passed",
        "passed",
    ]


def test_what_rounding_does_to_the_reference_is_granted_to_all() -> None:
    """A path that magnifies rounding is no fault of an engine."""
    restless = path(EXACT + 1e-4 * np.arange(STEPS + 1))
    assert codes(made(path(EXACT + 1e-4))) == [("GC101", "w")]
    assert codes(made(path(EXACT + 1e-4), calibration=restless)) == []


def test_a_finding_says_at_which_step_the_path_was_left() -> None:
    off = EXACT.copy()
    off[3:] += 0.5
    (finding,) = judge_training(made(path(b=off)))[1]
    assert finding.message == "`b` leaves the reference path at step 3 of 4"
    assert (finding.code, finding.severity, finding.mode) == ("GC101", "error", "training")
    (entry,) = finding.entries
    assert (entry.index, entry.computed, entry.truth) == ((), 0.625, 0.125)


def test_only_the_entries_that_are_off_are_shown() -> None:
    exact = np.stack([EXACT, EXACT], axis=1)
    off = exact.copy()
    off[-1, 1] = 7.0
    case = made(path(off), exact=path(exact), calibration=path(exact))
    (finding,) = judge_training(case)[1]
    assert [(entry.index, entry.computed) for entry in finding.entries] == [((1,), 7.0)]


@pytest.mark.parametrize(
    ("kind", "code"),
    [("raised", "GC701"), ("crashed", "GC702"), ("timed-out", "GC703"), ("unsupported", "GC705")],
)
def test_failure_is_told_once(kind: Any, code: str) -> None:
    broken = Training("torch", "float32", failure=Failure(kind, "it broke", "because"))
    checks, findings = judge_training(made(broken, path(engine="tensorflow")))
    assert [(f.code, f.engine, f.message, f.detail) for f in findings] == [
        (code, "torch", "it broke", "because")
    ]
    assert [c.status for c in checks] == ["error", "error", "passed", "passed"]


@pytest.mark.parametrize(
    "lacking",
    [
        {"exact": None},
        {"calibration": None},
        {"exact": replace(path(), failure=Failure("timed-out", "too slow"))},
    ],
)
def test_without_the_reference_nothing_is_decided(lacking: Any) -> None:
    case = made(path(), **lacking)
    assert codes(case) == [("GC501", "w"), ("GC501", "b")]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("engine", ["reference", "torch"])
def test_engines_follow_the_path(engine: str, dtype: str) -> None:
    data = {"X": np.array([[1.0], [2], [3]]), "y": np.array([[2.0], [4], [6]])}
    start = {"w": np.zeros((1, 1)), "b": 0.0}
    spec = spec_of("mean((X @ w + b - y) ** 2)", {**data, **start})
    values = {name: each.value for name, each in spec.inputs.items()}
    ask = TrainingProblem(spec.program, values, ("w", "b"), 0.01, 100, dtype, dtype)
    own = loaded("reference").train(ask)
    exact = loaded("reference").train(replace(ask, dtype="float64"))
    followed = loaded(engine).train(ask)
    case = TrainingCase(spec, ask, dtype, (followed,), exact, own)
    assert codes(case) == []
    slow = loaded(engine).train(replace(ask, rate=0.0101))
    assert codes(replace(case, paths=(slow,))) == [("GC101", "w"), ("GC101", "b")]
