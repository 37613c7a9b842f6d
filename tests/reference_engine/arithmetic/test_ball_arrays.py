"""Reductions and products on balls; a length of 0 is a kink, and an unfilled place is nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flint import arb

from reference_engine.arithmetic.arbs import objects, precision
from reference_engine.arithmetic.ball_arrays import ARRAYS, product, stacked, value_of_row
from reference_engine.arithmetic.ball_choices import NOTHING, noting_ties

RNG = np.random.default_rng(0)


def floats(x: Any) -> Any:
    return np.vectorize(float)(x)


@pytest.mark.parametrize(
    ("name", "keywords"),
    [
        ("sum", {"axis": (0, 2)}),
        ("mean", {"axis": 1, "keepdims": True}),
        ("prod", {"axis": 0}),
        ("var", {"axis": -1, "correction": 1}),
        ("logsumexp", {"axis": (0, 1)}),
        ("softmax", {"axis": 1}),
        ("median", {"axis": 2}),
        ("norm", {"axis": 0, "ord": 3.0}),
    ],
)
def test_a_reduction_is_that_of_the_row(name: str, keywords: dict[str, Any]) -> None:
    from reference_engine.op import TABLE

    x = RNG.standard_normal((2, 3, 4))
    full = {**TABLE[name].keywords, **keywords}
    found = ARRAYS[name](objects(x), **full)
    np.testing.assert_allclose(floats(found), TABLE[name].value(x, **full), rtol=1e-13)


@pytest.mark.parametrize("name", ["norm", "std"])
def test_a_length_of_zero_is_a_kink(name: str) -> None:
    with noting_ties() as ties:
        ARRAYS[name](objects([1.0, 2.0]))
        assert not ties
        ARRAYS[name](objects([0.0, 0.0]))
        assert ties


def test_a_shift_by_the_largest_loses_nothing() -> None:
    with precision(100):
        found = np.ravel(ARRAYS["logsumexp"](objects([1000.0, 1000.0])))[0]
    assert float(found.rad()) < 1e-20
    assert float(found) == pytest.approx(1000 + np.log(2), rel=1e-15)


def test_stacks_of_matrices_are_multiplied_one_by_one() -> None:
    a, b = RNG.standard_normal((2, 1, 3, 4)), RNG.standard_normal((5, 4, 2))
    found = stacked(product, objects(a), objects(b))
    np.testing.assert_allclose(floats(found), a @ b, rtol=1e-13)


def test_what_no_element_is_added_to_is_nothing() -> None:
    found = ARRAYS["scatter"](objects([5.0]), shape=(3,), index=(np.array([1]),))
    assert found[0] is NOTHING
    assert found[1] == 5


def test_a_row_whose_own_value_does_has_no_other() -> None:
    found = value_of_row("cumsum")(objects([0.1, 0.2]), axis=0)
    assert all(isinstance(one, arb) for one in found)
    np.testing.assert_allclose(floats(found), [0.1, 0.3])
