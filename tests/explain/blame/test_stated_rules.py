"""A custom gradient that is wrong is named, even where several are stated."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.explain.blame.stated_rules import blame_rule


def custom(name: str, vjp: str, forward: str, arguments: str = "x") -> str:
    return f"""
def {name}_vjp(u, {arguments}):
    return {vjp}

@custom_gradient({name}_vjp)
def {name}({arguments}):
    return {forward}
"""


RIGHT = custom("right", "u * cos(x)", "sin(x)")
SIGN = custom("sign", "u * exp(-x)", "exp(-x)")
SCALE = custom("scale", "1.0001 * u * cos(x)", "sin(x)")
PRODUCT = custom("product", "u * y, u * y", "x * y", "x, y")
SWAPPED = custom("swapped", "u * x, u * y", "x * y", "x, y")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("text", "call", "op", "parameter"),
    [
        (SIGN, "sign(x)", "sign", "`x`"),
        (SCALE, "scale(x)", "scale", "`x`"),
        (RIGHT + SIGN, "sign(right(x))", "sign", "`x`"),
        (RIGHT + SIGN, "right(sign(x))", "sign", "`x`"),
        (RIGHT + SIGN, "sum(right(x) * 3) + sign(x * 2)", "sign", "`"),
        (PRODUCT, "product(x, x + 1)", "product", "`y`"),
        (SWAPPED, "swapped(x, 2 * x)", "swapped", "`x`"),
    ],
)
def test_wrong_rule(
    judged: Callable[..., Any], text: str, call: str, op: str, parameter: str, dtype: str
) -> None:
    made = judged(f"{text}\n{call}", {"x": 0.75}, dtype=dtype)
    for finding in made.of("GC101"):
        assert finding.cause is not None
        assert (finding.cause.op, finding.cause.phase) == (op, "backward")
        assert finding.cause.text.startswith(f"{op}(")
        assert re.match(rf"your custom gradient returns \S+ for {parameter}", finding.cause.detail)
    assert len(made.of("GC101")) == 2


def test_detail_and_story_have_the_numbers(judged: Callable[..., Any]) -> None:
    made = judged(f"{SIGN}\nsign(x) * 2", {"x": 0.0}, dtype="float64", engines=("reference",))
    (finding,) = made.of("GC101")
    assert (
        finding.cause.detail
        == "your custom gradient returns 2 for `x`; the derivative of forward is -2"
    )
    assert finding.cause.story == "the custom gradient of `sign` returns 2; correct: -2"
    assert (finding.cause.span.line, finding.cause.text) == (9, "sign(x)")


def test_the_wrong_entry_of_an_array_is_shown(judged: Callable[..., Any]) -> None:
    text = custom("f", "u * where(x > 2, 5, 2 * x)", "x * x")
    made = judged(f"{text}\nsum(f(x))", {"x": np.array([1.0, 3.0])}, engines=("reference",))
    (finding,) = made.of("GC101")
    assert (
        finding.cause.detail
        == "your custom gradient returns 5 for `x`; the derivative of forward is 6"
    )


def test_two_wrong_rules_the_first_is_named(judged: Callable[..., Any]) -> None:
    made = judged(f"{SIGN}{SCALE}\nscale(x) + sign(x)", {"x": 0.5}, engines=("reference",))
    (finding,) = made.of("GC101")
    assert finding.cause.op == "scale"


def test_no_rule_no_cause(judged: Callable[..., Any]) -> None:
    """The engine is wrong by itself: no line of the formula is to blame."""

    def tampered(evaluation: Any) -> Any:
        wrong = replace(evaluation.gradients["x"], values=np.array([[7.0]]))
        return replace(evaluation, gradients={"x": wrong})

    for formula in ("sin(x)", f"{RIGHT}\nright(x)"):
        made = judged(formula, {"x": 0.5}, engines=("reference",), change=tampered)
        (finding,) = made.of("GC101")
        assert finding.cause is None


@pytest.mark.parametrize(("x", "codes"), [(2.0, []), (11.0, ["GC301"]), (20.0, ["GC302"])])
def test_a_rule_that_cancels_is_not_wrong(
    judged: Callable[..., Any], x: float, codes: list[str]
) -> None:
    """As a formula it is the derivative of tanh; float64 leaves few of its digits, or none."""
    text = custom("bend", "u * (1 - tanh(x) ** 2)", "tanh(x)")
    made = judged(f"{text}\n3 * bend(x)", {"x": x}, dtype="float64", engines=("reference",))
    assert made.codes == codes
    for finding in made.of("GC301"):
        assert finding.cause.kind == "cancellation"


def test_a_wrong_jvp_is_named_in_forward_mode(judged: Callable[..., Any]) -> None:
    text = """
def both(u, n, x):
    return None, u * 3 * x ** 2

def push(n_dot, x_dot, n, x):
    return 2 * x ** 2 * x_dot

@custom_gradient(both, jvp=push)
def cube(n, x):
    return n * x ** 3 / n
"""
    values = {"n": np.array(2), "x": np.array(1.5)}
    made = judged(
        f"{text}\nsin(cube(n, x))", values, engines=("reference",), modes=("reverse", "forward")
    )
    (finding,) = made.of("GC101")
    assert finding.mode == "forward"
    assert finding.cause.detail == "your jvp returns 4.5 for `x`; the derivative of forward is 6.75"
    assert finding.cause.story == "the jvp of `cube` returns 4.5; correct: 6.75"


def test_without_a_trace_there_is_no_cause(judged: Callable[..., Any]) -> None:
    made = judged(f"{SIGN}\nsign(x)", {"x": 0.5}, engines=("reference",))
    (traced,) = made.case.traced.values()
    assert blame_rule(made.case, traced) is not None
    assert blame_rule(made.case, replace(traced, trace=None)) is None


def test_rule_that_is_wrong_only_with_its_upstream(judged: Callable[..., Any]) -> None:
    """It is asked with the upstream that it had, not with ones."""
    text = custom("f", "u * u", "x + 0")
    made = judged(f"{text}\nf(x) * 3", {"x": 0.5}, engines=("reference",))
    (finding,) = made.of("GC101")
    assert (
        finding.cause.detail
        == "your custom gradient returns 9 for `x`; the derivative of forward is 3"
    )
