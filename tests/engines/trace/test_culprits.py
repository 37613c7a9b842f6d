"""The proof by promotion, and local errors, on lists of operations made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.engines.execution import Execution, Step
from gradcheck_cli.engines.trace.culprits import Proof, prove
from gradcheck_cli.engines.trace.exact_kernels import on_balls, row
from reference_engine.op import TABLE

SINGLE = FORMATS["float32"]


class _NumPy:
    def numpy(self, array: Any) -> Array:
        return np.asarray(array).astype(np.float64)

    def native(self, values: Array, like: Any) -> Any:
        with np.errstate(over="ignore"):
            return values.astype(like.dtype)


class Run:
    """A run in float32 by rows of the op table: run("add", a, b) gives the slot of a + b."""

    def __init__(self) -> None:
        self.execution = Execution(_NumPy())

    def given(self, *values: float) -> int:
        return self.execution.add_slot(np.array(values, np.float32), SINGLE)

    def __call__(
        self, name: str, *args: int, moves: bool = False, flawed: Callable[..., Any] | None = None
    ) -> int:
        def low(xs: Sequence[Any]) -> list[Any]:
            with np.errstate(all="ignore"):
                value = TABLE[name].value(*xs)
                return [value if flawed is None else flawed(value)]

        (result,) = low([self.execution.slots[i].native for i in args])
        slot = self.execution.add_slot(result, SINGLE)
        self.execution.add_step(
            Step(
                name=name,
                args=args,
                results=(slot,),
                low=low,
                wide=lambda xs: [TABLE[name].value(*xs)],
                exact=lambda xs: on_balls(row(name), xs),
                moves=moves,
            )
        )
        return slot

    def prove(self, slot: int, target: float) -> Proof:
        self.execution.target = slot
        with np.errstate(all="ignore"):
            return prove(self.execution, target, SINGLE)


def named(proof: Proof) -> list[str]:
    return [proof.operations[i].name for i in proof.culprits]


@pytest.fixture
def run() -> Run:
    return Run()


def test_what_leaves_the_range_first_is_the_cause(run: Run) -> None:
    """exp overflows; its square and the root of that are victims."""
    wide = run("exp", run.given(60.0))
    slot = run("sqrt", run("sqrt", run("multiply", wide, run("multiply", wide, wide))))
    proof = run.prove(slot, float(np.exp(45.0)))
    assert named(proof) == ["multiply"]
    assert proof.operations[proof.culprits[0]].inputs == (float(np.exp(np.float32(60.0))),) * 2


def test_numbers_that_are_only_moved_stay_wide(run: Run) -> None:
    wide = run("exp", run.given(100.0))
    slot = run("reciprocal", run("negative", wide, moves=True))
    assert named(run.prove(slot, -float(np.exp(-100.0)))) == ["exp"]


def test_two_that_spoil_it_are_both_named(run: Run) -> None:
    a, b = run("exp", run.given(100.0)), run("exp", run.given(99.0))
    proof = run.prove(run("divide", a, b), float(np.e))
    assert named(proof) == ["exp", "exp"]
    assert proof.repaired == pytest.approx(0, abs=1)


def test_bystander_is_not_named(run: Run) -> None:
    """An overflow that does no harm is an operation, but no culprit."""
    run("exp", run.given(200.0))  # on no way to the result
    masked = run("reciprocal", run("exp", run.given(90.0)))  # 1 / inf, beside 1
    lost = run("subtract", run("add", run.given(1.0), run.given(1e-9)), run.given(1.0))
    slot = run("multiply", run("add", masked, run.given(1.0)), lost)
    proof = run.prove(slot, 1e-9)
    assert named(proof) == ["subtract"]
    assert [op.name for op in proof.operations] == ["exp", "reciprocal", "subtract"]


def test_flawed_kernel_is_named(run: Run) -> None:
    """An operation that rounds by a thousandth, on exact inputs, is an operation with an error."""
    bad = run("sin", run.given(0.7), flawed=lambda y: y * np.float32(1.001))
    proof = run.prove(run("multiply", bad, run.given(3.0)), 3 * np.sin(float(np.float32(0.7))))
    assert named(proof) == ["sin"]
    (operation,) = proof.operations
    # a thousandth is 8389 to 16777 ulps, as the first digits are
    assert 8000 < operation.error < 17000


def test_few_ulps_of_a_library_are_no_finding(run: Run) -> None:
    near = run("exp", run.given(0.3), flawed=lambda y: np.nextafter(y, np.float32(9)))
    proof = run.prove(run("multiply", near, run.given(3.0)), 3 * np.exp(float(np.float32(0.3))))
    assert proof == Proof()


def test_target_that_the_dtype_cannot_hold_is_not_searched_for(run: Run) -> None:
    proof = run.prove(run("exp", run.given(100.0)), float(np.exp(100.0)))
    assert [op.name for op in proof.operations] == ["exp"]
    assert (proof.culprits, proof.repaired, proof.note) == ((), None, "")


def test_operation_without_a_value_is_told_of(run: Run) -> None:
    zero = run("subtract", run.given(1.0), run.given(1.0))
    proof = run.prove(run("divide", zero, zero), 1.0)
    assert [op.name for op in proof.operations] == ["divide"]
    assert proof.culprits == ()
    assert "in exact arithmetic give nan" in proof.note


def test_number_beyond_float64_is_shown_as_its_last(run: Run) -> None:
    proof = run.prove(run("log", run("exp", run.given(5000.0))), 5000.0)
    (operation,) = (proof.operations[i] for i in proof.culprits)
    assert operation.name == "exp"
    assert operation.exact == np.finfo(np.float64).max


def test_number_below_float64_is_no_zero(run: Run) -> None:
    proof = run.prove(run("log", run("exp", run.given(-5000.0))), -5000.0)
    (operation,) = (proof.operations[i] for i in proof.culprits)
    assert (operation.name, operation.exact) == ("exp", 5e-324)


def test_search_is_bounded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many operations go wrong, the list is not run again more than ten times."""
    from gradcheck_cli.engines.trace import culprits as promotion

    count = 0
    once = promotion._Search._entry

    def counted(self: Any, chosen: Any) -> float:
        nonlocal count
        count += 1
        return once(self, chosen)

    monkeypatch.setattr(promotion._Search, "_entry", counted)
    total = run.given(0.0)
    for _ in range(40):
        part = run("divide", run("exp", run.given(100.0)), run("exp", run.given(99.0)))
        total = run("add", total, part)
    proof = run.prove(total, 40 * float(np.e))
    assert proof.culprits
    assert count <= 9


def test_very_large_runs_are_left_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from gradcheck_cli.engines.trace import culprits as promotion

    monkeypatch.setattr(promotion, "MOST_AT_ALL", 3)
    proof = run.prove(run("exp", run.given(1.0, 2.0, 3.0, 100.0)), 1.0)
    assert proof.operations == ()
    assert "too large" in proof.note
