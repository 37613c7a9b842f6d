import math

import numpy as np
import pytest

from gradcheck_cli import check
from gradcheck_cli.domain.search import KINDS
from gradcheck_cli.search.estimates import Answers
from gradcheck_cli.search.truths import PointTruth

from .searched import spec_of


def failing(model: str, x: float, value: float, gradient: float) -> dict[str, float]:
    """The kinds that fail in float32 where an engine gives this, and the truth."""
    spec = spec_of("{x: {value: 0.5, domain: [-200, 200]}}", model)
    answers = Answers(
        np.array([[value]]), {"x": np.array([[[gradient]]])}, np.ones(1, dtype=np.bool_)
    )
    truth = PointTruth(spec.program, {"x": np.array(x)}, ("x",), "float32")
    return {one.kind: one.truth for one in truth.failures(answers)}


nan, inf = math.nan, math.inf
LOST = ("gradient-inaccurate", "gradient-underflow-to-zero")


@pytest.mark.parametrize(
    ("model", "x", "value", "gradient", "kinds"),
    [
        ("1 / x", 0.0, inf, -inf, {"undefined"}),
        ("sqrt(x)", 0.0, 0.0, inf, {"undefined"}),
        ("x * log(x)", 0.0, nan, nan, {"undefined"}),
        ("sqrt(x * x)", 0.0, 0.0, nan, {"gradient-nonfinite"}),
        ("x ** 0.3", 0.0, 0.0, inf, {"undefined"}),
        ("sqrt(1 / x)", 0.0, inf, nan, {"undefined"}),
        ("abs(x)", 0.0, 0.0, 0.0, set()),
        ("abs(x) ** 0.5", 0.0, 0.0, nan, {"undefined"}),
        ("abs(x)", 0.0, 0.0, nan, {"gradient-nonfinite"}),
        ("1 / exp(x)", 95.0, 0.0, nan, {"gradient-nonfinite"}),
        ("exp(x)", 90.0, inf, inf, {"value-nonfinite", "gradient-nonfinite"}),
        ("exp(x)", 1.0, 2.718, 2.7182817, set()),
        ("exp(x)", 1.0, 2.0, 2.0, {"value-inaccurate", "gradient-inaccurate"}),
        (
            "exp(x)",
            -50.0,
            0.0,
            0.0,
            {"value-inaccurate", "gradient-inaccurate"} | {"gradient-underflow-to-zero"},
        ),
        ("exp(x)", -100.0, 0.0, 0.0, set()),
        ("x * x - 2 * x", 1.0000001, -1.0, 1e-7, set()),
        ("exp2((0.5 + abs(maximum(x, 0))) ** (20 * x))", -100.0, inf, -inf, {"value-nonfinite"}),
    ],
)
def test_the_kinds_that_fail_at_a_point(
    model: str, x: float, value: float, gradient: float, kinds: set[str]
) -> None:
    assert failing(model, float(np.float32(x)), value, gradient).keys() == kinds


@pytest.mark.parametrize(
    ("model", "y", "excused"),
    [
        ("softplus(x) - x * y", 0.5, True),
        ("sin(x) - x * exp(y)", 1e-8, False),  # half an ulp of y does nothing
        ("x * x - 2 * x * y", 1e-13, True),
        ("exp(x) - exp(x) * y", 1.0, True),
    ],
)
def test_half_an_ulp_of_what_is_not_differentiated_excuses_as_in_a_run(
    model: str, y: float, excused: bool
) -> None:
    """The gradient by x is lost beside its zero; what half an ulp of y does to it decides."""
    inputs = "{x: {value: 0.5, domain: [-6, 6]}, y: {value: 0.5, requires_grad: false}}"
    spec = spec_of(inputs, model)
    at = {"x": np.array(1e-13), "y": np.array(np.float32(y), np.float64)}
    truth = PointTruth(spec.program, at, ("x",), "float32")
    answers = Answers(np.array([[1.0]]), {"x": np.array([[[0.0]]])}, np.ones(1, np.bool_))
    lost = {one.kind for one in truth.failures(answers)}.intersection(LOST)
    assert lost == (set() if excused else {*LOST})


def test_a_run_finds_what_a_search_calls_a_failure() -> None:
    """A run excuses it by what rounding the inputs does alone, as the search does."""
    model, at = "-(v + 1) / 2 * log1p(x * x / v)", {"x": np.float64(np.float32(-1.4300182))}
    at["v"] = np.float64(30)
    inputs = "{x: {value: 1.0, domain: [-2, 2]}, v: {value: 30.0, domain: [1, 50]}}"
    truth = PointTruth(spec_of(inputs, model).program, at, ("x", "v"), "float32")
    gradients = {"x": np.array([[[1.3833869]]]), "v": np.array([[[0.0]]])}
    answers = Answers(np.array([[-1.0221053]]), gradients, np.ones(1, dtype=np.bool_))
    found = {one.kind: (one.entry, one.truth) for one in truth.failures(answers)}
    assert found == dict.fromkeys(LOST, ("v", pytest.approx(-4.746128e-9)))
    report = check(model, **at, dtypes="float32", engines="torch", modes="reverse")
    (finding,) = report.findings
    assert (finding.code, finding.severity, finding.input) == ("GC302", "error", "v")
    assert (finding.entries[0].computed, finding.entries[0].truth) == (0, found[LOST[0]][1])


def test_a_truth_beyond_the_dtype_is_a_genuine_overflow() -> None:
    spec = spec_of("{x: {value: 0.5, domain: [-200, 200]}}", "exp(x)")
    answers = Answers(np.array([[inf]]), {"x": np.array([[[inf]]])}, np.ones(1, dtype=np.bool_))
    truth = PointTruth(spec.program, {"x": np.array(90.0)}, ("x",), "float32")
    assert [one.genuine for one in truth.failures(answers)] == [True, True]


@pytest.mark.parametrize(
    ("model", "x", "value", "gradient", "left"),
    [
        ("exp(x)", 0.0, 1.0, 1.0, set()),
        ("exp(x)", 0.0, 2.0, 1.0, {"value-inaccurate"}),
        ("sqrt(x)", 0.0, 0.0, inf, {"undefined", "gradient-nonfinite"}),
        ("1 / x", 0.0, inf, -inf, {"undefined", "value-nonfinite", "gradient-nonfinite"}),
        ("abs(x)", 0.0, 0.0, 0.0, set()),
        ("abs(x)", 0.0, 0.0, nan, {"gradient-nonfinite"}),
    ],
)
def test_the_kinds_that_do_not_occur_at_a_point(
    model: str, x: float, value: float, gradient: float, left: set[str]
) -> None:
    spec = spec_of("{x: {value: 0.5, domain: [-200, 200]}}", model)
    answers = Answers(
        np.array([[value]]), {"x": np.array([[[gradient]]])}, np.ones(1, dtype=np.bool_)
    )
    truth = PointTruth(spec.program, {"x": np.array(x)}, ("x",), "float32")
    assert set(KINDS) - truth.excluded(answers) == left


def test_a_failure_says_where_the_value_is_lost_too() -> None:
    spec = spec_of("{x: {value: 0.5, domain: [0, 200]}}", "log(exp(x) + 1)")
    truth = PointTruth(spec.program, {"x": np.array(95.0)}, ("x",), "float32")
    for value, lost in ((inf, True), (95.0, False)):
        answers = Answers(np.array([[value]]), {"x": np.array([[[nan]]])}, np.ones(1, np.bool_))
        (found,) = (one for one in truth.failures(answers) if one.kind == "gradient-nonfinite")
        assert found.value_lost is lost
