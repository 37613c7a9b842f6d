"""Hard gradients, right and wrong: each gets its verdict, in both precisions and both engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import FIRST_ORDER, SECOND, order_of

CUSTOM = """
def f_vjp(u, x):
    return {vjp}

@custom_gradient(f_vjp)
def f(x):
    return {forward}

f(x)
"""
BOTH = pytest.mark.parametrize("dtype", ["float32", "float64"])
ENGINES = ("reference", "torch")


def stated(forward: str, vjp: str) -> str:
    return CUSTOM.format(forward=forward, vjp=vjp).strip()


def engines_of(made: Any, code: str) -> list[str]:
    """The engines that have this code, each as an error."""
    return [f.engine for f in made.of(code) if f.severity == "error"]


@BOTH
@pytest.mark.parametrize(
    ("forward", "vjp", "x", "pattern"),
    [
        ("exp(-x)", "u * exp(-x)", 20.0, "wrong sign"),  # 2e-9 in size
        ("exp(-x)", "-1.0001 * u * exp(-x)", 20.0, "factor 1.0001"),
        ("sin(x)", "1.0001 * u * cos(x)", 0.5, "factor 1.0001"),
        ("x ** 2", "2.0002 * u * x", 1e8, "factor 1.0001"),
        ("log(x)", "1.0001 * u / x", 1e-5, "factor 1.0001"),
        ("sin(200 * x)", "200.02 * u * cos(200 * x)", 0.03, "factor 1.0001"),
        ("1 / x", "u / x ** 2", 1e-4, "wrong sign"),
        ("exp(-x)", "0 * u", 20.0, "all zeros"),
        ("x * 1e-20", "u * 2e-20", 1.0, "factor 2"),
        ("exp(-x)", "-1.0001 * u * exp(-x)", np.array([20.0, 1.0, -20.0]), "factor 1.0001"),
    ],
)
def test_wrong_gradient_is_wrong_whatever_its_size(
    judged: Callable[..., Any], forward: str, vjp: str, x: Any, pattern: str, dtype: str
) -> None:
    made = judged(stated(forward, vjp), {"x": x}, dtype=dtype)
    assert made.codes == ["GC101"]
    assert engines_of(made, "GC101") == list(ENGINES)
    assert {finding.pattern for finding in made.findings} == {pattern}
    assert {finding.cause.op for finding in made.findings} == {"f"}


@BOTH
def test_one_wrong_entry_among_large_and_small_ones(judged: Callable[..., Any], dtype: str) -> None:
    """The wrong entry is a millionth of its neighbours."""
    wrong = stated("x ** 2", "u * 2 * x * where(x < 1, 1.001, 1)")
    x = np.array([1e3, 1e-3, 2e3])
    made = judged(wrong.replace("\nf(x)", "\nsum(f(x))"), {"x": x}, dtype=dtype)
    assert made.codes == ["GC101"]
    for finding in made.findings:
        assert [entry.index for entry in finding.entries] == [(1,)]


RIGHT: list[tuple[str, Mapping[str, Any]]] = [
    ("x ** 2", {"x": 1e8}),
    ("x ** 2", {"x": -1e8}),
    ("log(x)", {"x": 1e-5}),
    ("sin(200 * x)", {"x": 0.37}),
    ("sin(200 * x)", {"x": np.linspace(-1, 1, 7)}),
    ("1 / x", {"x": 1e-4}),
    ("exp(-x)", {"x": 20.0}),
    ("exp(-x)", {"x": np.array([1e-6, 1.0, 60.0])}),
    ("sum(x ** 2)", {"x": np.array([1e-6, 1.0, 1e6])}),
    ("sum(sin(x) * x)", {"x": np.array([1e-6, 1.0, 10.0])}),
    ("sum(log(x))", {"x": np.array([1e-6, 1.0, 1e6])}),
    ("x ** 3", {"x": np.array([1e-6, 1.0, 1e6])}),
    ("x / (1 + abs(x))", {"x": np.array([1e-6, 1.0, 10.0])}),
    ("x @ w", {"x": np.array([[1e-6, 1.0, 1e6]]), "w": np.array([[1e6], [1.0], [1e-6]])}),
    ("sqrt(x)", {"x": 1e-12}),
    ("tanh(x)", {"x": 1.5}),
    ("x * 1e-30", {"x": 1e20}),
]


@BOTH
@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize(("formula", "inputs"), RIGHT)
def test_right_gradient_passes_whatever_its_size(
    judged: Callable[..., Any], formula: str, inputs: Mapping[str, Any], mode: str, dtype: str
) -> None:
    made = judged(formula, inputs, dtype=dtype, modes=(mode,))
    assert [(f.code, f.severity, f.engine) for f in made.findings if f.severity != "note"] == []
    assert made.passed
    expected = {(engine, name) for engine in ENGINES for name in inputs}
    assert {(check.engine, check.input) for check in made.checks} == expected


@pytest.mark.parametrize(
    ("formula", "x"),
    [
        ("(1 - (1 - sigmoid(x))) ** 2 * 1e-17", -40.0),
        ("(1 - (1 - sigmoid(x))) ** 2", -40.0),
        ("expm1(x)", -104.0),
        ("expm1(x)", -60.0),
        ("atan2(x / x, tanh(x))", 58.431),
        ("log_softmax(stack([x, -x]))", 107.0),
        ("1 - tanh(x) ** 2", 50.0),
    ],
)
def test_what_is_absorbed_in_float64_is_no_wrong_rule(
    judged: Callable[..., Any], formula: str, x: float
) -> None:
    """The truth is below float32's numbers, whose zero is right there and says nothing."""
    made = judged(formula, {"x": x}, dtype="float64", modes=("reverse", "forward"))
    assert "GC302" in made.codes
    assert set(made.codes) <= {"GC301", "GC302", "GC303"}


@BOTH
@pytest.mark.parametrize(
    ("formula", "x", "codes"),
    [
        ("log_sigmoid(x)", 45.0, {"GC301", "GC302"}),
        ("tanh(x)", 20.0, {"GC301", "GC302"}),
        ("logsumexp(stack([x, -x]))", 30.0, {"GC301", "GC302"}),
        ("x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0]", np.array([[1.2, 0.3], [0.7, 2.1]]), set()),
        ("prod(x)", np.array([0.3, 2.0, -1.1]), set()),
    ],
)
def test_what_is_absorbed_in_a_second_derivative_is_no_wrong_rule(
    judged: Callable[..., Any], formula: str, x: Any, codes: set[str], dtype: str
) -> None:
    made = judged(formula, {"x": x}, dtype=dtype, order=2, modes=("reverse", "forward"))
    assert {f.code for f in made.findings if f.severity != "note"} <= codes


@BOTH
@pytest.mark.parametrize(
    ("formula", "inputs", "codes"),
    [
        # one entry at a jump; steps of another would be longer than its teeth
        (
            "sum(remainder(x, y))",
            {"x": np.array([-0.8715, 2.0]), "y": np.array([1e-30, 1.0])},
            {"GC403"},
        ),
        ("cummax(exp(x))", {"x": np.array([0.5, 4.0, 2.0])}, set()),
        ("cummin(exp(x))", {"x": np.array([0.5, 4.0, 2.0])}, set()),
        ("exp(erfcx(expm1(x)))", {"x": 19.796875}, {"GC301", "GC302"}),  # smooth: no GC402
    ],
)
def test_only_what_is_so_is_found(
    judged: Callable[..., Any],
    formula: str,
    inputs: Mapping[str, Any],
    codes: set[str],
    dtype: str,
) -> None:
    made = judged(formula, inputs, dtype=dtype, modes=("reverse", "forward"))
    assert {f.code for f in made.findings if f.severity != "note"} <= codes


def test_blame_looks_at_the_numbers_of_the_failing_entry(judged: Callable[..., Any]) -> None:
    """The first entry loses digits in the same operation; the last one is the zero."""
    x, y = np.array([20.0, 0.3, -2.0, -40.0]), np.array([1.0, 1.0, 0.0, 0.0])
    text = "p = sigmoid(x)\npt = where(y == 1, p, 1 - p)\n(1 - pt) ** 2 * log(pt)"
    made = judged(text, {"x": x, "y": y}, dtype="float64", modes=("reverse",))
    zeros = [finding for finding in made.of("GC302") if finding.input == "x"]
    assert {finding.engine for finding in zeros} == set(ENGINES)
    for finding in zeros:
        assert finding.entries[0].index == (3, 3)
        assert finding.cause.text == "1 - pt"
        assert "1 - 1 = 0" in finding.cause.detail


@pytest.mark.parametrize(
    ("formula", "x", "codes"),
    [
        ("1 - 1 / (1 + exp(-x))", 6.0, ["GC303"]),
        ("log(1 + x)", 0.01, ["GC303"]),
        ("sqrt(1 + x) - 1", 0.02, ["GC303"]),
        ("sigmoid(-x)", 6.0, []),
        ("log1p(x)", 0.01, []),
        ("expm1(x)", 0.02, []),
        ("exp(x) * sin(x) / (1 + x * x)", 0.7, []),
    ],
)
def test_values_in_few_digits(
    judged: Callable[..., Any], formula: str, x: float, codes: list[str]
) -> None:
    """An ulp of bfloat16 is 1 %: what costs a few of them may cost the value."""
    made = judged(formula, {"x": x}, dtype="bfloat16", modes=("reverse",))
    assert made.codes == codes


@pytest.mark.parametrize(
    ("formula", "x", "codes", "op"),
    [
        ("1 / exp(x)", 100.0, ["GC201"], "exp"),
        ("1 / exp(x)", 60.0, ["GC302"], "divide"),
        ("sqrt(x * x)", 1e-30, ["GC202", "GC303"], "multiply"),
        ("log(1 + exp(x))", 100.0, ["GC203"], "exp"),
    ],
)
def test_unstable_in_float32_and_clean_in_float64(
    judged: Callable[..., Any], formula: str, x: float, codes: list[str], op: str
) -> None:
    narrow = judged(formula, {"x": x}, dtype="float32")
    assert narrow.codes == codes
    assert engines_of(narrow, codes[0]) == list(ENGINES)
    assert {finding.engine for finding in narrow.findings} == set(ENGINES)
    assert {finding.cause.op for finding in narrow.findings} == {op}
    assert {check.status for check in narrow.checks} == {"failed"}
    wide = judged(formula, {"x": x}, dtype="float64")
    assert wide.findings == ()
    assert wide.passed


@BOTH
@pytest.mark.parametrize("x", [45.0, 60.0, 87.0, 100.0])
def test_the_stable_form_is_clean(judged: Callable[..., Any], x: float, dtype: str) -> None:
    assert judged("exp(-x)", {"x": x}, dtype=dtype).findings == ()
    by_hand = stated("1 / exp(x)", "-u * exp(-x)")
    assert judged(by_hand, {"x": x}, dtype=dtype).findings == ()


@BOTH
@pytest.mark.parametrize(
    ("formula", "bounds"),
    [
        ("sqrt(x)", {"x": (0, np.inf)}),
        ("sqrt(x)", {}),
        ("x ** (1 / 3)", {"x": (0, np.inf)}),
    ],
)
def test_vertical_tangent(
    judged: Callable[..., Any], formula: str, bounds: Mapping[str, Any], dtype: str
) -> None:
    made = judged(formula, {"x": 0.0}, dtype=dtype, bounds=bounds)
    assert "GC402" in made.codes
    assert not {"GC101", "GC301", "GC302"} & set(made.codes)
    assert not made.passed


@BOTH
@pytest.mark.parametrize(
    ("formula", "x", "codes"),
    [
        ("relu(x)", 0.0, ["GC401"]),
        ("abs(x)", 0.0, ["GC401"]),
        ("sum(relu(x))", np.array([-1.5, 0.0, 2.0]), ["GC401"]),
        ("max(x)", np.array([2.0, 2.0, 1.0]), ["GC401"]),
        ("clip(x, 0, 1)", 1.0, ["GC401"]),
        ("median(x)", np.zeros(3), ["GC401"]),  # along an axis the median stands still
        ("sort(x)[1]", np.zeros(3), ["GC401"]),
        ("median(x)", np.array([[1, 1, 0], [2.2, 0.06, 2.4], [1, 1, 0.5]]), ["GC401"]),
    ],
)
def test_kink_is_a_note(
    judged: Callable[..., Any], formula: str, x: Any, codes: list[str], dtype: str
) -> None:
    made = judged(formula, {"x": x}, dtype=dtype, modes=("reverse", "forward"))
    assert made.codes == codes
    assert made.passed


@BOTH
def test_a_slope_that_no_side_has_is_wrong(judged: Callable[..., Any], dtype: str) -> None:
    made = judged(stated("abs(x)", "u * where(x >= 0, 2, -2)"), {"x": 0.0}, dtype=dtype)
    assert engines_of(made, "GC101") == list(ENGINES)


@BOTH
def test_jump_is_reported(judged: Callable[..., Any], dtype: str) -> None:
    made = judged("where(x >= 1, x + 1, x)", {"x": 1.0}, dtype=dtype)
    assert [(f.code, f.severity) for f in made.findings] == [("GC403", "warning")]


@BOTH
@pytest.mark.parametrize(
    ("formula", "vjp", "x"),
    [
        ("x ** 3", "u * (2 * 3 * stop_gradient(x) * x - 3 * x * x)", 2.0),
        ("exp(-x)", "u * -exp(-stop_gradient(x))", 20.0),
    ],
)
def test_wrong_second_derivative(
    judged: Callable[..., Any], formula: str, vjp: str, x: float, dtype: str
) -> None:
    made = judged(stated(formula, vjp), {"x": x}, dtype=dtype, order=2)
    assert made.codes == ["GC106"]
    assert engines_of(made, "GC106") == list(ENGINES)
    assert {finding.mode for finding in made.findings} == {"reverse-over-reverse"}


@BOTH
@pytest.mark.parametrize("formula", ["exp(-x)", "x ** 3 + sin(x)", "x / (1 + x * x)"])
@pytest.mark.parametrize("x", [0.3, 20.0])
def test_right_second_derivative(
    judged: Callable[..., Any], formula: str, x: float, dtype: str
) -> None:
    made = judged(formula, {"x": x}, dtype=dtype, order=2, modes=("reverse", "forward"))
    assert made.findings == ()
    second = {mode for mode in SECOND if order_of(mode) == 2}
    assert {check.mode for check in made.checks} == {*FIRST_ORDER, *second}
