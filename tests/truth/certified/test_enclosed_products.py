"""Products of a large program, enclosed: they agree with each other and with those of plain
float64, and say where they cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.truth.certified import enclosed_products
from gradcheck_cli.truth.certified.enclosed_products import EnclosedProducts, TooManyNumbers
from reference_engine.arithmetic.arbs import NotInBalls, Undecided
from tests.conftest import program_of

RNG = np.random.default_rng(0)
VALUES = {
    "x": RNG.standard_normal((30, 8)),
    "w": RNG.standard_normal((8, 5)),
    "b": RNG.standard_normal(5),
}
NETWORK = "softmax(tanh(x @ w + b))"


def products(formula: str, wrt: tuple[str, ...] = ("x",), **values: np.ndarray) -> EnclosedProducts:
    given = {**VALUES, **values}
    program = program_of(formula, given)
    return EnclosedProducts(program, {name: given[name] for name in program.inputs}, wrt)


def test_both_modes_enclose_the_same_number() -> None:
    found = products(NETWORK, ("x", "w", "b"))
    row = RNG.standard_normal(150)
    tangents = {name: RNG.standard_normal(value.shape) for name, value in VALUES.items()}
    pushed = found.pushed(tangents)
    forward = float(row @ pushed.value), float(np.abs(row) @ pushed.radius)
    pulled = found.pulled(row)
    reverse = (
        sum(float(pulled[n].value @ t.ravel()) for n, t in tangents.items()),
        sum(float(pulled[n].radius @ np.abs(t.ravel())) for n, t in tangents.items()),
    )
    assert abs(forward[0] - reverse[0]) <= forward[1] + reverse[1] < 1e-10


def test_the_tail_of_a_sigmoid_has_all_its_digits() -> None:
    x = RNG.standard_normal(500)
    x[7] = -45.0
    found = products("sigmoid(x)", x=x).pulled(np.ones(500))["x"]
    assert found.value[7] == pytest.approx(np.exp(-45.0), rel=1e-13)
    assert found.radius[7] <= 1e-13 * found.value[7]
    assert np.all(found.is_narrow(np.zeros(500)))


def test_an_output_that_no_input_moves_has_products_of_zero() -> None:
    x = RNG.standard_normal(500)
    found = products("floor(x)", x=x).pulled(np.ones(500))["x"]
    assert not np.any(found.value)
    assert not np.any(found.radius)


def test_a_kink_is_wide_where_it_is_and_nowhere_else() -> None:
    x = RNG.standard_normal(500)
    x[7] = 0.0
    found = products("relu(x)", x=x).pulled(np.ones(500))["x"]
    assert np.flatnonzero(~found.is_narrow(np.ones(500))).tolist() == [7]


def test_a_number_compared_with_itself_is_no_tie() -> None:
    x = RNG.standard_normal(500)
    found = products("y = exp(x)\nwhere(y != y, 0.0, y)", x=x).pulled(np.ones(500))["x"]
    same = products("exp(x)", x=x).pulled(np.ones(500))["x"]
    np.testing.assert_allclose(found.value, same.value, rtol=1e-13)
    assert np.all(found.is_narrow(np.zeros(500)))


@pytest.mark.parametrize("formula", ["where(x > 0, x, 0.5)", "sign(x) * x", "x * floor(x)"])
def test_a_jump_is_refused(formula: str) -> None:
    x = 0.25 + RNG.integers(1, 5, 500)
    products(formula, x=x).pulled(np.ones(500))
    x[7] = 0.0
    with pytest.raises(Undecided):
        products(formula, x=x).pulled(np.ones(500))


def test_a_mask_that_does_not_move_is_no_tie() -> None:
    mask = np.array([0.0, 1.0] * 250)
    found = products("x * sign(m)", x=RNG.standard_normal(500), m=mask).pulled(np.ones(500))["x"]
    assert found.value.tolist() == mask.tolist()
    assert np.all(found.radius < 1e-15)


def test_a_row_of_masked_scores_is_known() -> None:
    """What PyTorch's attention asks of each row: whether all of it is masked."""
    mask = np.triu(np.full((8, 8), -np.inf), 1)
    scores = RNG.standard_normal((8, 8))
    guarded = "where(all(x + mask == -inf, axis=-1, keepdims=True), 0.0, softmax(x + mask))"
    found = products(guarded, x=scores, mask=mask).pulled(RNG.standard_normal(64))["x"]
    assert not np.any(found.value[mask.ravel() < 0])
    assert np.all(found.is_narrow(np.ones(64)))


def test_what_would_take_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enclosed_products, "MOST_NUMBERS", 600)
    with pytest.raises(TooManyNumbers, match="600"):
        products(NETWORK, ("x", "w", "b"))


def test_only_so_many_numbers_are_enclosed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enclosed_products, "MOST_SINGLY", 400)
    with pytest.raises(NotInBalls, match="one by one"):
        products("erf(x)", x=RNG.standard_normal(500)).pulled(np.ones(500))


def test_a_hessian_times_a_direction() -> None:
    x, w = VALUES["x"], VALUES["w"]
    along = RNG.standard_normal(x.shape)
    row = RNG.standard_normal(150)
    found = products("(x @ w) ** 3", ("x", "w")).bent(row, {"x": along})
    weight = row.reshape(30, 5) * 6 * (x @ w) * (along @ w)
    both = row.reshape(30, 5) * 3 * (x @ w) ** 2
    exact = {"x": weight @ w.T, "w": x.T @ weight + along.T @ both}
    for name, block in found.items():
        off = np.abs(block.value - exact[name].ravel())
        assert np.all(off <= block.radius + 1e-12 * np.abs(exact[name]).max())
        assert np.all(block.radius <= 1e-10 * np.abs(exact[name]).max())


def test_a_linear_function_does_not_bend() -> None:
    found = products("x @ w").bent(np.ones(150), {"x": np.ones((30, 8))})["x"]
    assert not np.any(found.value)
    assert not np.any(found.radius)
