"""From one statement of a derivative come both modes, and what the tape has to keep for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reference_engine.op import TABLE
from reference_engine.rules import Elementwise, Linear, Multilinear, axes_of
from reference_engine.transforms import jvp, vjp

RNG = np.random.default_rng(3)
SHAPE = (3, 3)
CALLS: dict[str, tuple[int, dict[str, Any]]] = {
    "exp": (1, {}),
    "multiply": (2, {}),
    "matmul": (2, {}),
    "transpose": (1, {}),
    "concatenate": (2, {"axis": 0}),
    "sum": (1, {"axis": 0}),
    "max": (1, {"axis": 1}),
    "logsumexp": (1, {}),
    "softmax": (1, {}),
    "inv": (1, {}),
    "solve": (2, {}),
    "det": (1, {}),
    "einsum": (2, {"subscripts": "ij,jk->k"}),
}
"""A row of every rule: how many arrays it takes, and its keywords."""


def test_every_rule_has_a_row_here() -> None:
    rules = {type(TABLE[name].rule) for name in CALLS}
    assert {type(row.rule) for row in TABLE.values() if row.rule is not None} <= rules


@pytest.mark.parametrize("name", CALLS)
def test_reverse_is_the_transpose_of_forward(name: str) -> None:
    count, keywords = CALLS[name]
    xs = [RNG.standard_normal(SHAPE) + 3 * np.eye(3) for _ in range(count)]
    x_dots = [RNG.standard_normal(SHAPE) for _ in xs]

    def function(*arrays: Any) -> Any:
        return TABLE[name](*arrays, **keywords)

    y, y_dot = jvp(function, xs, x_dots)
    y_bar = RNG.standard_normal(np.shape(y))
    _, pull = vjp(function, *xs)
    x_bars = pull(y_bar)
    forward = float(np.sum(y_bar * y_dot))
    reverse = sum(float(np.sum(a * b)) for a, b in zip(x_bars, x_dots, strict=True))
    assert forward == pytest.approx(reverse, rel=1e-11, abs=1e-11)


def test_a_linear_function_keeps_nothing_and_a_product_keeps_the_other() -> None:
    linear = Linear(lambda y_bar, x: y_bar)
    assert not linear.reads(frozenset(), [0])
    product = Multilinear(lambda y_bar, a, b: y_bar * b, lambda y_bar, a, b: y_bar * a)
    assert 1 in product.reads(frozenset(), [0])
    assert 0 not in product.reads(frozenset(), [0])


def test_what_an_expression_looks_at_is_what_is_kept() -> None:
    rule = Elementwise(lambda g, y, x: g * y)
    assert -1 in rule.reads(frozenset(), [0])
    assert 0 not in rule.reads(frozenset(), [0])


@pytest.mark.parametrize(
    ("axis", "axes"), [(None, (0, 1, 2)), (-1, (2,)), ((0, -1), (0, 2)), ((), ())]
)
def test_axes_are_counted_from_zero(axis: Any, axes: tuple[int, ...]) -> None:
    assert axes_of(axis, 3) == axes
