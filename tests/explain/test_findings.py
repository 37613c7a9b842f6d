"""Which findings get a cause, which a pattern, and where they point then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.evaluation import Mode, Projection
from gradcheck_cli.explain import explain, findings
from gradcheck_cli.explain.findings import terms_of
from gradcheck_cli.judge import judge
from tests.conftest import array, spec_of

CUSTOM = """
def f_vjp(u, x):
    return {rule}

@custom_gradient(f_vjp)
def f(x):
    return {forward}
"""


X = np.array([0.5, 2.0])


def stated(forward: str, rule: str) -> str:
    return CUSTOM.format(forward=forward, rule=rule) + "\nf(x)"


@pytest.mark.parametrize(
    ("formula", "x", "code", "cause", "pattern"),
    [
        ("1 / exp(x)", 100.0, "GC201", "exp", None),
        ("sqrt(x * x)", 1e-30, "GC202", "multiply", None),
        ("log(1 + exp(x))", 100.0, "GC203", "exp", None),
        ("(exp(x) - 1) / x", 1e-4, "GC301", "subtract", None),
        ("1 / exp(x)", 60.0, "GC302", "divide", None),
        (stated("sin(x)", "-u * cos(x)"), 0.5, "GC101", "f", "wrong sign"),
        (stated("sin(x)", "u * cos(x) * 1.25"), 0.5, "GC101", "f", "factor 1.25"),
        (stated("sin(x)", "u * 0"), 0.5, "GC101", "f", "all zeros"),
        # the point, not an operation
        ("abs(x)", 0.0, "GC401", None, None),
        ("where(x >= 0, x + 1, x)", 0.0, "GC403", None, None),
        ("sin(1e6 * x)", 0.7, "GC502", "sin", None),
    ],
)
def test_explanation(
    judged: Callable[..., Any],
    formula: str,
    x: float,
    code: str,
    cause: str | None,
    pattern: str | None,
) -> None:
    found = judged(formula.strip(), {"x": x}).of(code)
    assert found
    for finding in found:
        assert (finding.cause and finding.cause.op) == cause
        assert finding.pattern == pattern


@pytest.mark.parametrize(
    ("rule", "pattern"),
    [
        # all of these are cos(x), to first order
        ("u * (2 * cos(stop_gradient(x)) - cos(x))", "wrong sign"),
        ("u * (cos(stop_gradient(x)) + 0 * x)", "all zeros"),
        ("u * (2 * cos(x) - cos(stop_gradient(x)))", "factor 2"),
        ("u * stop_gradient(cos(x))", None),  # nothing at all is given, which is another finding
    ],
)
def test_second_derivative(judged: Callable[..., Any], rule: str, pattern: str | None) -> None:
    formula = stated("sin(x)", rule).strip()
    made = judged(formula, {"x": 1.0}, order=2, engines=("reference",))
    (finding,) = made.of("GC106")
    assert (finding.pattern, finding.mode) == (pattern, "reverse-over-reverse")


def test_an_unstable_finding_points_at_its_cause(judged: Callable[..., Any]) -> None:
    made = judged("a = exp(x)\nb = 1 / a\nb * 2", {"x": 100.0}, engines=("reference",))
    before = judge(made.case)[1]
    assert {(f.span.line, f.cause) for f in before} == {(3, None)}
    assert {(f.span.line, f.span.column) for f in explain(made.case, before)} == {(1, 5)}


def test_a_wrong_finding_keeps_pointing_at_the_output(judged: Callable[..., Any]) -> None:
    made = judged(stated("sin(x)", "-u").strip() + " * 2", {"x": 0.5}, engines=("reference",))
    (finding,) = made.of("GC101")
    output = made.case.spec.program.result
    assert finding.span == output.span


def test_a_tie_that_a_certified_truth_does_not_depend_on_is_no_cause(
    judged: Callable[..., Any],
) -> None:
    """The zeros of relu share a maximum, but what TensorFlow computes inaccurately is gelu."""
    inputs = {"x": np.array([-1.0, -2.0]), "y": np.array([0.75, -3.0])}
    made = judged("max(relu(x)) + gelu(y)", inputs, dtype="float64", engines=("tensorflow",))
    assert {finding.cause.op for finding in made.of("GC101")} == {"gelu"}


def test_only_what_a_trace_shows_is_explained(judged: Callable[..., Any]) -> None:
    made = judged("1 / exp(x)", {"x": 100.0}, engines=("reference",))
    plain = judge(made.case)[1]
    blind = replace(made.case, traced={}, wide={})
    assert explain(blind, plain) == plain
    silent = {key: replace(e, trace=None) for key, e in made.case.traced.items()}
    assert explain(replace(made.case, traced=silent), plain) == plain


def test_explaining_changes_nothing_else(judged: Callable[..., Any]) -> None:
    made = judged("sum(1 / exp(x))", {"x": np.array([1.0, 60.0, 100.0])})
    plain = judge(made.case)[1]
    explained = explain(made.case, plain)
    kept: list[Mapping[str, Any]] = [
        {"cause": None, "pattern": None, "span": f.span} for f in plain
    ]
    assert tuple(replace(f, **k) for f, k in zip(explained, kept, strict=True)) == plain
    assert all(f.cause is not None for f in explained)


def test_an_explanation_that_breaks_leaves_the_finding_and_says_so(
    judged: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = judged("1 / exp(x)", {"x": 100.0})
    monkeypatch.setattr(findings, "blame", lambda *_: 1 / 0)
    found = judge(made.case)[1]
    explained = explain(made.case, found)
    assert explained[: len(found)] == found
    (fault,) = {(one.code, one.severity) for one in explained[len(found) :]}
    assert fault == ("GC706", "error")


def made(formula: str, inputs: Mapping[str, Any], mode: Mode = "reverse") -> Case:
    values = {name: array(value) for name, value in inputs.items()}
    spec = spec_of(formula.strip(), values)
    return Case(spec, None, "float64", values, {mode: Projection()}, (), None)


def terms(formula: str, mode: Mode = "reverse", **inputs: Any) -> dict[str, list[Any]]:
    found = terms_of(made(formula, inputs, mode), mode, "x")
    return {text: np.round(term, 12).tolist() for text, term in found}


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("sum(x ** 2) + sum(3 * x)", {"x ** 2": [[1.0, 4.0]], "3 * x": [[3.0, 3.0]]}),
        # a variable of its own counts where it is used
        ("y = 2 * x\nsum(y * y)", {}),  # x is used once
        ("y = 2 * x\nsum(y) * sum(x)", {"2 * x": [[5.0, 5.0]], "sum(x)": [[5.0, 5.0]]}),
        ("sum(x)", {}),
        # a use without a share is none
        ("sum(5 * x) + sum(stop_gradient(x))", {"5 * x": [[5.0, 5.0]]}),
        # every output has its row
        ("x ** 2 + 3 * x", {"x ** 2": [[1, 0], [0, 4]], "3 * x": [[3, 0], [0, 3]]}),
    ],
)
def test_terms(formula: str, expected: Mapping[str, Any], mode: Mode) -> None:
    assert terms(formula, mode, x=X) == expected


def test_the_same_input_twice_in_one_operation() -> None:
    found = terms_of(made("x * x", {"x": 3.0}), "reverse", "x")
    assert [(text, term.tolist()) for text, term in found] == [
        ("x * x", [[3.0]]),
        ("x * x", [[3.0]]),
    ]


def test_terms_add_up_to_the_gradient() -> None:
    formula = "a = sin(x) * y\nb = exp(x / 4)\nsum(a * b + x)"
    total = sum(term for _, term in terms_of(made(formula, {"x": X, "y": 3.0}), "reverse", "x"))
    slope = np.exp(X / 4) * (3 * np.cos(X) + 3 * np.sin(X) / 4) + 1
    # a handful of roundings, and one digit lost where the terms cancel
    np.testing.assert_allclose(total, slope[None], rtol=1e-14)


def test_other_inputs_keep_their_values() -> None:
    assert terms("x * y + 2 * x", x=1.0, y=7.0) == {"x * y": [[7.0]], "2 * x": [[2.0]]}


def test_stated_derivatives_are_not_followed() -> None:
    formula = """
def f_vjp(u, x):
    return -u

@custom_gradient(f_vjp)
def f(x):
    return 2 * x

f(x) + 3 * x
"""
    assert terms(formula, x=1.0) == {"2 * x": [[2.0]], "3 * x": [[3.0]]}


def test_more_uses_than_anybody_reads_are_not_told_apart() -> None:
    assert terms(" + ".join(f"{i} * x" for i in range(1, 17)), x=1.0) != {}
    assert terms(" + ".join(f"{i} * x" for i in range(1, 18)), x=1.0) == {}


def test_directions_have_no_terms() -> None:
    case = made("x ** 2 + 3 * x", {"x": X}, "forward")
    part = Projection(columns={"x": np.ones((1, 2))})
    assert terms_of(replace(case, projections={"forward": part}), "forward", "x") == ()
