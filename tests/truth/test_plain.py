"""A program as a plain function, without its custom gradients and with its stops held."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.truth.plain import PlainFunction, frozen, inlined
from tests.conftest import program_of

CUSTOM = """
def inner_vjp(g, x):
    return g * 17.0

@custom_gradient(inner_vjp)
def inner(x):
    return sin(x) * 2.0

def outer_vjp(g, x, y):
    return g * 5.0, None

@custom_gradient(outer_vjp)
def outer(x, y):
    return inner(x) * y + inner(y)

outer(x, inner(y)) - outer(y, x)
"""


def test_custom_gradients_are_replaced_by_what_they_compute() -> None:
    values = {"x": np.array([0.3, -1.0]), "y": np.array(0.7)}
    program = inlined(program_of(CUSTOM, values))
    assert not program.has_custom_gradient

    def inner(x):
        return 2 * np.sin(x)

    def outer(x, y):
        return inner(x) * y + inner(y)

    x, y = values["x"], values["y"]
    right = outer(x, inner(y)) - outer(y, x)
    np.testing.assert_allclose(PlainFunction(program, "float64")(values), right, rtol=1e-15)


def test_program_without_custom_gradients_is_left_alone() -> None:
    program = program_of("sin(x)", {"x": 1.0})
    assert inlined(program) is program


def test_custom_gradients_cannot_be_run_as_they_are() -> None:
    program = program_of(CUSTOM, {"x": np.zeros(2), "y": 0.0})
    with pytest.raises(ValueError, match="inline"):
        PlainFunction(program, "float64")


@pytest.mark.parametrize(
    ("dtype", "tenth"), [("float64", 0.1), ("float32", float(np.float32(0.1)))]
)
def test_constants_are_rounded_to_the_dtype(dtype: str, tenth: float) -> None:
    program = program_of("x + 0.1", {"x": 0.0})
    assert PlainFunction(program, dtype)({"x": np.array(0.0)}) == tenth


def test_integers_of_the_formula_stay_integers() -> None:
    program = program_of("x * n", {"x": 1.0, "n": np.array([2, 3])})
    assert PlainFunction(program, "bfloat16")(
        {"x": np.array(1.5), "n": np.array([2, 3])}
    ).tolist() == [3, 4.5]


def test_stopped_gradients_stay_where_they_are() -> None:
    values = {"x": np.array(3.0)}
    program, complete = frozen(program_of("stop_gradient(x * x) * x", values), values, "float64")
    function = PlainFunction(program, "float64")
    assert function(complete) == 27.0
    assert function({**complete, "x": np.array(4.0)}) == 36.0  # 9 * 4: the square stays at 9


def test_overflow_and_poles_are_values() -> None:
    program = program_of("exp(x) / (x - x)", {"x": 1000.0})
    with np.errstate(all="ignore"):
        assert np.isinf(PlainFunction(program, "float64")({"x": np.array(1000.0)}))


@pytest.mark.parametrize(
    ("formula", "loses"), [("x * 2 + 1", 1.0), ("log(x / (1 - x))", 4.0), ("1e6 + x - 1e6", 1e6)]
)
def test_rounded_anew_moves_the_value_by_what_rounding_costs(formula: str, loses: float) -> None:
    values = {"x": np.array(0.5)}
    function = PlainFunction(program_of(formula, values), "float64")
    rng = np.random.default_rng(0)
    off = [abs(function.randomly_rounded(values, ["x"], rng) - function(values)) for _ in range(20)]
    assert 0.1 * loses < np.max(off) / 2**-52 < 10 * loses
