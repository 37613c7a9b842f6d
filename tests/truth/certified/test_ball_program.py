"""Values of all nodes of a program without rounding, and how much work a program is."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.evaluation import Projection
from gradcheck_cli.truth.certified.ball_program import BallProgram, exact_nodes, operations
from gradcheck_cli.truth.certified.enclose import certify, certify_output
from tests.conftest import program_of


def output(formula: str, dtype: str = "float64", **values: object) -> object:
    given = {name: np.asarray(value, np.float64) for name, value in values.items()}
    program = program_of(formula, given)
    found = exact_nodes(program, given, dtype)
    return None if found is None else found[program.output]


def test_what_rounding_would_lose_is_there() -> None:
    assert output("log(1 + exp(x))", x=-60.0) == np.exp(-60.0)
    np.testing.assert_array_equal(output("(x + 1e17) - 1e17", x=[1.0, 3.0]), [1.0, 3.0])


def test_constants_are_those_of_the_dtype() -> None:
    assert output("x + 0.1", "float32", x=0.0) == float(np.float32(0.1))


def test_what_is_exactly_zero_is_known() -> None:
    assert output("x - x", x=0.5) == 0.0
    assert output("exp(x) - exp(x)", x=0.5) == 0.0


def test_what_has_no_enclosure_is_not_known() -> None:
    assert output("sum(pinv(x, rtol=0.381966))", x=[[2.0, 1.0], [1.0, 3.0]]) is None


def test_operations_count_elements() -> None:
    program = program_of("exp(x) * x", {"x": np.zeros(5)})
    assert operations(program) == 10


def balls(formula: str, *x: float) -> tuple[TruthRequest, BallProgram]:
    values = {"x": np.array(x)}
    projections = {"reverse": Projection(), "forward": Projection(columns={"x": np.eye(len(x))})}
    request = TruthRequest(
        program=program_of(formula, values),
        values=values,
        bounds={"x": (-np.inf, np.inf)},
        wrt=("x",),
        dtype="float64",
        projections=projections,
    )
    return request, BallProgram(request)


@pytest.mark.parametrize(
    ("formula", "x"),
    [
        ("abs(x)", [0.0, 1.0]),
        ("max(x)", [2.0, 2.0, 1.0]),
        ("where(x > 0, x, 2 * x)", [0.0, 3.0]),
        ("floor(x)", [1.0, 1.5]),
        ("sort(x)", [1.0, 1.0]),
    ],
)
def test_a_recorded_run_meets_the_ties_of_a_plain_one(formula: str, x: list[float]) -> None:
    _, function = balls(formula, *x)
    assert function.ties(function.xs)
    assert function.recorded(function.xs).meets_ties
    _, beside = balls(formula, *np.array(x) + [0.25, 0.125, 0.0625][: len(x)])
    assert not beside.recorded(beside.xs).meets_ties


def test_value_ties_and_both_modes_are_read_off_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    request, function = balls("exp(x) * sum(x)", 0.5, 1.5)
    runs = []
    run = BallProgram._run
    monkeypatch.setattr(BallProgram, "_run", lambda *given: runs.append(1) or run(*given))
    assert np.all(certify_output(request, function=function).sure)
    found = certify(request, function=function)
    assert len(runs) == 1
    reverse, forward = found["reverse", "x"], found["forward", "x"]
    assert np.all(reverse.sure)
    np.testing.assert_array_equal(reverse.value, forward.value)
