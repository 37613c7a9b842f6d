"""The truth of whole programs by differences, against 150 digits: no certificate helps."""

from __future__ import annotations

from collections.abc import Iterator

import mpmath as mp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Mode, Projection
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.truth.formulas import compute as of_formulas
from gradcheck_cli.truth.formulas import request_cache
from gradcheck_cli.truth.plain import PlainFunction
from tests.conftest import program_of, truth_of
from tests.truth.exact import Exact


@pytest.fixture(autouse=True, scope="module")
def by_differences() -> Iterator[None]:
    """Without certificates, as for what balls cannot enclose."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_formulas, "certify", lambda asked, function: {})
        yield


SMOOTH_UNARY = (
    *("exp", "log", "log1p", "expm1", "sqrt", "sin", "cos", "tan"),
    *("tanh", "sigmoid", "softplus", "erf", "square", "-"),
)


def formulas(leaves: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Formulas of smooth operations, three deep."""
    constants = st.floats(-4, 4).map(lambda c: repr(round(c, 2)))
    return st.recursive(
        st.sampled_from(leaves) | constants,
        lambda inner: st.one_of(
            st.builds("{}({})".format, st.sampled_from(SMOOTH_UNARY), inner),
            st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner),
            st.builds("({} ** {})".format, inner, st.sampled_from(["2", "3", "0.5", "-1.5"])),
        ),
        max_leaves=4,
    )


def any_number(dtype: str) -> st.SearchStrategy[float]:
    """Numbers that a person writes, every scale, and float ordinals of the dtype."""
    # the squares and cubes of a program would leave the range of float64 itself
    bound = 1e60 if dtype == "float64" else 3e38
    every = st.one_of(
        st.floats(-4, 4),
        st.integers(-3, 3).map(float),
        st.floats(-1e6, 1e6),
        st.floats(-bound, bound),
    )
    rounded = every.map(lambda v: float(FORMATS[dtype].round(v)))
    return rounded.filter(lambda v: abs(v) > 1 / bound or v == 0)


def parses(formula: str) -> bool:
    return parse(formula, inputs={name: Argument(()) for name in "xy"}).program is not None


def contains(block: TruthBlock, exact: np.ndarray, where: tuple[int, int] = (0, 0)) -> bool:
    """Whether the error bar of a smooth entry contains the exact derivative."""
    with mp.workdps(60):
        off = abs(mp.mpf(float(block.value[where])) - exact[where])
        # the "exact" derivative is a difference too, good to about 60 digits
        return bool(off <= mp.mpf(float(block.error[where])) + mp.mpf(10) ** -55)


@pytest.mark.exhaustive
@seed(20240)
@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(formula=formulas(("x", "y")), data=st.data())
def test_error_bar_contains_the_derivative_of_any_smooth_formula(formula: str, data) -> None:
    dtype = data.draw(st.sampled_from(["float64", "float32"]))
    assume("x" in formula.replace("exp", "") and parses(formula))
    inputs = {name: data.draw(any_number(dtype)) for name in "xy"}
    values = {name: FORMATS[dtype].round(value) for name, value in inputs.items()}
    assume(all(np.isfinite(v) for v in values.values()))
    with np.errstate(all="ignore"):  # what float64 cannot hold on the way, mpmath cannot either
        nodes = PlainFunction(program_of(formula, inputs), dtype).nodes(values)
    assume(np.all(np.isfinite(np.array(nodes))))
    truth = truth_of(formula, inputs, dtype=dtype)
    block = truth.blocks["reverse", "x"]
    try:
        exact = Exact(program_of(formula, inputs), dtype).derivative(values, "x")
    except (ZeroDivisionError, ValueError):  # a pole right here
        assume(False)
    assume(mp.isfinite(exact[0, 0]) and not isinstance(exact[0, 0], mp.mpc))
    kind = PointKind(int(block.kind[0, 0]))
    if np.isinf(block.value[0, 0]):
        assert abs(exact[0, 0]) > np.finfo(np.float64).max
    elif kind == PointKind.SMOOTH:
        assert contains(block, exact)
    elif kind == PointKind.KINK:  # sqrt(x ** 2) at 0
        assert Exact(program_of(formula, inputs), dtype).bend(values, "x") > 1e-12
    else:  # undecided is honest, a jump would be a lie
        assert kind == PointKind.UNDECIDED or abs(exact[0, 0]) > 1e20


@seed(20241)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(formula=formulas(("x[0]", "x[1]")), a=st.floats(0.1, 3), b=st.floats(-3, 3))
def test_second_derivatives_too(formula: str, a: float, b: float) -> None:
    assume("x[" in formula and parses(formula.replace("[0]", "").replace("[1]", "")))
    values = {"x": np.array([a, b])}
    modes: tuple[Mode, ...] = ("reverse-over-reverse",)
    truth = truth_of(formula, values, modes=modes)
    assume(np.isfinite(truth.output))
    block = truth.blocks["reverse-over-reverse", "x.x"]
    try:
        exact = Exact(program_of(formula, values)).second(values, "x", "x")
    except (ZeroDivisionError, ValueError):
        assume(False)
    for place in np.ndindex(2, 2):
        number = exact[place]
        if isinstance(number, mp.mpc) or not mp.isfinite(number):
            continue
        if block.kind[place] == PointKind.SMOOTH:
            assert contains(block, exact, place)
        else:
            assert block.kind[place] == PointKind.UNDECIDED or abs(number) > 1e20


POINTS = [
    ("exp(-x)", 20.0, 1e-8),
    ("x ** 2", 1e8, 1e-8),
    ("log(x)", 1e-5, 1e-8),
    ("sin(200 * x)", 0.7, 1e-8),
    ("sin(1e6 * x)", 0.7, 1e-7),
    ("1 / x", 1e-4, 1e-8),
    ("1 / exp(x)", 100.0, 1e-8),
    ("sum(x ** 2 + sin(x))", np.array([1e-6, 1.0, 1e6]), 1e-8),
    ("sum(log(x))", np.array([1e-6, 1.0, 1e6]), 1e-8),
    ("sin(2 * pi * x)", 1.0, 1e-8),
    ("sin(2048 * pi * x)", 1.0, 1e-8),
    ("x * 1e-300", 1e-30, 1e-8),
    ("sum(x)", np.array([3.0, -0.019, -3.0]), 1e-8),
    ("tanh(20 * x)", 1.0, 1e-6),
    ("logsumexp(100 * x)", np.array([1.0, 2.0, 2.5]), 1e-8),
    ("sum(softmax(x) * x)", np.array([1.0, -2.0, 30.0]), 1e-8),
    ("norm(x - 1)", np.array([1.0, 1.015625]), 1e-8),
]


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(("formula", "x", "useful"), POINTS, ids=[row[0] for row in POINTS])
def test_bar_is_narrow_where_it_matters(formula: str, x, useful: float, dtype: str) -> None:
    truth = truth_of(formula, {"x": x}, dtype=dtype)
    values = {"x": FORMATS[dtype].round(x)}
    block = truth.blocks["reverse", "x"]
    exact = Exact(program_of(formula, {"x": x}), dtype).derivative(values, "x")
    for column in range(exact.shape[1]):
        assert block.kind[0, column] == PointKind.SMOOTH
        assert contains(block, exact, (0, column))
        assert block.error[0, column] <= useful * max(abs(float(exact[0, column])), 1e-30)


def test_cancelled_digits_come_from_the_difference_or_stay_open() -> None:
    # (1 - cos x) / x^2 at 1e-7 has no digits in float64; the truth is -8.33e-9
    block = truth_of("(1 - cos(x)) / x ** 2", {"x": 1e-7}).blocks["reverse", "x"]
    assert abs(block.value[0, 0] - -1e-7 / 12) <= block.error[0, 0]


@pytest.mark.parametrize(
    ("formula", "x", "kind"),
    [
        ("relu(x)", 0.0, PointKind.KINK),
        ("abs(x - 1)", 1.0, PointKind.KINK),
        ("sqrt(x * x)", 0.0, PointKind.KINK),
        ("norm(x)", 0.0, PointKind.KINK),
        ("where(x > 0, x, 0.0)", 0.0, PointKind.KINK),
        ("sqrt(x)", 0.0, PointKind.UNDEFINED),
        ("x ** (1 / 3)", 0.0, PointKind.UNDEFINED),
        ("sqrt(abs(x))", 0.0, PointKind.UNDEFINED),
        ("where(x >= 0, x + 1, x)", 0.0, PointKind.JUMP),
        ("abs(x) ** 1.5", 0.0, PointKind.SMOOTH),
        ("relu(x) ** 2", 0.0, PointKind.SMOOTH),
        ("maximum(norm(x), 1e-6)", 0.0, PointKind.SMOOTH),
        ("x / maximum(norm(stack([x, x])), 1e-16)", 0.0, PointKind.SMOOTH),
        ("maximum(norm(stack([x, x]), ord=0.5), 1e-6)", 0.0, PointKind.SMOOTH),
        ("maximum(std(stack([x, 2 * x])), 0.1)", 0.0, PointKind.SMOOTH),
        ("relu(x)", 1e-12, PointKind.SMOOTH),
        ("relu(x)", -1e-12, PointKind.SMOOTH),
        ("abs(x - 1)", 1.0 + 2**-52, PointKind.SMOOTH),
        ("norm(stack([x - 1, 1e-9]))", 1.0, PointKind.SMOOTH),
        ("sin(x)", 2e71, PointKind.UNDECIDED),
        ("1 / log1p(expm1(x))", -223.0, PointKind.UNDECIDED),
    ],
)
def test_kinds_of_points(formula: str, x: float, kind: PointKind) -> None:
    block = truth_of(formula, {"x": x}).blocks["reverse", "x"]
    assert PointKind(int(block.kind[0, 0])) == kind


def test_why_it_is_undecided_is_told() -> None:
    assert "contradict" in truth_of("sin(x)", {"x": 2e71}).reasons["reverse", "x"]
    assert "pole" in truth_of("1 / log1p(expm1(x))", {"x": -223.0}).reasons["reverse", "x"]


def test_constants_and_inputs_are_rounded_to_the_dtype() -> None:
    block = truth_of("0.1 * x * x", {"x": 0.3}, dtype="bfloat16").blocks["reverse", "x"]
    fmt = FORMATS["bfloat16"]
    assert block.value[0, 0] == pytest.approx(2 * fmt.round(0.1) * fmt.round(0.3), rel=1e-12)


def test_stopped_gradient_is_held() -> None:
    block = truth_of("stop_gradient(x * x) * x", {"x": 3.0}).blocks["reverse", "x"]
    assert block.value[0, 0] == pytest.approx(9, rel=1e-12)
    assert block.confirmed[0, 0]


WRONG = """
def f_vjp(g, x):
    return g * exp(-x)

@custom_gradient(f_vjp)
def f(x):
    return exp(-x)

f(x)
"""


def test_custom_gradient_does_not_touch_the_truth_but_is_stated() -> None:
    block = truth_of(WRONG, {"x": 20.0}).blocks["reverse", "x"]
    assert block.value[0, 0] == pytest.approx(-np.exp(-20.0), rel=1e-12)
    assert block.stated[0, 0] == pytest.approx(np.exp(-20.0), rel=1e-12)
    plain = truth_of("exp(-x)", {"x": 20.0}).blocks["reverse", "x"]
    assert plain.stated[0, 0] == plain.value[0, 0]


def test_function_is_never_called_outside_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    class Watched(PlainFunction):
        def __call__(self, values):
            seen.append(float(values["x"]))
            return super().__call__(values)

    monkeypatch.setattr(request_cache, "plain_function", Watched)
    block = truth_of("sqrt(x - 1)", {"x": 1.01}, bounds={"x": (1.0, 1.012)}).blocks["reverse", "x"]
    assert min(seen) >= 1.0
    assert max(seen) <= 1.012
    assert block.value[0, 0] == pytest.approx(5, rel=1e-12)


def test_more_than_256_entries_are_confirmed_along_directions() -> None:
    x = np.random.default_rng(0).normal(size=3000)
    truth = truth_of("sum(sin(x) * x)", {"x": x}, dtype="float32")
    block = truth.blocks["reverse", "x"]
    rounded = x.astype(np.float32).astype(float)
    exact = np.cos(rounded) * rounded + np.sin(rounded)
    assert np.all(block.confirmed)
    assert np.all(np.abs(block.value[0] - exact) <= block.error[0] + 1e-15)
    assert truth.forward < 300


def test_kink_among_many_entries() -> None:
    x = np.random.default_rng(0).normal(size=1000)
    x[[10, 500]] = 0.0
    block = truth_of("sum(relu(x))", {"x": x}).blocks["reverse", "x"]
    assert np.flatnonzero(block.kind[0] == PointKind.KINK).tolist() == [10, 500]


def test_products_whose_terms_cancel_are_no_contradiction() -> None:
    # 200 outputs, so that their noise is measured rather than summed
    rng = np.random.default_rng(0)
    inputs = {"x": rng.normal(size=(20, 30)), "w": rng.normal(size=(30, 10))}
    columns = {n: rng.normal(size=(4, *v.shape)) for n, v in inputs.items()}
    rows = rng.normal(size=(4, 20, 10))
    truth = truth_of(
        "x @ w",
        inputs,
        dtype="float32",
        projections={"reverse": Projection(rows=rows), "forward": Projection(columns=columns)},
    )
    assert all(np.all(b.kind == PointKind.SMOOTH) for b in truth.blocks.values())
    assert not truth.reasons


def test_projections_are_projections_of_the_jacobian() -> None:
    x = np.array([0.5, 1.0, 2.0])
    jacobian = np.diag(np.cos(x))
    rows, columns = np.array([[1.0, 2.0, -1.0]]), {"x": np.array([[1.0, 0.0, 3.0]])}
    truth = truth_of(
        "sin(x)",
        {"x": x},
        projections={"reverse": Projection(rows=rows), "forward": Projection(columns=columns)},
    )
    reverse, forward = truth.blocks["reverse", "x"], truth.blocks["forward", "x"]
    np.testing.assert_allclose(reverse.value, rows @ jacobian, rtol=1e-12)
    np.testing.assert_allclose(forward.value, (jacobian @ columns["x"].T), rtol=1e-12)
    assert np.all(reverse.confirmed & forward.confirmed)


@pytest.mark.parametrize(
    ("formula", "inputs", "shape"),
    [
        ("sum(x)", {"x": np.zeros(0)}, (1, 0)),
        ("x * y", {"x": np.ones((1, 1)), "y": np.ones(1)}, (1, 1)),
        ("x * n", {"x": np.ones(2), "n": np.array([2, 3])}, (2, 2)),
        ("sum(where(m, x, 0.0))", {"x": np.ones(2), "m": np.array([True, False])}, (1, 2)),
        ("x", {"x": 2.0}, (1, 1)),
    ],
)
def test_odd_shapes_and_kinds(formula: str, inputs: dict, shape: tuple[int, int]) -> None:
    truth = truth_of(formula, inputs, modes=("reverse", "forward"), conditioning=True)
    assert truth.blocks["reverse", "x"].value.shape == shape
    assert np.all(truth.blocks["forward", "x"].kind == PointKind.SMOOTH)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_input_that_is_no_number_leaves_its_own_entry_open(value: float) -> None:
    block = truth_of("sum(tanh(x))", {"x": np.array([value, 0.5])}).blocks["reverse", "x"]
    assert block.kind[0, 0] == PointKind.UNDECIDED
    if np.isinf(value):
        assert block.value[0, 1] == pytest.approx(1 - np.tanh(0.5) ** 2)


def test_zero_function_has_a_scale_to_be_measured_against() -> None:
    block = truth_of("sigmoid(x) - sigmoid(x)", {"x": -0.3}).blocks["reverse", "x"]
    assert block.value[0, 0] == 0
    assert block.error[0, 0] <= 1e-12 * block.scale[0, 0]


def test_scale_of_an_output_is_not_lost_to_another_that_is_nan() -> None:
    block = truth_of("log(x)", {"x": np.array([2.0, -1.0])}).blocks["reverse", "x"]
    assert np.all(block.scale[0] > 0)


def test_output_and_its_error() -> None:
    truth = truth_of("exp(x)", {"x": 1.0}, dtype="float32")
    assert abs(truth.output - np.e) <= truth.output_error + 1e-15
    assert truth.dtype == "float32"
