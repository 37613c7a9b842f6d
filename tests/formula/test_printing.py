"""A program as text reads back as the same program."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gradcheck_cli.domain.program import Node, Program
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.formula.printing import expression, number, statements

INPUTS = {
    "a": Argument(()),
    "b": Argument(()),
    "x": Argument((3, 4)),
    "y": Argument((4, 2)),
    "v": Argument((3,)),
    "k": Argument((3,), "int"),
}

FORMULAS = [
    "-(a - b) ** 2 - (-2) * a / (b * a) + -(2 * a)",
    "(a + b) * (a - (b - 1)) / (a / b) / 3",
    "(-a) ** 2 + 2 ** -a + (2 ** a) ** b + 2 ** 3 ** a",
    "where((a < 1) & ~(b > 2) | (a == b), a, -b)",
    "where(logical_not(a) & (b > 1) | logical_and(a, b), a, b)",
    "s = exp(x)\ny_hat = s / sum(s, axis=-1, keepdims=True)\nsum(y_hat @ y)",
    "sum(x[..., 1:, None]) + x[0, -1] + sum(x[::2, ::-1])",
    "einsum('ij,jk->', x, y) + sum(concatenate([x, x], axis=1))",
    "sum(clip(x, max=2)) + mse(v, v + 1, reduction='sum')",
    "sum(take(v, k)) + logsumexp(v, axis=(0,))",
    "where(a < inf, a, -1e-30) * 0.1 + 10 * a",
    "def f(x, n=2):\n    t = x ** n\n    return t + 1, t\np, q = f(a)\np * q",
    "t = a\nfor i in range(3):\n    t = t * 2 + i\nt",
    (
        "def f_vjp(upstream, x, y):\n    t = exp(x)\n    return upstream * t * t, None\n"
        "def f_jvp(x_dot, y_dot, x, y):\n    return x_dot\n"
        "@custom_gradient(f_vjp, f_jvp)\ndef f(x, y):\n    return exp(x) + y\nf(a, b) * f(b, a)"
    ),
]


def same(one: Program, two: Program) -> bool:
    """Whether two programs compute the same by the same operations; places in the text apart."""

    def tree(program: Program) -> list[object]:
        keys: list[object] = []
        for node in program.nodes:
            keys.append((_own(node), tuple(keys[i] for i in node.args)))
        return [None if i is None else keys[i] for i in program.outputs]

    return tree(one) == tree(two)


def _own(node: Node) -> object:
    name = node.name if node.op == "input" else None
    custom = None
    if node.custom is not None:
        rules = (node.custom.forward, node.custom.vjp, node.custom.jvp)
        custom = tuple(None if rule is None else statements_of(rule) for rule in rules)
    return node.op, name, repr(node.value), sorted(map(repr, node.keywords.items())), custom


def statements_of(program: Program) -> object:
    return tuple((_own(node), node.args) for node in program.nodes)


def program_of(text: str, inputs: Mapping[str, Argument] = INPUTS) -> Program:
    parsed = parse(text, inputs=inputs)
    assert parsed.program is not None, parsed.errors
    return parsed.program


@pytest.mark.parametrize("formula", FORMULAS)
def test_what_is_printed_reads_back_as_the_same_program(formula: str) -> None:
    program = program_of(formula)
    printed = statements(program)
    again = program_of(printed)
    assert same(program, again), printed
    assert statements(again) == printed


def test_names_of_the_user_are_kept() -> None:
    assert statements(program_of("s = exp(a)\ns / (1 + s)")) == "s = exp(a)\ns / (1 + s)"


def test_what_is_used_twice_gets_a_name() -> None:
    program = program_of("def f(x):\n    return x * x\nf(exp(a))")
    assert statements(program) == "t1 = exp(a)\nt1 * t1"


def test_a_name_that_is_given_twice_becomes_two() -> None:
    assert statements(program_of("t = exp(a)\nt = t * t\nt")) == "t = exp(a)\nt1 = t * t"


def test_one_expression_uses_names_and_defines_none() -> None:
    program = program_of("s = exp(a)\ns / (1 + s) + b")
    (quotient,) = (i for i, node in enumerate(program.nodes) if node.op == "divide")
    assert expression(program, quotient) == "s / (1 + s)"


def test_numbers_are_written_as_the_language_reads_them() -> None:
    assert [number(value) for value in (1, 0.5, float("inf"), -float("inf"))] == [
        "1",
        "0.5",
        "inf",
        "-inf",
    ]
