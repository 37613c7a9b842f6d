"""Digits are added until they agree."""

import math

import mpmath
import sympy

from gradcheck_cli.engines.symbolic.numbers import Numbers, as_floats

x = sympy.Symbol("x[0, 1]", real=True)  # no identifier


def test_what_cancels_is_computed_with_more_digits() -> None:
    (found,) = Numbers([x], [sympy.exp(x) - sympy.exp(x) * (1 - 2 ** sympy.Integer(-900))])([1.0])
    assert mpmath.almosteq(found, mpmath.e * mpmath.mpf(2) ** -900, 2.0**-50)


def test_what_cancels_wholly_is_zero() -> None:
    hidden = sympy.cos(x) ** 2 + sympy.sin(x) ** 2 - 1
    assert Numbers([x], [hidden])([0.3]) == [0]


def test_one_pole_does_not_spoil_the_others() -> None:
    found = as_floats(Numbers([x], [1 / x, x + 1, sympy.log(x - 1), sympy.sqrt(x)])([0.0]), (4,))
    assert math.isnan(found[0])
    assert math.isnan(found[2])
    assert (found[1], found[3]) == (1.0, 0.0)


def test_symbols_may_be_called_like_functions() -> None:
    exp, sin = sympy.symbols("exp sin", real=True)
    (found,) = Numbers([exp, sin], [sympy.exp(sin) * exp])([2.0, 0.0])
    assert found == 2
