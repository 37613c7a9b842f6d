"""Equal up to commutation and association: one normal form."""

from __future__ import annotations

import pytest

from gradcheck_cli.explain.algebra.building import ExprBuilder
from gradcheck_cli.explain.algebra.expressions import ExprPool
from gradcheck_cli.explain.algebra.normal_form import MOST_TERMS, NormalForm
from tests.conftest import program_of

VALUES = dict.fromkeys("abc", 0.5)


def norm(*formulas: str) -> list[NormalForm]:
    """The normal forms of several formulas, in one algebra."""
    forest = ExprPool(program_of("+ ".join(f"tanh({text})" for text in formulas), VALUES))
    shop = ExprBuilder(forest)
    tops = []
    expr = forest.output
    while expr.op == "add":
        tops.append(expr.args[1])
        expr = expr.args[0]
    return [shop.norm(top.args[0]) for top in [expr, *reversed(tops)]]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("a + b", "b + a"),
        ("a - (b - c)", "c - b + a"),
        ("2 * (a + b)", "a * 2 + b + b"),
        ("a / b / c", "a / (b * c)"),
        ("1 / a", "a ** -1"),
        ("a * a", "square(a)"),
        ("sqrt(a)", "a ** 0.5"),
        ("rsqrt(a)", "1 / sqrt(a)"),
        ("-a * b", "a * -b"),
        ("(a * b) ** 2", "a * a * b * b"),
        ("abs(a - b)", "abs(b - a)"),
        ("(a - b) ** 2", "(b - a) ** 2"),
        ("maximum(a, b)", "maximum(b, a)"),
        ("exp(a) * 0.5", "exp(a) / 2"),
        ("sqrt(a) ** 2", "a"),
    ],
)
def test_one_form(one: str, two: str) -> None:
    first, second = norm(one, two)
    assert first is second


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("sqrt(a ** 2)", "a"),
        ("a - b", "b - a"),
        ("(a - b) ** 3", "(b - a) ** 3"),
        ("a / b", "b / a"),
        ("exp(-a)", "1 / exp(a)"),
        ("a ** b", "b ** a"),
    ],
)
def test_two_forms(one: str, two: str) -> None:
    first, second = norm(one, two)
    assert first is not second


def test_a_long_chain_is_not_looked_into() -> None:
    chain = " + ".join(f"exp({i} * a)" for i in range(5 * MOST_TERMS))
    (found,) = norm(chain)
    assert len(found.parts) <= MOST_TERMS


@pytest.mark.parametrize("call", ["{} @ {}", "sum({})", "softmax({})", "det({})"])
def test_an_array_of_ones_is_not_the_number_one(call: str) -> None:
    """x / x is written as the number 1, whatever its shape: rows that look at the shape keep it."""
    ones = call.format(*["(x / x)"] * 2)
    shop = ExprBuilder(ExprPool(program_of(ones, {"x": [[0.5, 2.0], [1.0, 3.0]]})))
    assert shop.norm(shop.forest.output).kind == "call"
