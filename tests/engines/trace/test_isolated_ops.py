"""Which operations are in doubt: many arrays are looked at together, each as if it were alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.engines.trace import isolated_ops
from gradcheck_cli.engines.trace.isolated_ops import IsolatedOps, Pairs
from gradcheck_cli.engines.trace.shadow import FLOAT64, shadow
from tests.engines.trace.test_culprits import Run

SINGLE = FORMATS["float32"]


def _doubtful(run: Run, target: int) -> list[tuple[str, list[int]]]:
    """The names of the operations in doubt, and their elements."""
    run.execution.target = target
    needed = run.execution.needed()
    with np.errstate(all="ignore"):
        found = IsolatedOps(shadow(run.execution, needed, FLOAT64)).doubtful(needed)
    return [(run.execution.steps[place].name, at.tolist()) for place, _, at in found]


def test_parts_are_told_apart() -> None:
    """One of them has no elements."""
    sizes = (2, 0, 3, 1)
    exact = np.arange(6.0)
    pairs = Pairs(exact, exact, np.cumsum(sizes), SINGLE)
    found = {i: at.tolist() for i, at in pairs.without(~np.isin(exact, (1, 2, 4)))}
    assert found == {0: [1], 2: [0, 2]}
    assert list(pairs.without(np.ones(6, dtype=bool))) == []


def _flawed(at: int) -> Callable[[Array], Array]:
    """A result that is off by a thousandth in one element."""
    return lambda y: np.where(np.arange(y.size) == at, y * np.float32(1.001), y)


@pytest.mark.parametrize("together", [1, 4, 1 << 14])
def test_size_of_a_look_changes_nothing(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    monkeypatch.setattr(isolated_ops, "TOGETHER", together)
    run = Run()
    x = run.given(0.1, 0.2, 0.3, 0.4)
    bad = run("sin", x, flawed=_flawed(2))
    right = run("cos", bad)
    other = run("exp", run("multiply", right, x), flawed=_flawed(0))
    assert _doubtful(run, run("add", other, right)) == [("sin", [2]), ("exp", [0])]


def test_what_leaves_the_range_is_in_doubt() -> None:
    run = Run()
    x = run.given(1.0, 100.0, -100.0)
    assert _doubtful(run, run("exp", x)) == [("exp", [1, 2])]


def test_operation_on_wrong_numbers_is_not() -> None:
    """The square of what is wrong is a right square."""
    run = Run()
    bad = run("sin", run.given(0.7), flawed=_flawed(0))
    assert _doubtful(run, run("multiply", bad, bad)) == [("sin", [0])]


def test_mover_is_not() -> None:
    run = Run()
    bad = run("negative", run.given(0.7), moves=True, flawed=_flawed(0))
    assert _doubtful(run, run("sin", bad)) == []
