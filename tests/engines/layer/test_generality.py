"""What is refused before a recorded run of a layer holds for all inputs."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.execution import Arrays, Execution, Step
from gradcheck_cli.engines.layer.generality import (
    in_one_thread,
    program_or_reason,
    refuse_caught_errors,
    refuse_other_numbers,
)
from gradcheck_cli.engines.layer.lifting import NotLifted

FLOAT32 = FORMATS["float32"]


def recorded(*steps: tuple[str, int, object, bool]) -> tuple[Execution, list[int]]:
    """An execution with slot 0 as its input: a step has a name, the slot that it takes, its result
    and whether it works element by element. Returns the slots of the results as well."""
    execution = Execution(Arrays())
    execution.add_slot(np.ones((2, 2)), FLOAT32)
    slots = []
    for name, taken, result, elementwise in steps:
        slots.append(execution.add_slot(result, FLOAT32))
        step = Step(name, (taken,), (slots[-1],), list, list, None, False)
        step.elementwise = elementwise
        execution.add_step(step)
    return execution, slots


@pytest.mark.parametrize(
    ("name", "result", "elementwise"),
    [("linalg_inv", np.ones((2, 2)), False), ("to_int", np.ones((2, 2), np.int64), True)],
)
def test_an_operation_that_may_fail_must_be_used(
    name: str, result: object, elementwise: bool
) -> None:
    execution, (inverse, value) = recorded(
        (name, 0, result, elementwise), ("exp", 0, np.ones((2, 2)), True)
    )
    with pytest.raises(NotLifted, match=f"`{name}` may fail"):
        refuse_caught_errors(execution, 2, [0], value)
    refuse_caught_errors(execution, 2, [0], inverse)  # an error would have reached the caller
    refuse_caught_errors(execution, 0, [0], value)  # a step of the backward pass
    refuse_caught_errors(execution, 2, [], value)  # of numbers that never change


@pytest.mark.parametrize(
    ("name", "elementwise"), [("exp", True), ("aten.sum.default", False), ("MatMul", False)]
)
def test_an_operation_that_never_fails_may_be_unused(name: str, elementwise: bool) -> None:
    execution, (_, value) = recorded(
        (name, 0, np.ones((2, 2)), elementwise), ("exp", 0, np.ones((2, 2)), True)
    )
    refuse_caught_errors(execution, 2, [0], value)


def test_numbers_of_two_dtypes_may_differ_by_one_rounding() -> None:
    wide, narrow = np.array([0.1, np.nan]), np.array([np.float32(0.1), np.nan], np.float64)
    refuse_other_numbers([wide], [narrow], FLOAT32)
    for other in ([], [narrow, narrow], [np.array([0.2, np.nan])], [narrow[:1]]):
        with pytest.raises(NotLifted, match="differs between float64 and the dtype"):
            refuse_other_numbers([wide], other, FLOAT32)


def test_an_error_is_a_reason_and_no_failure() -> None:
    def unfit() -> GradientProgram:
        raise EngineFault("another dtype")

    def unable() -> GradientProgram:
        raise TypeError("a tensor\nhas no numbers")

    assert program_or_reason(unfit).reason == "another dtype"
    assert program_or_reason(unable).reason.endswith(": a tensor")


def test_a_thread_is_refused_and_runs_all_the_same() -> None:
    refused: list[str] = []
    ran: list[bool] = []
    with in_one_thread(refused.append):
        thread = threading.Thread(target=lambda: ran.append(True))
        thread.start()
        thread.join()
    threading.Thread(target=list).start()
    assert (refused, ran) == (["nothing is proven about a layer that starts threads"], [True])
