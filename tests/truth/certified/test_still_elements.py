"""Elements that a mask holds still: choices between them are no ties, and nothing passes through
them, in small programs and in large ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.certified.enclosed_products import EnclosedProducts
from gradcheck_cli.truth.certified.still_elements import still_elements
from reference_engine.arithmetic.arbs import Undecided
from tests.conftest import program_of, truth_of

MASK = np.array([[0.0, -np.inf, 0.0], [-np.inf, -np.inf, -np.inf], [-np.inf, 0.0, -np.inf]])
X = np.random.default_rng(5).standard_normal((3, 3))

MASKED = {
    "a sum that is 0": (
        "e = exp(x + m)\nt = sum(e, axis=1, keepdims=True)\ne / where(t == 0, 1.0, t)"
    ),
    "a largest score of -inf": (
        "s = x + m\ntop = max(s, axis=1, keepdims=True)\n"
        "e = exp(s - where(top == -inf, 0.0, stop_gradient(top)))\n"
        "t = sum(e, axis=1, keepdims=True)\ne / where(t > 0, t, 1.0)"
    ),
    "nan that is not taken": (
        "where(all(x + m == -inf, axis=1, keepdims=True), 0.0, softmax(x + m, axis=1))"
    ),
    "scores that are replaced": (
        "s = where(m == 0, x, -inf)\nt = sum(exp(s), axis=1, keepdims=True)\n"
        "exp(s) / where(t == 0, 1.0, t)"
    ),
}


def plain(x: Any) -> Any:
    """The Jacobian of the masked softmax, (9, 9)."""
    e = np.where(np.isinf(MASK), 0.0, np.exp(x))
    p = e / np.maximum(e.sum(1, keepdims=True), 1e-300)
    whole = np.zeros((3, 3, 3, 3))
    for row in range(3):
        whole[row, :, row] = np.diag(p[row]) - np.outer(p[row], p[row])
    return whole.reshape(9, 9)


@pytest.mark.parametrize("name", MASKED)
def test_a_masked_row_is_certified(name: str) -> None:
    truth = truth_of(MASKED[name], {"x": X, "m": MASK}, wrt=["x"])
    block = truth.blocks["reverse", "x"]
    assert block.certified.all()
    assert (block.kind == PointKind.SMOOTH).all()
    np.testing.assert_allclose(block.value, plain(X), atol=1e-15)
    assert not block.value[3:6].any()


@pytest.mark.parametrize("name", MASKED)
def test_products_with_a_masked_row_are_enclosed(name: str) -> None:
    found = EnclosedProducts(
        program_of(MASKED[name], {"x": X, "m": MASK}), {"x": X, "m": MASK}, ("x",)
    )
    row = np.arange(1.0, 10.0)
    pulled = found.pulled(row)["x"]
    assert np.all(pulled.is_narrow(np.ones(9)))
    np.testing.assert_allclose(pulled.value, row @ plain(X), atol=1e-14)
    pushed = found.pushed({"x": X})
    np.testing.assert_allclose(pushed.value, plain(X) @ X.ravel(), atol=1e-14)


def test_a_zero_that_moves_is_still_a_tie() -> None:
    formula = "t = sum(x * exp(m), axis=1, keepdims=True)\nx / where(t == 0, 1.0, t)"
    x = np.where(np.isinf(MASK), X, 0.0)
    kinds = truth_of(formula, {"x": x, "m": MASK}, wrt=["x"]).blocks["reverse", "x"].kind
    assert (kinds != PointKind.SMOOTH).any()
    found = EnclosedProducts(program_of(formula, {"x": x, "m": MASK}), {"x": x, "m": MASK}, ("x",))
    with pytest.raises(Undecided):
        found.pulled(np.ones(9))


@pytest.mark.parametrize(
    ("formula", "still"),
    [
        ("x + m", np.isinf(MASK)),
        ("m - x", np.isinf(MASK)),
        ("exp(x + m) * 2 + 1", np.isinf(MASK)),
        ("sum(x + m, axis=1)", [False, True, False]),
        ("where(m < 0, m, x)", np.isinf(MASK)),
        ("where(m < x, m, x)", np.zeros((3, 3))),
        ("maximum(x, m)", np.zeros((3, 3))),
        ("(x + m) @ x", np.zeros((3, 3))),
        ("x * m", np.zeros((3, 3))),
        ("x + y", np.zeros((3, 3))),
    ],
)
def test_which_elements_stand_still(formula: str, still: Any) -> None:
    given = {"x": X, "m": MASK, "y": MASK}
    program = program_of(formula, given)
    values = {name: given[name] for name in program.inputs}
    wrt = tuple(name for name in program.inputs if name != "m")
    found = still_elements(program, values, wrt, "float64").get(program.output, np.False_)
    assert np.array_equal(np.broadcast_to(found, program.result.shape), np.asarray(still, np.bool_))
