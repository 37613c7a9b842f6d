"""Certified gradients: right to the last bit that was promised, or an honest reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Mode, Projection
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.truth.certified import enclose
from gradcheck_cli.truth.certified.ball_program import BallProgram
from gradcheck_cli.truth.certified.enclose import (
    Certificate,
    certify,
    certify_output,
    certify_stated,
)
from tests.conftest import array, program_of, truth_of
from tests.truth.exact import Exact
from tests.truth.formulas.test_compute import any_number, formulas, parses


def certificates(
    formula: str,
    inputs: Mapping[str, Any],
    dtype: str = "float64",
    modes: Sequence[Mode] = ("reverse",),
    projection: Projection | None = None,
    of: Callable[..., dict[tuple[Mode, str], Certificate]] = certify,
    **budget: float,
) -> dict[tuple[Mode, str], Certificate]:
    arrays = {name: array(value) for name, value in inputs.items()}
    fmt = FORMATS[dtype]
    floats = tuple(name for name, a in arrays.items() if a.dtype.kind == "f")
    request = TruthRequest(
        program=rounded(program_of(formula, inputs), dtype),
        values={n: fmt.round(a) if n in floats else a for n, a in arrays.items()},
        bounds={},
        wrt=floats,
        dtype=dtype,
        projections={mode: projection or Projection() for mode in modes},
    )
    return of(request, **budget)


def one(formula: str, x: Any, dtype: str = "float64", **options: Any) -> Certificate:
    return certificates(formula, {"x": x}, dtype, **options)["reverse", "x"]


def _gelu_slope(x: mp.mpf) -> mp.mpf:
    inner = mp.sqrt(2 / mp.pi)
    return mp.diff(lambda v: v * (1 + mp.tanh(inner * (v + mp.mpf("0.044715") * v**3))) / 2, x)


@seed(3)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(formula=formulas(("x", "y")), data=st.data(), dtype=st.sampled_from(["float32", "float64"]))
def test_enclosure_contains_the_derivative_of_any_smooth_formula(
    formula: str, data: st.DataObject, dtype: str
) -> None:
    """The exact derivative, a difference of 150 digits, is good to about 60 of them."""
    assume(parses(formula))
    values = {name: data.draw(any_number(dtype)) for name in "xy"}
    found = certificates(formula, values, dtype)
    exact = Exact(program_of(formula, values), dtype)
    for name in "xy":
        block = found["reverse", name]
        if not block.sure[0, 0]:
            assert block.reason
            continue
        try:
            true = exact.derivative({n: array(v) for n, v in values.items()}, name)[0, 0]
        except (ValueError, TypeError, ZeroDivisionError, OverflowError, MemoryError):
            continue  # the difference steps out of the domain
        if np.isinf(block.value[0, 0]):
            assert abs(true) > np.finfo(np.float64).max
            continue
        with mp.workdps(60):
            off = abs(mp.mpf(float(block.value[0, 0])) - true)
            assert off <= mp.mpf(float(block.radius[0, 0])) + abs(true) * mp.mpf(10) ** -40 + 1e-320


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_radius_is_below_what_can_be_seen(dtype: str) -> None:
    block = one("exp(sin(3 * x)) / x", 0.7, dtype)
    ulp = FORMATS[dtype].ulp(block.value)
    in_float64 = 0.5 * FORMATS["float64"].ulp(block.value)
    assert np.all(block.radius <= 2.0**-8 * ulp + in_float64)


@pytest.mark.parametrize(
    ("formula", "x", "expected"),
    [
        ("(1 + x) - 1", 1e-300, 1.0),
        ("x - x", 3.0, 0.0),
        ("exp(-x)", 1000.0, 0.0),
        ("1 - tanh(x)", 20.0, -4 * np.exp(-40)),
        ("(exp(x) - 1) / x", 1e-12, 0.5),
        ("1 / exp(x)", 100.0, -np.exp(-100)),
        ("1 / (1 + 1 / x)", 1e-200, 1.0),
        ("sin(x)", 2e71, float(mp.cos(mp.mpf(2e71)))),
    ],
)
def test_what_float64_loses(formula: str, x: float, expected: float) -> None:
    block = one(formula, x)
    assert block.sure.all()
    assert block.value[0, 0] == pytest.approx(expected, rel=1e-11, abs=1e-300)


@pytest.mark.parametrize(
    ("formula", "x", "reason"),
    [
        ("relu(x)", 0.0, enclose.KINK),
        ("abs(x - 1)", 1.0, enclose.KINK),
        ("max(x)", [2.0, 2.0, 1.0], enclose.KINK),
        ("norm(x)", [0.0, 0.0], enclose.KINK),
        ("floor(x)", 2.0, enclose.KINK),
        ("sort(x)[0]", [1.0, 1.0], enclose.KINK),
        ("x ** 1.5", 0.0, enclose.KINK),
        ("sqrt(x)", 0.0, enclose.DOMAIN),
        ("sqrt(x) ** 2", 0.0, enclose.DOMAIN),
        ("log(-exp(x))", 1.0, enclose.DOMAIN),
        ("i0(exp(x))", 2750.0, enclose.HUGE),
        ("log_ndtr(-exp(exp(x)))", 300.0, enclose.HUGE),
        ("1 / x", 0.0, enclose.DOMAIN),
        ("relu(sqrt(x) ** 2 - 2)", 2.0, enclose.WIDE),
        ("sum(pinv(x, rtol=0.381966))", [[2.0, 1.0], [1.0, 3.0]], enclose.DOUBT),
        ("sum(pinv(x, rtol=0.5))", [[2.0, 1.0], [1.0, 3.0]], "pinv has no enclosure"),
        ("x", np.nan, enclose.STRANGE),
    ],
)
def test_why_nothing_is_certified(formula: str, x: Any, reason: str) -> None:
    block = one(formula, x)
    assert not block.sure.any()
    assert np.all(np.isinf(block.radius))
    assert reason in block.reason


@pytest.mark.parametrize(
    "x",
    [
        [[1.0, 2.0, 0.5], [0.3, -1.0, 2.0]],
        [[1.0, 0.3], [2.0, -1.0], [0.5, 2.0]],
        [[2.0, 1.0], [1.0, 3.0]],
        [[1.0, 0.0], [0.0, 1e-5]],
    ],
)
def test_a_pseudoinverse_of_full_rank_is_certified(x: Any) -> None:
    """The square of its size is the trace of an inverse."""
    y = "x @ transpose(x)" if np.shape(x)[0] < np.shape(x)[1] else "transpose(x) @ x"
    found, same = one("sum(pinv(x) ** 2)", x), one(f"sum(inv({y}) * eye(2))", x)
    assert found.sure.all()
    np.testing.assert_allclose(found.value, same.value, rtol=1e-15)


@pytest.mark.parametrize(
    ("least", "dtype", "known"),
    [
        (0.0, "float64", False),
        (1e-8, "float64", True),  # of full rank there, and of no other
        (1e-8, "float32", False),
        (2e-7, "float32", False),
        (1e-6, "float32", True),
    ],
)
def test_a_pseudoinverse_whose_rank_depends_on_rounding_is_not(
    least: float, dtype: str, known: bool
) -> None:
    found = one("sum(pinv(x))", [[1.0, 0.0], [0.0, least]], dtype)
    assert found.sure.all() if known else not found.sure.any()


def test_a_rank_in_doubt_takes_the_certificate_of_what_hangs_on_it() -> None:
    x, y = np.diag([1.0, 2e-7]), np.array([0.5, 2.0])
    found = certificates("stack([sum(pinv(x)), sum(y)])", {"x": x, "y": y}, "float32")
    doubt, rest = found["reverse", "x"], found["reverse", "y"]
    assert doubt.reason == rest.reason == enclose.DOUBT
    assert doubt.tied.all()
    assert not rest.tied.any()


def test_budget_is_kept_and_named() -> None:
    block = one("sum(exp(x))", np.ones(100), budget=50)
    assert not block.sure.any()
    assert block.reason == enclose.TOO_MUCH


def test_no_kink_beside_a_kink() -> None:
    """relu of the smallest number is on the right side of 0, however little that is."""
    assert one("relu(x)", 5e-324).value[0, 0] == 1.0
    assert one("maximum(x, x + 1e-20)", 1.0).sure.all()


def test_a_number_compared_with_itself_is_no_tie() -> None:
    """So frameworks ask whether it is nan."""
    block = one("y = x / 3\nwhere(y != y, 0.0, 9 * y ** 2)", [4.0, 0.7])
    assert np.diag(block.value).tolist() == [8.0, 1.4]
    assert block.sure.all()


def test_branch_not_taken_does_not_matter() -> None:
    block = one("sum(where(x > 1, sqrt(x - 1), x))", [5.0, -1.0])
    assert block.value.tolist() == [[0.25, 1.0]]


def test_element_not_taken_does_not_matter() -> None:
    block = one("sqrt(x)[0]", [4.0, 0.0])
    assert block.value.tolist() == [[0.25, 0.0]]


def test_constants_are_rounded_as_the_inputs_are() -> None:
    tenth = float(np.float32(0.1))
    assert one("0.1 * x", 3.0, "float32").value[0, 0] == tenth
    assert one("x ** 2 * 0.1", 0.1, "float32").value[0, 0] == pytest.approx(
        2 * tenth * tenth, rel=1e-15
    )


def test_custom_parts_of_a_program() -> None:
    """What stop_gradient declares is followed."""
    assert one("stop_gradient(x) * x", 3.0).value[0, 0] == 3.0


RULES = """
def tanh_vjp(u, x):
    return u * (1 - tanh(x) ** 2)

@custom_gradient(tanh_vjp)
def bend(x):
    return tanh(x)

def scaled_vjp(u, n, x):
    return None, 3 * u * bend(x)

def scaled_jvp(n_dot, x_dot, n, x):
    return n * x_dot

@custom_gradient(scaled_vjp, jvp=scaled_jvp)
def scaled(n, x):
    return n * x
"""


def test_what_is_stated_is_enclosed() -> None:
    """1 - tanh(x)^2 has no digit left in float64 at 20; as it stands, it is the derivative."""
    modes: tuple[Mode, ...] = ("reverse", "forward")
    values = {"x": [20.0, 0.5]}
    stated = certificates(f"{RULES}\nbend(x)", values, modes=modes, of=certify_stated)
    true = certificates("tanh(x)", values, modes=modes)
    for mode in modes:
        assert stated[mode, "x"].sure.all()
        assert stated[mode, "x"].value.tolist() == true[mode, "x"].value.tolist()


def test_each_mode_has_its_own_rule() -> None:
    values = {"x": [0.5, 2.0], "n": np.array(2)}
    stated = certificates(
        f"{RULES}\nscaled(n, x)", values, modes=("reverse", "forward"), of=certify_stated
    )
    assert stated["reverse", "x"].value == pytest.approx(np.diag(3 * np.tanh([0.5, 2.0])))
    assert stated["forward", "x"].value.tolist() == [[2.0, 0.0], [0.0, 2.0]]
    (found,) = certificates(f"{RULES}\nscaled(n, x)", values).values()
    assert found.value.tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_what_cannot_be_followed_is_not_enclosed() -> None:
    rule = "def r(u, x):\n    return sum(u)\n@custom_gradient(r)\ndef f(x):\n    return 2 * x\nf(x)"
    assert certificates(rule, {"x": [1.0, 2.0]}, of=certify_stated) == {}
    assert certificates(rule, {"x": [1.0, 2.0]})["reverse", "x"].sure.all()


def test_modes_and_orders_agree() -> None:
    inputs = {"x": [0.3, -1.2, 2.0], "w": [[1.0, 2.0, -1.0], [0.5, -0.25, 3.0]]}
    found = certificates("tanh(w @ x)", inputs, modes=("reverse", "forward"))
    for name in inputs:
        assert found["reverse", name].value.tolist() == found["forward", name].value.tolist()
    hessian = certificates("sum(tanh(w @ x))", inputs, modes=("forward-over-reverse",))
    block = hessian["forward-over-reverse", "x.w"].value
    other = hessian["forward-over-reverse", "w.x"].value
    assert block.shape == (3, 6)
    assert np.array_equal(block, other.T)


def test_hessian_is_that_of_the_formula() -> None:
    found = certificates("x ** 3 * y", {"x": 2.0, "y": 5.0}, modes=("reverse-over-reverse",))
    second = {name: block.value[0, 0] for (_, name), block in found.items()}
    assert second == {"x.x": 60.0, "x.y": 12.0, "y.x": 12.0, "y.y": 0.0}


def test_projections() -> None:
    rows = np.array([[1.0, 2.0, -1.0]])
    whole = one("sin(x)", [0.1, 0.2, 0.3]).value
    by_rows = one("sin(x)", [0.1, 0.2, 0.3], projection=Projection(rows=rows)).value
    assert by_rows == pytest.approx(rows @ whole, rel=1e-15)
    columns = {"x": np.array([[1.0, 0.5, -2.0], [0.0, 1.0, 0.0]])}
    forward = certificates(
        "sin(x)", {"x": [0.1, 0.2, 0.3]}, modes=("forward",), projection=Projection(None, columns)
    )["forward", "x"]
    assert forward.value == pytest.approx(whole @ columns["x"].T, rel=1e-15)


def test_only_directions_that_move_a_jump_hang_on_it() -> None:
    columns = {"x": np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.5], [-2.0, 3.0]]])}
    found = certificates(
        "sum(floor(x) * x)",
        {"x": [[1.0, 0.5], [2.5, 0.25]]},
        modes=("forward",),
        projection=Projection(None, columns),
    )["forward", "x"]
    assert found.sure.tolist() == [[False, True]]
    assert found.value[0, 1] == -4.0


@pytest.mark.parametrize("formula", ["exp(x)", "exp(-exp(-x))"])
def test_a_bar_below_every_float64_is_not_zero(formula: str) -> None:
    """The derivative is no zero, so that 0 is not exactly right."""
    found = one(formula, -800.0)
    assert found.value == 0
    assert found.sure
    assert found.radius > 0


@pytest.mark.parametrize("x", [2.9e-306, 7e-307, -1.3e-305, 1.1e-304])
def test_a_subnormal_bar_holds_the_distance(x: float) -> None:
    """float64 has no digits to spare there, so its nearest number may be below the distance."""
    found = one("sum(x * x) / 7", x)
    with mp.workprec(4000):
        distance = abs(mp.mpf(found.value.item()) - 2 * mp.mpf(x) / 7)
        assert 0 < distance <= mp.mpf(found.radius.item()) < 1e-300


@pytest.mark.parametrize(
    ("formula", "x", "exact"),
    [
        ("selu(x)", 0.5, lambda x: mp.mpf("1.0507009873554804934193349852946")),
        (
            "selu(x)",
            -0.5,
            lambda x: (
                mp.mpf("1.0507009873554804934193349852946")
                * mp.mpf("1.6732632423543772848170429916717")
                * mp.exp(x)
            ),
        ),
        ("gelu(x, approximate=True)", 0.5, _gelu_slope),
    ],
)
def test_constants_of_a_row_are_not_rounded(
    formula: str, x: float, exact: Callable[[mp.mpf], mp.mpf]
) -> None:
    found = one(formula, x)
    with mp.workdps(60):
        off = abs(exact(mp.mpf(x)) - mp.mpf(float(found.value.item())))
        assert off <= float(found.radius.item()) < 2.0**-53


def test_what_no_float64_holds_is_an_infinity() -> None:
    found = one("-exp(x)", 1000.0)
    assert found.sure.all()
    assert found.value[0, 0] == -np.inf


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_value_is_certified_too(dtype: str) -> None:
    inputs = {"x": [1e-9, 0.5]}
    request = TruthRequest(
        program=rounded(program_of("(1 + x) - 1", inputs), dtype),
        values={"x": FORMATS[dtype].round(np.array(inputs["x"]))},
        bounds={},
        wrt=("x",),
        dtype=dtype,
        projections={},
    )
    found = certify_output(request)
    assert found.sure.all()
    assert found.value.tolist() == request.values["x"].tolist()


@pytest.mark.parametrize("formula", ["sqrt(exp(x) - exp(x))", "rsqrt(1 + sqrt(exp(x) - exp(x)))"])
def test_a_root_of_what_cannot_be_told_from_zero_is_left_to_differences(formula: str) -> None:
    """It is 0 everywhere, and so is its derivative: not a vertical tangent."""
    truth = truth_of(formula, {"x": 0.5})
    block = truth.blocks["reverse", "x"]
    assert block.kind[0, 0] in (PointKind.SMOOTH, PointKind.UNDECIDED)
    assert abs(block.value[0, 0]) <= 1e-6 or not np.isfinite(block.error[0, 0])


def test_a_root_at_zero_itself_has_no_derivative() -> None:
    block = truth_of("sqrt(x)", {"x": 0.0}).blocks["reverse", "x"]
    assert block.kind[0, 0] == PointKind.UNDEFINED


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_outside_of_a_domain_nothing_is_printed() -> None:
    for formula in ("remainder(x, y)", "sqrt(x) * y", "log(y) * x"):
        truth_of(formula, {"x": -1.0, "y": 0.0}, modes=("reverse", "forward"))


SIDE_BY_SIDE = [
    "x * w + s",
    "tanh(matmul(x, m))",
    "where(x > 0, x, exp(x) - 1) * w",
    "w * x / sqrt(mean(x * x, axis=-1, keepdims=True))",
    "(x - mean(x, axis=1, keepdims=True)) / sqrt(var(x, axis=(1,), keepdims=True) + 1e-5)",
    "relu(x) * sum(x, axis=0, keepdims=True)",
    "maximum(x, w) + std(x, axis=1, keepdims=True)",
    "log(x - 1) * s",  # of no value at some
    "sum(x) * w + s**2",
    "max(x, axis=1) * prod(x[0])",
    "softmax(x, axis=-1)",
    "matmul(transpose(x), x)",
    "reshape(x, (6,)) * sum(x[0])",
    "concatenate([w, sin(w)], axis=0) * sum(x)",
    "stack([w, x[0]], axis=1) * sum(x)",
    "expand_dims(w, axis=1) * moveaxis(x, 0, 1)",
    "where(all(x > -1, axis=0), w, s)",
]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("formula", SIDE_BY_SIDE)
def test_rows_that_are_pulled_back_at_once_are_those_of_a_pass_each(
    formula: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = {
        "x": np.array([[0.3, -1.2, 2.5], [1.7, 0.4, -0.6]]),
        "w": np.array([0.5, 2.0, -1.5]),
        "m": np.array([[0.2, -0.7], [1.1, 0.9], [-0.4, 0.6]]),
        "s": 1.3,
    }
    given = {name: value for name, value in inputs.items() if name in formula}
    at_once: list[bool] = []
    pulled = BallProgram.pulled

    def watched(program: BallProgram, cotangents: Any) -> Any:
        found = pulled(program, cotangents)
        at_once.append(found is not None)
        return found

    monkeypatch.setattr(BallProgram, "pulled", watched)
    found = certificates(formula, given, dtype)
    assert all(at_once)
    assert at_once
    monkeypatch.setattr(BallProgram, "pulled", lambda *_: None)
    for key, expected in certificates(formula, given, dtype).items():
        mine = found[key]
        for name in ("value", "radius", "sure", "nowhere", "tied"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(expected, name))
        assert mine.reason == expected.reason


def test_what_cancels_is_zero_to_far_below_what_rounding_leaves_when_the_budget_ends() -> None:
    """A shift that the mean takes away: no precision narrows a ball beside 0."""
    formula = "h = x + b\nd = h - mean(h)\nd / sqrt(mean(d * d) + 0.1)"
    inputs = {"x": [0.3, 1.7, -0.4], "b": 0.25}
    found = certificates(formula, inputs, budget=600)
    assert found["reverse", "x"].sure.all()
    cancelled = found["reverse", "b"]
    assert cancelled.sure.all()
    assert not cancelled.value.any()
    assert 0 < np.max(cancelled.radius) < 1e-30


def test_what_is_small_beside_other_entries_is_inside_its_radius_when_the_budget_ends() -> None:
    (_, found) = certificates("x + y + 1e-40 * y - y", {"x": 0.3, "y": 1.7}, budget=4).values()
    assert abs(found.value.item() - 1e-40) <= found.radius.item()
    (_, found) = certificates("x + y + 1e-40 * y - y", {"x": 0.3, "y": 1.7}).values()
    assert found.value.item() == 1e-40
