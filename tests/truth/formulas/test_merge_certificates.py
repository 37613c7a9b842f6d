"""Certified truth in whole requests, and what stands beside it."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.certified.ball_program import BallProgram
from gradcheck_cli.truth.formulas import compute as of_formulas
from tests.conftest import truth_of

EVERY: tuple[Mode, ...] = (
    "reverse",
    "forward",
    "reverse-over-reverse",
    "forward-over-reverse",
)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_what_is_enclosed_needs_no_difference(dtype: str) -> None:
    truth = truth_of("sum(sin(x) / x)", {"x": [0.5, 2.0]}, dtype=dtype, modes=EVERY)
    for block in truth.blocks.values():
        assert np.all(block.certified)
        assert np.all(np.isnan(block.difference))
        visible = FORMATS[dtype].ulp(block.value) / 256 + FORMATS["float64"].ulp(block.value)
        assert np.all(block.error <= visible)
    assert truth.forward == 0
    assert not truth.uncertified


def test_digits_that_float64_lost_are_there() -> None:
    block = truth_of("(1 - cos(x)) / x ** 2", {"x": 1e-7}).blocks["reverse", "x"]
    assert block.value[0, 0] == pytest.approx(-1e-7 / 12, rel=1e-13)


@pytest.mark.parametrize(
    ("formula", "x"), [("sin(x)", 2e71), ("1 / log1p(expm1(x))", -223.0), ("1 / exp(x)", 800.0)]
)
def test_what_no_difference_in_float64_resolves_is_decided(formula: str, x: float) -> None:
    truth = truth_of(formula, {"x": x})
    assert truth.blocks["reverse", "x"].kind[0, 0] == PointKind.SMOOTH
    assert not truth.reasons


def test_second_opinion_comes_with_the_cost_of_rounding() -> None:
    truth = truth_of("x * exp(x)", {"x": 1.5}, conditioning=True)
    block = truth.blocks["reverse", "x"]
    assert block.certified[0, 0]
    assert abs(block.difference[0, 0] - block.value[0, 0]) <= block.difference_error[0, 0]
    assert block.condition[0, 0] > 0


def test_certificates_are_not_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counting(of: of_formulas.TruthRequest, function: BallProgram) -> object:
        asked.append(of)
        return certify(of, function=function)

    certify = of_formulas.certify
    monkeypatch.setattr(of_formulas, "certify", counting)
    first = truth_of("x * exp(x)", {"x": 1.5})
    monkeypatch.setattr(of_formulas, "certify_output", lambda *_, **__: pytest.fail("twice"))
    again = truth_of("x * exp(x)", {"x": 1.5}, conditioning=True, known=first)
    assert len(asked) == 1
    assert (again.output, again.output_error) == (first.output, first.output_error)
    assert again.output_certified
    assert again.blocks["reverse", "x"].value == first.blocks["reverse", "x"].value


@pytest.mark.parametrize(
    ("formula", "x", "why"),
    [
        ("sum(pinv(x * reshape(x, (2, 1))) ** 2)", [1.0, 2.0], "pinv has no enclosure"),
        ("sum(sin(x) * x)", np.linspace(1, 2, 400_000), "too many operations"),
    ],
)
def test_what_cannot_be_enclosed_says_why_and_has_differences(
    formula: str, x: object, why: str
) -> None:
    truth = truth_of(formula, {"x": x})
    assert why in truth.uncertified["reverse", "x"]
    block = truth.blocks["reverse", "x"]
    assert not np.any(block.certified)
    assert np.all(block.confirmed)


@pytest.mark.parametrize(
    ("formula", "inputs", "gradient"),
    [
        ("where(x < 1, cos(x), 0.0)", {"x": np.inf}, {"x": 0.0}),
        ("logaddexp(x, y)", {"x": -np.inf, "y": 3.0}, {"x": 0.0, "y": 1.0}),
        ("exp(-x) * y", {"x": np.inf, "y": 3.0}, {"x": 0.0, "y": 0.0}),
    ],
)
def test_infinite_inputs(formula: str, inputs: dict, gradient: dict) -> None:
    truth = truth_of(formula, inputs)
    for name, expected in gradient.items():
        block = truth.blocks["reverse", name]
        assert block.certified[0, 0]
        assert block.value[0, 0] == expected


def test_value_is_exact() -> None:
    truth = truth_of("(1 + x) - 1", {"x": 1e-17})
    assert truth.output == 1e-17
    assert truth.output_error <= 1e-33


def test_a_stopped_gradient_is_held() -> None:
    block = truth_of("stop_gradient(x * x) * x", {"x": 3.0}).blocks["reverse", "x"]
    assert block.certified[0, 0]
    assert block.value[0, 0] == 9


@pytest.mark.parametrize("formula", ["sum(where(m > 0, x * x, 0.0))", "sum(relu(m) * x * x)"])
def test_a_tie_among_data_is_no_kink(formula: str) -> None:
    truth = truth_of(formula, {"x": [2.0, 3.0], "m": [0.0, 1.0]}, wrt=["x"])
    block = truth.blocks["reverse", "x"]
    assert np.all(block.certified)
    assert block.value.tolist() == [[0.0, 6.0]]


@pytest.mark.parametrize(
    ("formula", "x", "told"),
    [
        ("sum(pinv(x * reshape(x, (2, 1))) ** 2)", [1.0, 2.0], "pinv has no enclosure"),
        ("abs(x)", 0.0, ""),  # what has no derivative has no certificate by nature
        ("exp(x)", 1.0, ""),
    ],
)
def test_who_falls_back_says_why(formula: str, x: object, told: str) -> None:
    fallback = truth_of(formula, {"x": x}).fallback
    assert told in fallback if told else fallback == ""


def test_a_pole_of_which_a_difference_has_no_digit_is_no_derivative() -> None:
    block = truth_of("acos((x + 2 - 1) / 2)", {"x": 1.0}).blocks["reverse", "x"]
    assert block.kind[0, 0] == PointKind.UNDEFINED
    # where it is removable a difference knows the derivative
    flat = truth_of("sqrt(x ** 4)", {"x": 0.0}).blocks["reverse", "x"]
    assert (flat.kind[0, 0], flat.value[0, 0]) == (PointKind.SMOOTH, 0.0)


def test_divergence_from_a_distribution_with_a_zero() -> None:
    """The slope by a probability of 0 is infinite; the others know nothing of it."""
    p = np.array([0.2, 0.3, 0.5])
    fixed = truth_of("sum(kl_div(log(p), [0.5, 0.5, 0.0]))", {"p": p}).blocks["reverse", "p"]
    assert np.all(fixed.certified)
    np.testing.assert_allclose(fixed.value, [[-2.5 / 3, -5 / 9, 0]], rtol=1e-15)
    q = np.array([0.5, 0.5, 0.0])
    block = truth_of("sum(kl_div(log(p), q))", {"p": p, "q": q}).blocks["reverse", "q"]
    assert block.kind.tolist() == [[PointKind.SMOOTH, PointKind.SMOOTH, PointKind.UNDEFINED]]
    assert block.certified.tolist() == [[True, True, False]]
    assert np.all(block.difference_error[0, :2] < 1e-10)  # the zero does not drown them
