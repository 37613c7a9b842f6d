"""Custom gradients, constants and kinds: what the walk does before a framework sees anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.kit.walker import round_constant, rounded

X = np.array([0.5, 2.0])

RECIPROCAL = """
def f_vjp(upstream, x):
    return -upstream * exp(-x)

@custom_gradient(f_vjp)
def f(x):
    return 1 / exp(x)

f(x)
"""

WITH_JVP = """
def f_vjp(upstream, x):
    return -upstream * exp(-x)

def f_jvp(x_dot, x):
    return 7 * x_dot

@custom_gradient(f_vjp, jvp=f_jvp)
def f(x):
    return 1 / exp(x)

f(x)
"""

NO_GRADIENT = """
def f_vjp(upstream, x, y):
    return upstream * y, None

@custom_gradient(f_vjp)
def f(x, y):
    return x * y

f(x, y)
"""

WRONG_SHAPE = """
def f_vjp(upstream, x):
    return sum(upstream)

@custom_gradient(f_vjp)
def f(x):
    return x * 2

f(x)
"""

CONSTANT_GRADIENT = """
def f_vjp(upstream, x):
    return 3

@custom_gradient(f_vjp)
def f(x):
    return x * 2

f(x)
"""

OF_A_CONSTANT = """
def f_vjp(upstream, x, s):
    return upstream * s, None

@custom_gradient(f_vjp)
def f(x, s):
    return x * s

f(x, 0.1)
"""


@pytest.mark.parametrize(
    ("value", "rounding", "integral", "wanted"),
    [
        (0.1, "float32", False, float(np.float32(0.1))),
        (0.1, "float64", False, 0.1),
        (2, "float16", False, 2),
        (2049, "float16", False, 2048.0),
        (2049, "float16", True, 2049),
        (100000, "float16", False, float("inf")),
        (-(10**400), "float64", False, float("-inf")),
        (True, "float16", False, True),
    ],
)
def test_constants_are_rounded_to_the_dtype(
    value: Any, rounding: str, integral: bool, wanted: Any
) -> None:
    got = round_constant(value, rounding, integral)
    assert got == wanted
    assert type(got) is type(wanted)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2 * x + 0.5", True),
        ("clip(x, min=0.25)", True),
        (RECIPROCAL, True),
        ("0.1 * x", False),
        ("clip(x, max=0.1)", False),
        (RECIPROCAL.replace("exp(-x)", "(0.1 + x)"), False),
        (WITH_JVP.replace("7", "0.7"), False),
    ],
)
def test_constants_that_are_exact_leave_the_program_as_it_is(
    program: Callable[..., Any], text: str, same: bool
) -> None:
    made = program(text, {"x": X})
    assert rounded(made, "float64") is made
    assert (rounded(made, "float32") is made) == same


@pytest.mark.parametrize("mode", ["reverse", "reverse-over-reverse"])
def test_stated_rule_is_what_runs(engine: Engine, ask: Callable[..., Any], mode: str) -> None:
    # 1/exp(60) in float32 would give -0.0 in any framework; the rule does not
    answer = ask(engine, RECIPROCAL, mode=mode, dtype="float32", x=60.0)
    wanted = -np.exp(-60.0) if mode == "reverse" else np.exp(-60.0)
    (gradient,) = answer.gradients.values()
    # exp has a relative error of a few ulps in float32
    np.testing.assert_allclose(gradient.values, [[wanted]], rtol=1e-6)


def test_reference_transposes_the_rule_in_forward_mode(
    engine_called: Callable[[str], Engine], ask: Callable[..., Any]
) -> None:
    answer = ask(engine_called("reference"), RECIPROCAL, mode="forward", x=X)
    np.testing.assert_allclose(answer.gradients["x"].values, np.diag(-np.exp(-X)), rtol=1e-15)


@pytest.mark.parametrize("name", ["reference", "torch"])
def test_stated_jvp_is_what_forward_mode_runs(
    engine_called: Callable[[str], Engine], ask: Callable[..., Any], name: str
) -> None:
    answer = ask(engine_called(name), WITH_JVP, mode="forward", x=X)
    assert answer.gradients["x"].values.tolist() == [[7.0, 0.0], [0.0, 7.0]]


@pytest.mark.parametrize("mode", ["forward", "forward-over-reverse"])
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("torch", RECIPROCAL, "needs a jvp for the custom gradient of `f`"),
        ("tensorflow", RECIPROCAL, "ignores the custom gradient of `f`"),
        ("tensorflow", WITH_JVP, "ignores the custom gradient of `f`"),
    ],
)
def test_forward_mode_that_would_not_use_the_rule_is_refused(
    engine_called: Callable[[str], Engine],
    ask: Callable[..., Any],
    name: str,
    text: str,
    words: str,
    mode: str,
) -> None:
    answer = ask(engine_called(name), text, mode=mode, x=1.0)
    assert answer.failure.kind == "unsupported"
    assert words in answer.failure.message


def test_none_in_a_rule_is_no_gradient(engine: Engine, ask: Callable[..., Any]) -> None:
    answer = ask(engine, NO_GRADIENT, x=2.0, y=3.0)
    assert answer.failure is None
    assert answer.gradients["x"].values.tolist() == [[3.0]]
    assert answer.gradients["y"].values is None


def test_rule_of_the_wrong_shape_is_named(engine: Engine, ask: Callable[..., Any]) -> None:
    answer = ask(engine, WRONG_SHAPE, x=X)
    assert answer.failure.kind == "wrong-shape"
    assert "`f`" in answer.failure.message
    assert "`x`" in answer.failure.message
    assert "()" in answer.failure.message
    assert "(2,)" in answer.failure.message


def test_rule_may_return_a_bare_constant(engine: Engine, ask: Callable[..., Any]) -> None:
    answer = ask(engine, CONSTANT_GRADIENT, dtype="float32", x=1.0)
    assert answer.failure is None
    assert answer.gradients["x"].values.tolist() == [[3.0]]
    assert answer.gradients["x"].dtype == "float32"


def test_custom_gradient_takes_constants(engine: Engine, ask: Callable[..., Any]) -> None:
    answer = ask(engine, OF_A_CONSTANT, dtype="float32", x=X)
    assert answer.failure is None
    np.testing.assert_array_equal(answer.gradients["x"].values, np.diag([np.float32(0.1)] * 2))


def test_constants_reach_operators_as_numbers(
    engine_called: Callable[[str], Engine], ask: Callable[..., Any]
) -> None:
    # PyTorch computes 1 / t as reciprocal(t): one rounding, as with a tensor; x ** 2 as x * x
    answer = ask(engine_called("torch"), "x ** 2", dtype="float16", x=0.333)
    x = np.float16(0.333)
    assert answer.output == x * x


def test_booleans_count_as_numbers(engine: Engine, ask: Callable[..., Any]) -> None:
    answer = ask(engine, "sum(x > 1) * x[0]", dtype="float32", x=np.array([2.0, 3.0, 0.0]))
    assert answer.failure is None
    assert answer.output == 4.0
    assert answer.gradients["x"].values.tolist() == [[2.0, 0.0, 0.0]]
