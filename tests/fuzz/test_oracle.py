"""The oracle knows derivatives by heart, and says where there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from reference_engine.op import TABLE
from tests.fuzz import oracle
from tests.fuzz.grammar import STRUCTURED, Formula, Step, draw
from tests.reference_engine.exactly import derivative

EVERY_DIGIT = mpmath.mpf(10) ** -20


def formula(*steps: Step, **inputs: object) -> Formula:
    arrays: Mapping[str, np.ndarray] = {n: np.asarray(v, np.float64) for n, v in inputs.items()}
    return Formula(arrays, steps)


def agree(found: mpmath.mpf, exact: mpmath.mpf) -> bool:
    return bool(abs(found - exact) <= EVERY_DIGIT * abs(exact))


@pytest.mark.parametrize("x", [1.0, -40.0, 1e-300, 700.0])
def test_first_and_second_derivative_of_a_product(x: float) -> None:
    product = formula(
        Step("v", "exp", ("x",), ()), Step("w", "multiply", ("v", "y"), ()), x=x, y=3.0
    )
    with mpmath.workdps(60):
        exact = mpmath.exp(mpmath.mpf(x))
        assert agree(oracle.entry(product, "x", (0, 0)), 3 * exact)
        assert agree(oracle.entry(product, "y", (0, 0)), exact)
        assert agree(oracle.entry(product, "x.y", (0, 0)), exact)
        assert agree(oracle.entry(product, "x.x", (0, 0)), 3 * exact)


def test_entries_are_places_of_the_flattened_arrays() -> None:
    inverse = formula(Step("v", "inv", ("x",), (2, 2)), x=[[2.0, 1.0], [0.0, 4.0]])
    assert agree(oracle.entry(inverse, "x", (0, 0)), mpmath.mpf(-1) / 4)
    assert agree(oracle.entry(inverse, "x", (3, 3)), mpmath.mpf(-1) / 16)


def test_zero_is_believed_where_no_large_number_on_the_way_hides_more() -> None:
    tiny, large = mpmath.mpf(2) ** -960, mpmath.mpf(2) ** 1100

    def hidden(x: mpmath.mpf) -> mpmath.mpf:
        return (x * tiny + large) - large

    assert derivative(hidden, (1.0,), (1,), (1e-300,)) == 0
    assert agree(derivative(hidden, (1.0,), (1,), (1e-300,), largest=1100), tiny)


@pytest.mark.parametrize(
    ("row", "x"), [("max", [1.0, 1.0, 0.0]), ("norm", [0.0, 0.0, 0.0]), ("abs", 0.0), ("sqrt", 0.0)]
)
def test_a_point_without_a_derivative_is_named(row: str, x: object) -> None:
    with pytest.raises(oracle.NotSmooth):
        oracle.entry(formula(Step("v", row, ("x",), ()), x=x), "x", (0, 0))


def test_a_number_that_is_not_real_is_none() -> None:
    log = Step("v", "logdet", ("x",), ())
    negative = formula(log, Step("w", "hypot", ("v", 1.0), ()), x=[[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(oracle.NotSmooth):
        oracle.value(negative, negative.inputs, smooth=False)


def test_every_structured_row_is_the_one_of_the_table() -> None:
    """The definitions of the oracle give what the op table gives, at a random point."""
    rng = np.random.default_rng(0)
    for row, shapes, _, keywords in STRUCTURED:
        # a large diagonal makes determinants positive
        arrays = [
            rng.uniform(0.2, 2.0, shape) + (2 * np.eye(2) if shape == (2, 2) else 0)
            for shape in shapes
        ]
        expected = TABLE[row].value(*arrays, **keywords)
        names = [f"x{k}" for k in range(len(arrays))]
        step = Step("v", row, tuple(names), expected.shape, keywords)
        inputs = dict(zip(names, arrays, strict=True))
        found = oracle.value(Formula(inputs, (step,)), inputs)
        np.testing.assert_allclose(np.array(found, np.float64), expected, rtol=1e-12, err_msg=row)


def test_drawn_formulas_have_values() -> None:
    for index in range(20):
        rng = np.random.default_rng([3, index])
        drawn = draw(rng, lambda f: oracle.value(f, f.inputs, smooth=False))
        assert drawn.steps
        assert drawn.inputs
        assert drawn.order == 1 or drawn.shape == ()


def test_a_number_that_mpmath_gives_up_on_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(*_: object) -> None:
        raise mpmath.mp.NoConvergence("zeta: too much cancellation")

    exact = replace(oracle.EXACT["exp"], function=gives_up)
    monkeypatch.setitem(oracle.EXACT, "exp", exact)
    unknown = formula(Step("v", "exp", ("x",), ()), x=1.0)
    with pytest.raises(oracle.Unknown, match="zeta: too much cancellation"):
        oracle.value(unknown, unknown.inputs)
