"""Statements that repeat are a loop, which reads back as the same program."""

from __future__ import annotations

from itertools import pairwise
from textwrap import dedent

import pytest

from gradcheck_cli.formula.folding import folded_statements
from tests.formula.test_printing import FORMULAS, program_of, same

LOOPS = {
    "a state": """
        y = x * 0.5
        for i in range(4):
            y = (y + x / y) * 0.5
        y
    """,
    "rows": """
        h = v
        for i in range(3):
            z = x[i] * h[:1]
            h = tanh(z)[:3] + h
        h
    """,
    "every second, backwards": """
        s = a
        for i in range(4):
            s = sin(s) * x[1, 3 - i] + sum(x[0, i:i + 1])
        s
    """,
    "the state of two lines": """
        p = a
        q = b
        for i in range(3):
            p = p + q * 0.1
            q = q - p * 0.1
        p * q
    """,
    "all turns, stacked": """
        h = a
        hs = []
        for i in range(6):
            h = tanh(h * 0.5 + x[i - 3, 0])
            hs = [*hs, h]
        stack(hs)
    """,
    "all turns and a first one, backwards": """
        h = sin(a)
        hs = []
        for i in range(6):
            z = h * 0.5 + b
            h = tanh(z) * exp(z)
            hs = [reshape(h, shape=(1,)), *hs]
        concatenate([*hs, v]) * sum(h)
    """,
    "entries that count": """
        h = a
        hs = []
        for i in range(6):
            h = tanh(h) + b
            hs = [*hs, h * x[i - 3, 1]]
        stack([*hs, a])
    """,
    "one line, used afterwards": """
        r = a
        for i in range(4):
            r = r * exp(a) + b
        r + a
    """,
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_written_as_it_was(name: str) -> None:
    text = dedent(LOOPS[name]).strip()
    program = program_of(text)
    printed = folded_statements(program)
    assert same(program, program_of(printed)), printed
    assert printed.count("for i in range(") == 1, printed
    assert len(printed.splitlines()) <= len(text.splitlines()) + 1, printed


NO_LOOPS = {
    "all turns are used": "p = sin(a)\nq = sin(p)\nr = sin(q)\ns = sin(r)\np + q + r + s",
    "the numbers do not grow by equal steps": (
        "s = a * v[0]\ns = s * v[1]\ns = s * v[1]\ns = s * v[2]\ns"
    ),
    "two turns ago": "p = sin(a)\nq = sin(p)\nr = q * p\ns = r * q\nt = s * r\nu = t * s\nu",
    "another operation": "p = sin(a)\nq = cos(p)\nr = sin(q)\ns = exp(r)\ns",
}


@pytest.mark.parametrize("name", NO_LOOPS)
def test_what_is_no_loop_stays(name: str) -> None:
    program = program_of(NO_LOOPS[name])
    printed = folded_statements(program)
    assert same(program, program_of(printed)), printed
    assert "for " not in printed


@pytest.mark.parametrize("formula", FORMULAS)
def test_what_is_folded_reads_back_as_the_same_program(formula: str) -> None:
    program = program_of(formula)
    printed = folded_statements(program)
    assert same(program, program_of(printed)), printed


def test_a_loop_takes_the_turns_of_another() -> None:
    text = dedent("""
        h = a
        hs = []
        for i in range(6):
            h = tanh(h * 0.5 + b)
            hs = [*hs, h]
        c = h
        for i in range(6):
            c = sin(c + hs[i] * hs[0])
        c * h
    """).strip()
    program = program_of(text)
    printed = folded_statements(program)
    assert same(program, program_of(printed)), printed
    assert printed.count("for i in range(6):") == 2, printed
    assert "sin(c + hs[i] * hs[0])" in printed, printed


def test_values_with_names_of_their_own_are_not_collected() -> None:
    lines = [f"{new} = sin({old}) * a" for old, new in pairwise("apqrstu")]
    program = program_of("\n".join([*lines, "stack([p, q, r, s, t, u])"]))
    printed = folded_statements(program)
    assert same(program, program_of(printed)), printed
    assert "for " not in printed


def test_two_loops_have_names_of_their_own() -> None:
    text = "y = a\nfor i in range(4):\n    y = sin(y)\nfor i in range(4):\n    y = cos(y)\ny * b"
    program = program_of(text)
    printed = folded_statements(program)
    assert same(program, program_of(printed)), printed
    assert printed.count("for i in range(4):") == 2, printed


def test_the_variable_of_a_loop_is_no_other_name() -> None:
    program = program_of("i = exp(a)\ny = a\nfor n in range(4):\n    y = sin(y) * i\ny")
    printed = folded_statements(program)
    assert same(program, program_of(printed)), printed
    assert "for j in range(4):" in printed
