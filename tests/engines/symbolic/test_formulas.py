"""Simplification has a limit, in time and in what it may do."""

import time

import pytest
import sympy

from gradcheck_cli.engines.symbolic import formulas
from gradcheck_cli.engines.symbolic.formulas import OutOfTime, simplified, time_limit

x = sympy.Symbol("x", real=True)


def test_what_is_simpler_is_taken() -> None:
    assert simplified([sympy.sin(x) ** 2 + sympy.cos(x) ** 2], 5.0) == ([1], 0)


@pytest.mark.parametrize(
    ("formula", "right"),
    [
        (1 / (1 + sympy.exp(-x)), "exp(x)/(exp(x) + 1)**2"),  # no cosh
        (x * sympy.exp(x) * sympy.sin(x), "(x*sin(x) + x*cos(x) + sin(x))*exp(x)"),  # no pi
        (sympy.tanh(x), "1 - tanh(x)**2"),
        (sympy.log(sympy.cos(x)), "-tan(x)"),
        (sympy.sin(x) * sympy.cos(x), "cos(2*x)"),
        (sympy.log(x / (1 - x)), "1/(x*(1 - x))"),
    ],
)
def test_it_is_simple_in_the_words_of_the_formula(formula: sympy.Expr, right: str) -> None:
    assert str(simplified([sympy.diff(formula, x)], 20.0)[0][0]) == right


def test_what_has_no_time_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(expression: object, measure: object) -> None:
        while True:
            try:
                time.sleep(0.01)
            except Exception:  # as SymPy does in places
                continue

    monkeypatch.setattr(sympy, "simplify", endless)
    start = time.monotonic()
    assert simplified([x, x**2], 0.05) == ([x, x**2], 2)
    assert time.monotonic() - start < 2


def test_the_alarm_is_over_when_the_work_is() -> None:
    with time_limit(0.02):
        pass
    time.sleep(0.05)
    with pytest.raises(OutOfTime), time_limit(0.0):
        pass


def test_numbers_as_they_are_and_as_they_are_written() -> None:
    assert formulas.decimal(0.1) == sympy.Rational(1, 10)
    assert formulas.exact(0.1) == sympy.Rational(*(0.1).as_integer_ratio())
    assert formulas.decimal(float("-inf")) == -sympy.oo
    assert formulas.exact(3) == sympy.Integer(3)
