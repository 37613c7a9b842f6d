"""What is built of normal forms and rules reads as a person would write it."""

from __future__ import annotations

import math

import pytest

from gradcheck_cli.domain.place import Span
from gradcheck_cli.explain.algebra.building import ExprBuilder
from gradcheck_cli.explain.algebra.expressions import Expr, ExprPool, ShapeMismatch
from gradcheck_cli.explain.algebra.patterns import parsed
from gradcheck_cli.formula.printing import expression
from tests.conftest import program_of

VALUES = dict.fromkeys("abxy", 0.5)


def workshop(formula: str) -> tuple[ExprBuilder, Expr]:
    forest = ExprPool(program_of(formula, VALUES))
    return ExprBuilder(forest), forest.output


def text(shop: ExprBuilder, expr: Expr) -> str:
    program = shop.forest.to_program(expr, Span(1, 1, 1, 1))
    return expression(program, program.output)


@pytest.mark.parametrize(
    ("formula", "rebuilt"),
    [
        ("a - b", "a - b"),
        ("-b + a", "a - b"),
        ("a + b + a", "2 * a + b"),
        ("a * b / a", "b"),
        ("a * b ** -1", "a / b"),
        ("a / 2", "a / 2"),
        ("0.25 * a", "a / 4"),
        ("a * a", "a ** 2"),
        ("a ** 0.5", "sqrt(a)"),
        ("1 / a", "1 / a"),
        ("a + 1 - 1", "a"),
        ("3 - a", "3 - a"),
        ("exp(2 * a - a)", "exp(a)"),
    ],
)
def test_a_normal_form_is_written_anew_without_what_cancels(formula: str, rebuilt: str) -> None:
    shop, output = workshop(formula)
    assert text(shop, shop.rebuilt(shop.norm(output))) == rebuilt


@pytest.mark.parametrize(
    ("template", "written"),
    [
        ("x + 0", "x"),
        ("0 - x", "-x"),
        ("x - (-y)", "x + y"),
        ("x * 1", "x"),
        ("x / 1", "x"),
        ("2 * (3 * x)", "6 * x"),
        ("-1 * x", "-x"),
        ("-(x - y)", "y - x"),
        ("-(-x)", "x"),
        ("2 * (-x)", "-2 * x"),
        ("(6 * x) / 2", "3 * x"),
        ("x ** 1", "x"),
        ("x ** 0.5", "sqrt(x)"),
        ("2 + 3", "5"),
        ("exp(0) * x", "x"),
        ("y + (-2)", "y - 2"),
    ],
)
def test_a_rule_s_right_side_is_simplified_where_it_is_trivial(template: str, written: str) -> None:
    shop, _ = workshop("x + y")
    inputs = {e.name: e for e in shop.forest.output.args if e.op == "input"}
    bindings = {name: shop.norm(expr) for name, expr in inputs.items()}
    assert text(shop, shop.instance(parsed(template), bindings)) == written


def test_a_sum_that_mostly_cancels_is_what_is_left_of_it() -> None:
    shop, output = workshop("(x + 1) * y")
    one_more, _ = output.args
    x = one_more.args[0]
    bindings = {"p": shop.norm(one_more), "q": shop.norm(x)}
    assert text(shop, shop.instance(parsed("p - q"), bindings)) == "1"


def test_constants_are_whole_where_they_can_be_and_never_nan() -> None:
    shop, _ = workshop("x + y")
    assert [text(shop, shop.number(value)) for value in (2.0, 2.5, -3.0)] == ["2", "2.5", "-3"]
    with pytest.raises(ShapeMismatch, match="not a number"):
        shop.number(math.nan)
