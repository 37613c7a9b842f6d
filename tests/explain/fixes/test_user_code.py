"""Which expression of the user's a fix replaces, and what it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.place import Place, Source
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.layer.rewriting import Seen
from gradcheck_cli.explain.fixes.user_code import Rewording, reworded
from gradcheck_cli.truth.plain import PlainFunction
from tests.conftest import program_of

SOURCE = Source("user.py", "")
POINTS = [{"x": np.array([0.3, -1.2])}, {"x": np.array([0.7, 2.5])}]


def in_a_file(program: Program) -> Program:
    from dataclasses import replace

    return replace(program, nodes=tuple(replace(n, source=SOURCE) for n in program.nodes))


def said(
    before: str,
    after: str,
    seen: Mapping[str, tuple[str, Mapping[str, str]]],
    engine: str = "torch",
    points: Sequence[Mapping[str, Any]] = POINTS,
    beyond: Sequence[Mapping[str, Any]] = (),
) -> Rewording | None:
    """`seen` has for each text in the user's code the formula of its value, and those of names."""
    inputs = {"x": [0.3, -1.2]}
    original, rewritten = (in_a_file(program_of(text, inputs)) for text in (before, after))

    def value(formula: str, at: Mapping[str, Any]) -> Any:
        return np.asarray(PlainFunction(program_of(formula, inputs), "float64")(at))

    def watch(place: Place) -> list[list[Seen]]:
        if place.text not in seen:
            return []
        formula, names = seen[place.text]
        return [
            [Seen(value(formula, at), {name: value(text, at) for name, text in names.items()})]
            for at in points
        ]

    return reworded(original, rewritten, points, watch, engine, beyond)


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("1 / (1 + exp(-x))", "exp(-softplus(-x))", "torch.exp(-torch.nn.functional.softplus(-x))"),
        ("exp(x) / (1 + exp(x))", "exp(-softplus(-x))", "exp(-torch.nn.functional.softplus(-x))"),
        ("x * tanh(x)", "abs(x) * tanh(abs(x))", "torch.abs(x) * torch.tanh(torch.abs(x))"),
    ],
)
def test_a_name_stands_for_what_has_its_value_far_away_as_well(
    before: str, after: str, code: str
) -> None:
    """Where all is saturated, -softplus(-x) is x, as |x| is x where that is positive."""
    sign = 1 if "abs" in after else -1
    points = [{"x": np.array([sign * at])} for at in (400.0, 400.2)]
    far = [{"x": np.array([0.7])}, {"x": np.array([-1e6])}]
    found = said(before, after, {before: (before, {"x": "x"})}, points=points, beyond=far)
    assert found is not None
    assert code in found.code.expression


def test_the_smallest_expression_that_has_the_value_is_replaced() -> None:
    found = said(
        "2 * log(1 + exp(x))",
        "2 * softplus(x)",
        {
            "log(1 + exp(x))": ("log(1 + exp(x))", {"z": "x"}),
            "2 * log(1 + exp(x))": ("2 * log(1 + exp(x))", {"z": "x"}),
        },
    )
    assert found is not None
    assert found.place.text == "log(1 + exp(x))"
    assert found.code.expression == "torch.nn.functional.softplus(z)"
    assert found.code.imports == ("import torch",)
    assert found.level == 0


def test_an_outer_one_where_nobody_sees_the_inner_one() -> None:
    whole = "2 * log(1 + exp(x))"
    found = said(whole, "2 * softplus(x)", {whole: (whole, {"z": "x"})}, "jax")
    assert found is not None
    assert (found.place.text, found.code.expression) == (whole, "2 * jax.nn.softplus(z)")
    assert found.level == 1


def test_what_has_another_value_is_not_the_expression() -> None:
    assert (
        said("log(1 + exp(x))", "softplus(x)", {"log(1 + exp(x))": ("log(x)", {"z": "x"})}) is None
    )


def test_an_input_without_a_name_cannot_be_written() -> None:
    text = "log(1 + exp(x))"
    assert said(text, "softplus(x)", {text: (text, {"y": "2 * x"})}) is None


@pytest.mark.parametrize(
    ("names", "argument"),
    [
        ({"z": "3 * x"}, "-z"),
        ({"z": "-(3 * x)"}, "z"),
        ({"longer": "3 * x", "u": "3 * x"}, "-u"),
        ({"a + b": "3 * x", "x": "x"}, "-(a + b)"),
        ({"self.z": "3 * x"}, "-self.z"),
    ],
)
def test_a_value_has_its_shortest_name_or_is_the_negative_of_one(
    names: Mapping[str, str], argument: str
) -> None:
    text = "1 / exp(3 * x)"
    found = said(text, "exp(-3 * x)", {text: (text, names)})
    assert found is not None
    assert found.code.expression == f"torch.exp({argument})"


def test_what_is_written_the_same_everywhere_is_one_place() -> None:
    """A loop or a function that ran twice."""
    from dataclasses import replace

    inputs = {"x": [0.3, -1.2]}
    text = "t = 1 / exp(x)\nt + 1 / exp(2 * x)"
    original = in_a_file(program_of(text, inputs))
    rewritten = in_a_file(program_of("t = exp(-x)\nt + exp(-2 * x)", inputs))
    span = next(n.span for n in original.nodes if n.op == "divide")
    nodes = tuple(
        replace(n, span=span, text="1 / exp(z)") if n.op == "divide" else n for n in original.nodes
    )
    plain = [PlainFunction(original, "float64").nodes(at) for at in POINTS]
    first, second = (i for i, n in enumerate(nodes) if n.op == "divide")

    def watch(place: Place) -> list[list[Seen]]:
        assert place.text == "1 / exp(z)"
        return [
            [
                Seen(np.asarray(at[first]), {"z": POINTS[i]["x"]}),
                Seen(np.asarray(at[second]), {"z": 2 * POINTS[i]["x"]}),
            ]
            for i, at in enumerate(plain)
        ]

    found = reworded(replace(original, nodes=nodes), rewritten, POINTS, watch, "torch")
    assert found is not None
    assert found.code.expression == "torch.exp(-z)"
