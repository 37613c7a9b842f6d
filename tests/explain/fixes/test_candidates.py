"""What is proposed for an unstable formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.fixes import Candidate
from gradcheck_cli.explain.algebra.expressions import ExprPool
from gradcheck_cli.explain.fixes.candidates import MOST, Ranges, propose
from gradcheck_cli.explain.fixes.code import code_of
from gradcheck_cli.formula import Argument, parse
from reference_engine.op import TABLE
from tests.conftest import array, program_of
from tests.every import by_family


def proposed(formula: str, blame: str = "", **values: Any) -> dict[str, Candidate]:
    """The candidates by the formulas that they put in place."""
    program = program_of(formula, values)
    blamed = [i for i, node in enumerate(program.nodes) if node.op == blame]
    arrays = {name: array(value) for name, value in values.items()}
    return {c.after: c for c in propose(program, "float32", arrays, blamed)}


def test_a_rewrite_and_what_it_replaces() -> None:
    candidate = proposed("y = 3 * (1 / exp(x))\ny + 1", x=100.0)["exp(-x)"]
    assert candidate.before == "1 / exp(x)"
    assert candidate.model == "y = 3 * exp(-x)\ny + 1"
    assert candidate.rules == ("1 / exp(x) -> exp(-x)",)
    assert not candidate.custom


def test_through_intermediate_names_and_helper_functions() -> None:
    formula = "def part(t):\n    return exp(t)\ns = part(x)\np = s / sum(s)\nsum(w * p)"
    assert proposed(formula, x=[100.0, 101.0], w=[1.0, 2.0])["softmax(x)"].before == "s / sum(s)"


def test_where_there_was_no_derivative_is_said_in_the_users_names() -> None:
    found = proposed("sum(p * log(p / q))", p=[0.5, 0.0], q=[0.2, 0.8])
    assert {c.kink for c in found.values() if c.kink} == {"0 where p = 0"}
    root = proposed("sqrt(sum(v * v))", v=[0.0])
    assert "0 where sum(v * v) = 0" in {c.kink for c in root.values()}


def test_two_rewrites_one_after_the_other() -> None:
    found = proposed("log(0.5 * (1 + erf(x / 1.4142135623730951)))", x=-6.0)
    assert len(found["log_ndtr(x)"].rules) == 2


def test_a_chain_puts_every_part_in_its_stable_form() -> None:
    loss = "p = 1 / (1 + exp(-z))\nt = y * p + (1 - y) * (1 - p)\n-log(t) * (1 - t) ** 2"
    found = proposed(loss, y=1.0, z=-120.0)
    assert any("log_sigmoid(t1) * sigmoid(-t1) ** 2" in c.model for c in found.values())


def test_an_underflow_is_followed_through_the_program() -> None:
    # neither rewrite alone leaves a program without numbers that are too small
    loss = "p = w * exp(-d)\nl = sum(p)\nr = p / l\nsum(r * d) - log(l)"
    found = proposed(loss, d=[200.0, 210.0], w=[0.5, 1.5])
    best = next(iter(found.values())).model
    assert "logsumexp" in best
    assert "softmax" in best


def test_two_rewrites_in_two_places() -> None:
    found = proposed("log(1 + exp(x)) * (1 / exp(y))", x=100.0, y=100.0)
    assert "softplus(x) * exp(-y)" in found


def test_a_condition_is_stated_and_must_hold_at_the_point() -> None:
    assert proposed("log(a / b)", a=1e-30, b=1e20)["log(a) - log(b)"].condition == "a > 0 and b > 0"
    assert "log(a) - log(b)" not in proposed("log(a / b)", a=-1e-30, b=-1e20)


def test_the_derivative_of_what_is_to_blame_is_stated() -> None:
    (candidate,) = (c for c in proposed("2 * tanh(x)", "tanh", x=10.0).values() if c.custom)
    assert candidate.before == "tanh(x)"
    assert candidate.program.has_custom_gradient
    assert candidate.model.endswith("2 * stable_tanh(x)")


def test_nothing_adds_an_epsilon_or_clips() -> None:
    for formula in ("log(p)", "sqrt(sum(p ** 2))", "p / sum(p)", "log(softmax(p))"):
        for candidate in proposed(formula, p=[0.0, 1.0]).values():
            assert "clip" not in candidate.model
            assert "1e-" not in candidate.model


def test_no_candidate_loses_an_input() -> None:
    assert all("y" in c.model for c in proposed("x * y / y", x=1.0, y=1e-30).values())


@pytest.mark.exhaustive
def test_a_large_program_is_searched_near_the_blame_only() -> None:
    lines = ["t = exp(x)", *["t = tanh(t + 1 / exp(x))"] * 400, "sum(t)"]
    program = program_of("\n".join(lines), {"x": np.ones(3)})
    blamed = [len(program.nodes) - 3]
    found = propose(program, "float32", {"x": np.ones(3)}, blamed)
    assert 0 < len(found) <= MOST


@pytest.mark.exhaustive
@by_family(TABLE)
def test_no_operation_is_beyond_the_search(op: str) -> None:
    """Candidates, their Python and their text can be written for every row of the table."""
    row = TABLE[op]
    names = ["a", "b", "c", "d"][: row.arity] if row.arity > 0 else ["a", "b"]
    called = ", ".join(names) if row.arity > 0 else f"[{', '.join(names)}]"
    formula = f"log(1 + exp(sum({op}({called}))))"
    for shape in ((), (3,), (3, 3)):
        values = {name: np.linspace(0.2, 0.8, 9)[: int(np.prod(shape))] for name in names}
        values = {name: value.reshape(shape) for name, value in values.items()}
        parsed = parse(formula, inputs={name: Argument(shape) for name in names})
        if parsed.program is None:
            continue
        blamed = [i for i, node in enumerate(parsed.program.nodes) if node.op == op]
        for candidate in propose(parsed.program, "float32", values, blamed):
            code_of(candidate.part)
            inputs = {name: Argument(shape) for name in names}
            assert parse(candidate.model, inputs=inputs).program is not None, candidate.model


@pytest.mark.parametrize(
    ("formula", "x", "dtype", "uses"),
    [
        ("1 / exp(x)", 100.0, "float32", 2),  # e^100 is divided by, and the result is subnormal
        ("1 / exp(x)", 100.0, "float64", 0),
        ("sqrt(x * x)", 300.0, "float16", 1),
        ("x * 0", 5.0, "float16", 0),  # a zero fits
        ("y = exp(x)\nlog(y) + y / (1 + y)", 12.0, "float16", 4),
    ],
)
def test_uses_of_numbers_that_do_not_fit(formula: str, x: float, dtype: str, uses: int) -> None:
    forest = ExprPool(program_of(formula, {"x": x}))
    assert Ranges(forest, FORMATS[dtype], {"x": array(x)}).lost(forest.output) == uses
