"""What a wrong gradient looks like, and when nothing is claimed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Evaluation
from gradcheck_cli.explain.blame.patterns import STRAIGHT_THROUGH, name_pattern

TRUTH = np.array([[1.5, -2.25, 0.375, 3.0, -0.5, 7.0, 0.125, 1.0, -4.0]])
SIZES = {3: "axis 0 of `x`", 9: "all of `x`"}
SUM, MEAN = "a sum over", "a mean over"


def pattern(
    g: Array,
    truth: Array = TRUTH,
    *,
    shape: tuple[int, ...] = (3, 3),
    dtype: str = "float32",
    sizes: Mapping[int, str] = SIZES,
    terms: Sequence[tuple[str, Array]] = (),
) -> str | None:
    return name_pattern(np.asarray(g), truth, shape, FORMATS[dtype], sizes, lambda: terms)


TRANSPOSED = TRUTH.reshape(3, 3).T.reshape(1, 9)
TERM = np.linspace(0.3, 1.9, 9)[None]
ROUNDED = 1 + 2.0**-20 * np.linspace(-1, 1, 9)


@pytest.mark.parametrize(
    ("g", "expected"),
    [
        (0 * TRUTH, "all zeros"),
        (-TRUTH, "wrong sign"),
        (2 * TRUTH, "factor 2"),
        (-3 * TRUTH, "factor -3"),
        (1.0001 * TRUTH, "factor 1.0001"),
        ((1 + 2e-9) * TRUTH, "factor 1.000000002"),
        (TRUTH / 7, "factor 0.142857"),
        (TRUTH / 3, f"factor 1/3: {MEAN} axis 0 of `x` where a sum is right"),
        (TRUTH / 9, f"factor 1/9: {MEAN} all of `x` where a sum is right"),
        (3 * TRUTH, f"factor 3: {SUM} axis 0 of `x` where a mean is right"),
        (9 * TRUTH, f"factor 9: {SUM} all of `x` where a mean is right"),
        (TRANSPOSED, "transposed"),
        (TRUTH - TERM, "the term through `x * y` is missing"),
        (TRUTH + TERM, "the term through `x * y` is counted twice"),
    ],
)
def test_pattern(g: Array, expected: str) -> None:
    terms = [("sin(x)", TRUTH - TERM), ("x * y", TERM)]
    assert pattern(g, terms=terms, dtype="float64") == expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_slope_of_what_does_not_change_may_be_meant(dtype: str) -> None:
    assert pattern(np.sign(TRUTH), 0 * TRUTH, dtype=dtype) == STRAIGHT_THROUGH
    assert pattern(0 * TRUTH, 0 * TRUTH, dtype=dtype) is None
    residue = FORMATS[dtype].ulp(0 * TRUTH)
    assert pattern(residue, 0 * TRUTH, dtype=dtype) is None


@pytest.mark.parametrize(
    ("g", "expected"),
    [
        (-TRUTH, "wrong sign"),
        (TRUTH / 3, f"factor 1/3: {MEAN} axis 0 of `x` where a sum is right"),
        (TRANSPOSED, "transposed"),  # the diagonal is right, but for its rounding
        (TRUTH - TERM, "the term through `x * y` is missing"),
    ],
)
def test_pattern_is_seen_through_rounding(g: Array, expected: str) -> None:
    assert pattern(g * ROUNDED, terms=[("x * y", TERM)]) == expected


@pytest.mark.parametrize("seed", range(8))
def test_random_errors_look_like_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    wrong = rng.normal(size=(1, 9))
    assert pattern(wrong, terms=[("x * y", TERM)]) is None
    assert pattern(TRUTH * (1 + 0.1 * wrong), terms=[("x * y", TERM)]) is None
    assert pattern(TRUTH + 1e-3 * wrong, terms=[("x * y", TERM)]) is None


@pytest.mark.parametrize("g", [TRUTH, TRUTH * ROUNDED])
def test_right_gradient_looks_like_nothing(g: Array) -> None:
    assert pattern(g, terms=[("x * y", TERM)]) is None


@pytest.mark.parametrize(
    ("g", "truth"),
    [
        (np.where(TRUTH > 6, -TRUTH, TRUTH), TRUTH),  # one sign of nine
        (np.where(TRUTH > 6, 0, TRUTH), TRUTH),
        (np.where(TRUTH > 6, np.nan, -TRUTH), TRUTH),
        (2 * TRUTH + (TRUTH == 0), np.where(TRUTH > 6, 0, TRUTH)),
    ],
)
def test_nearly_a_pattern_is_none(g: Array, truth: Array) -> None:
    assert pattern(g, truth) is None


def test_zeros_of_the_truth_stay_zero_under_a_factor() -> None:
    truth = np.where(TRUTH > 6, 0, TRUTH)
    assert pattern(2 * truth, truth) == "factor 2"
    assert pattern(-truth, truth) == "wrong sign"


def test_only_a_square_can_be_told_transposed() -> None:
    wide = TRUTH[:, :6].reshape(2, 3).T.reshape(1, 6)
    assert pattern(wide, TRUTH[:, :6], shape=(2, 3)) is None
    symmetric = np.array([[1.0, 2.0, 2.0, 5.0]])
    assert pattern(symmetric, symmetric, shape=(2, 2)) is None


def test_along_directions_nothing_is_transposed() -> None:
    along = TRUTH[:, :4]
    assert pattern(along * [[1.0, 2.0, 3.0, 4.0]], along, shape=(3, 3)) is None


def test_rows_of_a_jacobian_are_transposed_one_by_one() -> None:
    both = np.concatenate([TRUTH, 3 * TRUTH**2])
    turned = both.reshape(2, 3, 3).swapaxes(1, 2).reshape(2, 9)
    assert pattern(turned, both) == "transposed"


def test_a_function_of_one_triangle_is_right_where_its_matrix_stays_symmetric() -> None:
    """The lower triangle has all of the derivative, as differences see it; a gradient shares it."""
    square = TRUTH.reshape(3, 3)
    lower = (np.tril(square) + np.tril(square.T, -1)).reshape(1, 9)
    shared = ((square + square.T) / 2).reshape(1, 9)
    assert "stays symmetric" in (pattern(shared * ROUNDED, lower) or "")
    assert "stays symmetric" not in (pattern(shared + 0.1 * np.eye(3).reshape(1, 9), lower) or "")


def test_float64_with_the_digits_of_float32() -> None:
    truth = TRUTH / 3
    narrow = truth.astype(np.float32).astype(np.float64)
    assert pattern(narrow, truth, dtype="float64") == "computed in float32"
    assert pattern(narrow, truth, dtype="float32") is None
    assert pattern(truth * (1 + 1e-9 * TERM), truth, dtype="float64") is None


# --- with everything computed ---

X = np.array([[0.3, -0.7], [1.1, 0.4]])
W = np.array([0.5, -1.25, 2.0])


def changed(how: Callable[[Array], Array]) -> Callable[[Evaluation], Evaluation]:
    """An engine whose gradient for `x` has a bug."""

    def change(evaluation: Evaluation) -> Evaluation:
        gradient = evaluation.gradients["x"]
        assert gradient.values is not None
        wrong = replace(gradient, values=np.asarray(how(gradient.values)))
        return replace(evaluation, gradients={**evaluation.gradients, "x": wrong})

    return change


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("formula", "x", "how", "expected"),
    [
        ("sum(sin(x))", W, lambda g: -g, "wrong sign"),
        ("sum(sin(x))", W, lambda g: 1.5 * g, "factor 1.5"),
        ("sum(sin(x))", W, lambda g: g / 3, "factor 1/3: a mean over axis 0 of `x` where"),
        ("mean(sin(x))", W, lambda g: 3 * g, "factor 3: a sum over axis 0 of `x` where"),
        ("sum(sin(x) * x)", X, lambda g: g.reshape(2, 2).T.reshape(1, 4), "transposed"),
        (
            "sum(sin(x)) + sum(x ** 3)",
            W,
            lambda g: g - np.cos(W),
            "the term through `sin(x)` is missing",
        ),
        (
            "sum(sin(x)) + sum(x ** 3)",
            W,
            lambda g: g + 3 * W**2,
            "the term through `x ** 3` is counted twice",
        ),
        ("sum(sin(x))", W, lambda g: g + np.array([[0.1, 0.3, -0.2]]), None),
    ],
)
def test_bug_of_an_engine(
    judged: Callable[..., Any],
    formula: str,
    x: Array,
    how: Callable[[Array], Array],
    expected: str | None,
    dtype: str,
) -> None:
    made = judged(formula, {"x": x}, dtype=dtype, engines=("reference",), change=changed(how))
    (finding,) = made.of("GC101")
    if expected is None:
        assert finding.pattern is None
    else:
        assert finding.pattern is not None
        assert finding.pattern.startswith(expected)


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (
            [1, -1],
            [1, -1],
            "the complex conjugate of the derivative: a conj() is missing or superfluous",
        ),
        ([1, 1], [1, -1], "the complex conjugate of the gradient"),
        ([1, -1], [1, 1], "right for the complex conjugate of the upstream gradient"),
    ],
)
def test_conjugates_are_told_apart(
    rows: Sequence[int], columns: Sequence[int], expected: str
) -> None:
    truth = np.array([[1.5, -0.5], [0.25, 3.0]])
    wrong = np.array(rows)[:, None] * truth * np.array(columns)
    both = name_pattern(
        wrong, truth, (2,), FORMATS["float32"], {}, tuple, complex_output=True, complex_input=True
    )
    assert both == expected
    assert name_pattern(wrong, truth, (2,), FORMATS["float32"], {}, tuple) is None
