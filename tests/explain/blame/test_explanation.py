"""The operation that made the first bad number is named, where it stands, with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.report import Cause
from gradcheck_cli.domain.thresholds import NOTE_BITS

ENGINES = ("reference", "torch")
FAR = np.array([1.0, 2.0, 100.0, 3.0])  # one entry at which exp overflows
LATE = np.array([1.0, 2.0, 60.0, 3.0])  # one at which exp(x)**2 does
TINY = np.array([1e-25, 2e-25])  # squares underflow

# programs of up to ten operations; the one to blame is neither the first nor the last
LONG_OVERFLOW = """
a = sin(x)
b = a * 2
c = 1 / exp(b * 50)
d = c + 1
e = d * 3
log(e) - 1
"""
LONG_CANCELLATION = """
a = x * x
b = a + 1
c = sqrt(b)
d = c - 1
e = sin(d)
e / x
"""
LONG_UNDERFLOW = """
a = sin(x)
b = a * a
c = sqrt(b)
d = c * 3
e = -d
e / 5
"""


def cause_of(
    judged: Callable[..., Any],
    formula: str,
    inputs: Mapping[str, Any],
    code: str,
    **settings: Any,
) -> Cause:
    """The cause that every engine's finding with this code has."""
    made = judged(formula.strip(), inputs, **settings)
    causes = [finding.cause for finding in made.of(code)]
    assert len(causes) == len(settings.get("engines", ENGINES)), made.codes
    assert all(cause is not None for cause in causes)
    assert len({(cause.op, cause.phase, cause.span) for cause in causes}) == 1
    cause: Cause = causes[0]
    return cause


def blamed(cause: Cause) -> str:
    """What is blamed and where: "backward divide 1:1 `1 / exp(x)`"."""
    place = f"{cause.span.line}:{cause.span.column}"
    assert cause.span.end_column == cause.span.column + len(cause.text)
    return f"{cause.phase} {cause.op} {place} `{cause.text}`"


def assert_proven(cause: Cause) -> None:
    """That a run without this operation's error was right, to what the warning level allows."""
    assert cause.proven
    assert cause.engine_op
    assert f"`{cause.text}`" in cause.proof or cause.detail.startswith("the contributions")
    assert cause.repaired is not None
    assert cause.repaired <= 2.0 ** (NOTE_BITS * FORMATS["float32"].bits)


# formula, x, code, what is blamed, how its detail begins
OVERFLOW = [
    ("1 / exp(x)", 100.0, "GC201", "forward exp 1:5 `exp(x)`", "exp(100) = 2.69e+43 > 3.4e+38"),
    ("sum(1 / exp(x))", FAR, "GC201", "forward exp 1:9 `exp(x)`", "exp(100) = 2.69e+43"),
    ("tanh(exp(x))", 100.0, "GC201", "forward exp 1:6 `exp(x)`", "exp(100) = 2.69e+43"),
    (LONG_OVERFLOW, 1.5, "GC201", "forward exp 3:9 `exp(b * 50)`", "exp(99.7) = 2.09e+43"),
    # it took the output with it
    ("log(1 + exp(x))", 100.0, "GC203", "forward exp 1:9 `exp(x)`", "exp(100)"),
    ("sum(exp(x) / sum(exp(x)))", FAR, "GC203", "forward exp 1:5 `exp(x)`", "exp(100)"),
]
# noticed only at the derivative of a later operation
UNDERFLOW = [
    ("sqrt(x * x)", 1e-30, "GC202", "forward multiply 1:6 `x * x`", "1e-30 * 1e-30 = 1e-60 < 1.18"),
    ("sqrt(sum(x * x))", TINY, "GC202", "forward multiply 1:10 `x * x`", "2e-25 * 2e-25 = 4e-50"),
    (LONG_UNDERFLOW, 1e-30, "GC202", "forward multiply 2:5 `a * a`", "1e-30 * 1e-30 = 1e-60"),
]
LOST_DIGITS = [
    # in the derivative the parts of x cancel once more, but by then they are wrong already
    (
        "(exp(x) - 1) / x",
        1e-4,
        "GC301",
        "forward subtract 1:2 `exp(x) - 1`",
        "1.0001 - 1 = 0.000100016594; exact: 0.000100004998",
    ),
    (
        "sum((exp(x) - 1) / x)",
        np.array([1.0, 1e-4, 2.0]),
        "GC301",
        "forward subtract 1:6 `exp(x) - 1`",
        "1.0001 - 1 = 0.000100016594",
    ),
    (LONG_CANCELLATION, 1e-3, "GC301", "forward subtract 4:5 `c - 1`", "1.00000048 - 1 = 4.768"),
]
OTHERS = [
    # a difference that leaves nothing at all
    (
        "sqrt(1 - cos(x))",
        1e-4,
        "GC202",
        "forward subtract 1:6 `1 - cos(x)`",
        "becomes zero in float32: 1 - 1 = 0; exact: 5e-09",
    ),
    # everything that goes forward is right
    (
        "1 / exp(x)",
        60.0,
        "GC302",
        "backward divide 1:1 `1 / exp(x)`",
        "backward underflows float32: divide(8.76e-27, 1.14e+26) = 7.67e-53 < 1.18e-38",
    ),
    (
        "sum(1 / exp(x))",
        LATE,
        "GC302",
        "backward divide 1:5 `1 / exp(x)`",
        "backward underflows float32: divide(8.76e-27, 1.14e+26) = 7.67e-53 < 1.18e-38",
    ),
    # the value is right to the last digit, and so is every part of the derivative
    (
        "log(1 + x) - x",
        1e-3,
        "GC301",
        "backward subtract 1:1 `log(1 + x) - x`",
        "the contributions to `x` cancel: -1 + 0.999000967 = -0.0009990",
    ),
    # the value is zero, but the derivative does not depend on it
    (
        "y = x * 1e-30 * 1e-30\ny * 1e30 * 1e30",
        1.0,
        "GC202",
        "backward multiply 2:1 `y * 1e30`",
        "backward overflows float32: multiply(1e+30, 1e+30) = 1e+60 > 3.4e+38",
    ),
]
BLAMED = [
    *((*row, f"overflows float32: {detail}") for *row, detail in OVERFLOW),
    *((*row, f"underflows float32: {detail}") for *row, detail in UNDERFLOW),
    *((*row, f"loses digits in float32: {detail}") for *row, detail in LOST_DIGITS),
    *OTHERS,
]


def label(row: tuple[Any, ...]) -> str:
    return f"{row[2]} {' '.join(row[0].split())[:30]} {np.size(row[1])}"


@pytest.mark.parametrize(
    ("formula", "x", "code", "producer", "detail"), BLAMED, ids=map(label, BLAMED)
)
def test_producer(
    judged: Callable[..., Any], formula: str, x: Any, code: str, producer: str, detail: str
) -> None:
    cause = cause_of(judged, formula, {"x": x}, code)
    assert blamed(cause) == producer
    assert cause.detail.startswith(detail)
    assert_proven(cause)


DIVIDE = "forward divide 1:1 `1 / exp(x)`"
SCALED = "y = x * 1e-30 * 1e-30\ny * 1e30 * 1e30"
SQUARED = "tangent underflows float32: aten.mul.Tensor(8.76e-27, 8.76e-27) = 7.67e-53 < 1.18e-38"
TANGENTS = [
    ("1 / exp(x)", 100.0, "GC201", "forward exp 1:5 `exp(x)`", "overflows float32: exp(100)"),
    ("1 / exp(x)", 60.0, "GC302", DIVIDE, SQUARED),
    ("1 / exp(x)", LATE, "GC302", DIVIDE, SQUARED),
    (
        SCALED,
        1.0,
        "GC302",
        "forward multiply 1:5 `x * 1e-30 * 1e-30`",
        "tangent underflows float32: multiply(1e-30, 1e-30) = 1e-60 < 1.18e-38",
    ),
    (
        LONG_OVERFLOW,
        1.5,
        "GC201",
        "forward exp 3:9 `exp(b * 50)`",
        "overflows float32: exp(99.7)",
    ),
    (
        LONG_CANCELLATION,
        1e-3,
        "GC301",
        "forward subtract 4:5 `c - 1`",
        "loses digits in float32: 1.00000048 - 1",
    ),
]


@pytest.mark.parametrize(
    ("formula", "x", "code", "producer", "detail"), TANGENTS, ids=map(label, TANGENTS)
)
def test_producer_in_forward_mode(
    judged: Callable[..., Any], formula: str, x: Any, code: str, producer: str, detail: str
) -> None:
    # the reference engine divides the tangent last: it gets 1 / exp(60) right
    engines = ("torch",) if formula == "1 / exp(x)" else ("reference", "torch")
    cause = cause_of(judged, formula, {"x": x}, code, modes=("forward",), engines=engines)
    assert blamed(cause) == producer
    assert cause.detail.startswith(detail)
    assert_proven(cause)


@pytest.mark.parametrize(
    ("formula", "x", "code", "story"),
    [
        (
            "1 / exp(x)",
            100.0,
            "GC201",
            "forward: exp(100) = inf, 1 / inf = 0; backward: 0 * inf = nan",
        ),
        (
            "1 / exp(x)",
            60.0,
            "GC302",
            "backward: in the derivative of 1 / 1.14e+26, upstream 1: "
            "divide(8.76e-27, 1.14e+26) = 0; exact: 7.67e-53",
        ),
        (
            "sqrt(x * x)",
            1e-30,
            "GC202",
            "forward: 1e-30 * 1e-30 = 0, sqrt(0) = 0; "
            "backward: the derivative of sqrt(0), upstream 1, gives inf",
        ),
        (
            "log(1 + exp(x))",
            -20.0,
            "GC303",
            "forward: 1 + 2.06e-09 = 1, log(1) = 0",
        ),
        (
            LONG_CANCELLATION,
            1e-3,
            "GC301",
            "forward: 1.00000048 - 1 = 4.77e-07, sin(4.77e-07) = 4.77e-07",
        ),
    ],
)
def test_story_is_told_in_numbers(
    judged: Callable[..., Any], formula: str, x: float, code: str, story: str
) -> None:
    assert cause_of(judged, formula, {"x": x}, code, engines=("reference",)).story == story


def test_numbers_beyond_float64_are_known_too(judged: Callable[..., Any]) -> None:
    cause = cause_of(judged, "1 / exp(x)", {"x": 800.0}, "GC201", dtype="float64")
    assert (cause.op, cause.phase, cause.kind) == ("exp", "forward", "overflow")
    assert cause.detail == "overflows float64: exp(800) > 1.8e+308"


def test_the_finding_points_at_its_cause(judged: Callable[..., Any]) -> None:
    made = judged("a = exp(x)\n1 / a", {"x": 100.0})
    for finding in made.of("GC201"):
        assert (finding.span.line, finding.span.column) == (1, 5)


@pytest.mark.parametrize("formula", ["exp(-x)", "sin(x) * x", "sum(tanh(x))"])
def test_nothing_is_blamed_for_a_right_gradient(judged: Callable[..., Any], formula: str) -> None:
    assert judged(formula, {"x": 2.0}).findings == ()
