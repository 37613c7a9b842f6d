"""Patterns fit modulo commutation and association, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli.domain.place import Span
from gradcheck_cli.explain.algebra.building import ExprBuilder
from gradcheck_cli.explain.algebra.expressions import ExprPool
from gradcheck_cli.explain.algebra.matching import fits
from gradcheck_cli.explain.algebra.patterns import pattern
from gradcheck_cli.formula.printing import expression
from tests.conftest import program_of

VALUES: dict[str, Any] = dict.fromkeys("abxyz", 0.5) | {"v": [1.0, 2.0, 3.0]}


def found(text: str, formula: str) -> list[dict[str, str]]:
    """What the variables of a pattern stand for, in every way that it fits."""
    forest = ExprPool(program_of(formula, VALUES))
    shop = ExprBuilder(forest)
    told = []
    for fit in fits(shop.algebra, pattern(text), shop.norm(forest.output)):
        names = {}
        for name, norm in fit.bindings.items():
            if hasattr(norm, "kind"):
                program = forest.to_program(shop.expr(norm), Span(1, 1, 1, 1))
                names[name] = expression(program, program.output)
            else:
                names[name] = repr(norm)
        if names not in told:
            told.append(names)
    return told


@pytest.mark.parametrize(
    ("text", "formula", "x"),
    [
        ("log(1 + exp(x))", "log(exp(a) + 1)", "a"),
        ("log(1 + x)", "log(a + (b + 1))", "a + b"),
        ("1 / exp(x)", "exp(a) ** -1", "a"),
        ("1 / exp(x)", "reciprocal(exp(a * b))", "a * b"),
        ("1 / exp(x)", "y / (exp(a) * z)", "a"),
        ("exp(x) - 1", "3 - 3 * exp(a)", "a"),
        ("exp(x) - 1", "b + exp(a) - 1", "a"),
        ("1 / (1 + exp(-x))", "1 / (1 + exp(2 * a))", "-2 * a"),
        ("sqrt(x ** 2)", "(a * a) ** 0.5", "a"),
        ("sqrt(x ** 2)", "sqrt(a * b * a * b)", "a * b"),
        ("log(1 - tanh(x) ** 2)", "log(1 - tanh(a) * tanh(a))", "a"),
        ("exp(x) / (1 + exp(x))", "exp(a - b) / (exp(a - b) + 1)", "a - b"),
        ("log(sum(exp(x), **K))", "log(sum(exp(v)))", "v"),
        ("(1 - cos(x)) / x ** 2", "(cos(a) - 1) / (a * a)", "a"),
        ("(1 - cos(x)) / x ** 2", "(2 - 2 * cos(a)) / a ** 2", "a"),
    ],
)
def test_a_pattern_fits(text: str, formula: str, x: str) -> None:
    assert x in [names["x"] for names in found(text, formula)]


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("log(1 + exp(x))", "log(2 + exp(a))"),
        ("log(1 + exp(x))", "log(1 + exp(a) + b)"),
        ("exp(x) - 1", "exp(a) - 2"),
        ("exp(x) / (1 + exp(x))", "exp(a) / (1 + exp(b))"),
        ("sqrt(x ** 2)", "sqrt(a ** 3)"),
        ("log(1 / x)", "log(a / b)"),
        ("log(a * b)", "log(2 * x)"),
        ("x ** 2 / y ** 2", "x ** 2 / y ** 3"),
        ("mean(x, axis=A) - mean(x, axis=A)", "mean(v) - mean(v, axis=0)"),
    ],
)
def test_a_pattern_does_not_fit_what_is_another_function(text: str, formula: str) -> None:
    assert found(text, formula) == []


@pytest.mark.parametrize("text", ["log(c * x)", "log(x * c)"])
def test_a_constant_is_bound_wherever_it_stands_in_the_pattern(text: str) -> None:
    assert found(text, "log(3 * a)") == [{"c": "3", "x": "a"}]


def test_constants_are_matched_by_their_value_also_when_they_were_rounded() -> None:
    assert found("1 + erf(0.7071067811865476 * x)", "1 + erf(x / 1.4142136)")
    assert not found("x + 0.6931471805599453 + log(x)", "a + 0.69 + log(a)")


def test_static_arguments_are_bound() -> None:
    (names,) = found("logsumexp(x, axis=A, keepdims=B)", "logsumexp(v, axis=0)")
    assert names == {"x": "v", "A": "0", "B": "False"}


def test_every_way_to_fit_is_found() -> None:
    ways = {(names["a"], names["b"]) for names in found("exp(a) * exp(b)", "exp(x) * exp(y) * z")}
    assert ways == {("x", "y"), ("y", "x")}
