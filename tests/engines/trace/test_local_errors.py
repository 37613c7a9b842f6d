"""Local errors, against their definition: exact inputs, rounded, through one operation, against the
exact result."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.engines.trace.isolated_ops import IsolatedOps
from gradcheck_cli.engines.trace.local_errors import Found, described, local_errors
from gradcheck_cli.engines.trace.shadow import FLOAT64, shadow
from tests.engines.trace.test_culprits import Run

SINGLE = FORMATS["float32"]


def found_in(run: Run, target: int, element: int = 0) -> tuple[list[Found], IsolatedOps]:
    run.execution.target, run.execution.place = target, element
    needed = run.execution.needed()
    with np.errstate(all="ignore"):
        isolated = IsolatedOps(shadow(run.execution, needed, FLOAT64))
        return local_errors(run.execution, needed, isolated), isolated


def by_definition(run: Run, isolated: IsolatedOps, place: int) -> float:
    """In ulps, the largest of all elements."""
    step = run.execution.steps[place]
    exact = isolated.shadow
    given = [np.asarray(exact[slot], np.float64).astype(np.float32) for slot in step.args]
    (result,) = step.low(given)
    (slot,) = step.results
    wanted = np.asarray(exact[slot], np.float64)
    return float(np.max(np.abs(result.astype(np.float64) - wanted) / SINGLE.ulp(wanted)))


@pytest.mark.parametrize("near", [1e-2, 1e-4, 3e-6])
def test_an_error_is_what_the_operation_does_to_exact_numbers_that_are_rounded(near: float) -> None:
    run = Run()
    slot = run("subtract", run("exp", run.given(near)), run.given(1.0))
    (found,), isolated = found_in(run, slot)
    assert run.execution.steps[found.place].name == "subtract"
    assert found.error == pytest.approx(by_definition(run, isolated, found.place), rel=1e-6)


def test_an_operation_on_wrong_numbers_has_none() -> None:
    run = Run()
    lost = run("subtract", run("add", run.given(1.0), run.given(1e-9)), run.given(1.0))
    found, _ = found_in(run, run("multiply", lost, run.given(3.0)))
    assert [run.execution.steps[one.place].name for one in found] == ["subtract"]


def test_only_elements_that_the_target_depends_on_count() -> None:
    run = Run()
    slot = run("exp", run.given(0.5, 200.0))
    assert found_in(run, slot, element=0)[0] == []
    (found,) = found_in(run, slot, element=1)[0]
    assert (found.flat, found.error, found.severe) == (1, np.inf, True)


def test_what_left_the_range_is_the_first_and_the_next_are_victims() -> None:
    run = Run()
    slot = run("reciprocal", run("multiply", run("exp", run.given(60.0)), run.given(1e20)))
    found, _ = found_in(run, slot)
    names = [run.execution.steps[one.place].name for one in found]
    assert names == ["multiply", "reciprocal"]
    assert [one.victim for one in found] == [False, True]


def test_no_value_in_exact_arithmetic_is_no_rounding() -> None:
    run = Run()
    slot = run("log", run.given(0.0))
    (found,) = found_in(run, slot)[0]
    assert found.singular


def test_a_description_has_the_numbers_that_meet_by_broadcasting() -> None:
    run = Run()
    slot = run("multiply", run.given(1e30, 2.0), run.given(1e30))
    (found,), isolated = found_in(run, slot)
    operation = described(isolated.shadow, found)
    assert operation.index == (0,)
    assert operation.inputs == (float(np.float32(1e30)), float(np.float32(1e30)))
    assert (operation.result, operation.error) == (np.inf, np.inf)
    assert operation.exact == pytest.approx(1e60)
