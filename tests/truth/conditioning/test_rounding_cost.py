"""Conditioning C, allowance and rounding floor R against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Mode, Projection
from gradcheck_cli.domain.truth import TruthBlock
from tests.conftest import truth_of

U = FORMATS["float32"].unit_roundoff


def block_of(formula: str, inputs: dict, name: str = "x", mode: Mode = "reverse") -> TruthBlock:
    truth = truth_of(formula, inputs, dtype="float32", modes=(mode,), conditioning=True)
    return truth.blocks[mode, name]


# formula, x, C / (u |T|) as a function of x: |x f''(x) / f'(x)|
CLOSED = [
    ("exp(x)", 3.0, lambda x: x),
    ("x ** 3", 7.0, lambda x: 2.0),
    ("log(x)", 1e-3, lambda x: 1.0),
    ("1 / x", 1e4, lambda x: 2.0),
    ("sin(200 * x)", 0.7, lambda x: abs(200 * x * np.tan(200 * x))),
    ("(exp(x) - 1) / x", 1e-4, lambda x: x * (2 / 3)),
    ("x", 5.0, lambda x: 0.0),
]


@pytest.mark.parametrize(("formula", "x", "factor"), CLOSED, ids=[row[0] for row in CLOSED])
def test_condition_of_one_entry(formula: str, x: float, factor) -> None:
    block = block_of(formula, {"x": x})
    true = abs(float(block.value[0, 0]))
    rounded = float(np.float32(x))
    # (exp(x) - 1) / x has lost eight of float64's digits
    close = 1e-2 if "- 1" in formula else 1e-6
    assert block.condition[0, 0] == pytest.approx(U * true * factor(rounded), rel=close, abs=1e-300)


def test_second_derivative_has_a_condition_of_its_own() -> None:
    block = block_of("x ** 5", {"x": 2.0}, "x.x", "reverse-over-reverse")
    assert block.condition[0, 0] == pytest.approx(U * 3 * 20 * 8, rel=1e-6)


def test_instability_raises_the_floor_but_not_the_allowance() -> None:
    block = block_of("(exp(x) - 1) / x", {"x": 1e-4})
    # exp(x) rounds by u, and the gradient divides that by x^2
    assert block.floor[0, 0] >= U / 1e-8
    assert block.allowance[0, 0] <= 1000 * U * abs(block.value[0, 0])


def test_length_raises_the_allowance() -> None:
    # fifty harmless operations may each round once, independently of each other
    block = block_of("y = x\n" + "y = y * 1.1\n" * 50 + "y * y", {"x": 1.0})
    unit = U * abs(block.value[0, 0])
    assert block.floor[0, 0] >= 50 * unit
    assert np.sqrt(50) * unit <= block.allowance[0, 0] <= block.floor[0, 0] / np.sqrt(50)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_allowance_is_in_units_of_the_judged_dtype(dtype: str) -> None:
    truth = truth_of("exp(x) * x", {"x": 1.0}, dtype=dtype, conditioning=True)
    block = truth.blocks["reverse", "x"]
    u = FORMATS[dtype].unit_roundoff
    assert u * abs(block.value) <= block.allowance <= 10 * u * abs(block.value)


def test_not_asked_for_it_is_zero() -> None:
    block = truth_of("exp(x)", {"x": 1.0}).blocks["reverse", "x"]
    assert block.condition == block.allowance == block.floor == 0


def test_unknown_condition_excuses_nothing() -> None:
    # the derivative of the derivative overflows float64
    truth = truth_of("1 / x", {"x": 1e-130}, dtype="float64", conditioning=True)
    block = truth.blocks["reverse", "x"]
    assert np.isfinite(block.condition[0, 0])
    assert block.allowance[0, 0] <= 1e3 * 2.0**-53 * abs(block.value[0, 0])


def test_many_entries_are_sampled() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(10, 12)), rng.normal(size=(12, 5))
    block = block_of("sum((x @ w) ** 2)", {"x": x, "w": w})
    # d/dx_ij = 2 sum_k (x w)_ik w_jk; first order in every input, one by one
    assert block.condition.shape == (1, 120)
    product = np.abs(x) @ np.abs(w)
    exact = U * 2 * (product @ np.abs(w).T + np.abs(x @ w) @ np.abs(w).T).reshape(1, -1)
    assert np.all(block.condition <= 8 * exact)
    assert np.all(block.condition >= exact / 200)
    assert np.median(block.condition / exact) > 0.1


def test_sampled_entries_are_never_far_below_their_condition() -> None:
    # an entry that all random signs happen to move little would look unstable; 3000 entries
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 1000))
    rows = Projection(rows=np.ones((1, 3, 1000)))
    truth = truth_of(
        "sin(x * y) * z",
        {"x": x, "y": np.full((3, 1), 1.3), "z": 0.7},
        dtype="float32",
        projections={"reverse": rows},
        wrt=("x",),
        conditioning=True,
    )
    block = truth.blocks["reverse", "x"]
    phase = np.float32(1.3) * x.astype(np.float32).astype(float)
    scale = 0.7 * 1.3
    # y and z move the entry, and x does
    moved = [np.cos(phase), np.cos(phase) - phase * np.sin(phase), phase * np.sin(phase)]
    rms = U * scale * np.sqrt(sum(m**2 for m in moved)).reshape(1, -1)
    assert np.min(block.condition / rms) > 0.3


def test_a_factorisation_is_granted_what_its_own_matrix_explains() -> None:
    """A product of nearly dependent rows loses twice the digits that the rows themselves have."""
    x = np.array([[1.0, 0.5], [1.0, 0.503]])
    logdet = "sum(log(diag(cholesky({}))))"
    of_a_product = block_of(logdet.format("x @ transpose(x)"), {"x": x})
    of_an_input = block_of(logdet.format("x"), {"x": x @ x.T})
    assert np.all(of_a_product.floor >= 30 * of_a_product.allowance)
    assert np.all(of_an_input.floor <= 3 * of_an_input.allowance)


def test_what_is_zero_in_exact_arithmetic_rounds_like_the_rest() -> None:
    """The trace, as a sum of eigenvalues: no direction moves its gradient by more than rounding."""
    x = np.random.default_rng(2).normal(size=(9, 9))
    block = block_of("sum(eigvalsh(x + transpose(x)))", {"x": x})
    off_diagonal = ~np.eye(9, dtype=bool).reshape(1, -1)
    assert np.all(block.floor[off_diagonal] > U / 16)


@pytest.mark.parametrize(("size", "exact"), [(3, True), (12, False)])
def test_costs_of_suspects_alone_are_no_larger_than_those_of_all(size: int, exact: bool) -> None:
    x = np.linspace(-1.0, 2.0, size)
    wanted = np.zeros((size, size), np.bool_)
    wanted[1, 0] = wanted[1, 2] = True
    whole = truth_of("softmax(x)", {"x": x}, dtype="float32", conditioning=True)
    some = truth_of(
        "softmax(x)",
        {"x": x},
        dtype="float32",
        conditioning=True,
        suspects={("reverse", "x"): wanted},
    )
    all_costs, costs = whole.blocks["reverse", "x"], some.blocks["reverse", "x"]
    for name in ("condition", "floor"):
        mine, theirs = getattr(costs, name), getattr(all_costs, name)
        assert np.all(mine[wanted] > 0)
        assert np.all(mine <= 2 * theirs)  # of random draws, fewer of them
        if exact:
            assert np.all(mine[wanted] == theirs[wanted])
    assert np.all((costs.scale > 0) & (costs.scale <= all_costs.scale))
    assert not np.any(costs.condition[0])  # another row
    np.testing.assert_array_equal(costs.value, all_costs.value)
    assert np.all(np.isnan(costs.difference))
    assert np.any(np.isfinite(all_costs.difference))


def block_at(formula: str, x: float, dtype: str) -> TruthBlock:
    truth = truth_of(formula, {"x": x}, dtype=dtype, modes=("reverse",), conditioning=True)
    return truth.blocks["reverse", "x"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("formula", "x"),
    [("sinc(x + 0.3)", 1e30), ("sinc(0.25 - x)", -3e20), ("sinc(x + 0.4) * x", 2.0**90)],
)
def test_an_absorbed_phase_is_ill_conditioned(formula: str, x: float, dtype: str) -> None:
    """Every float nearby is an integer, at which the derivative is that of an integer."""
    block = block_at(formula, x, dtype)
    assert np.all(block.certified)
    assert block.condition > 0.1 * np.abs(block.value)
    assert block.allowance >= block.condition
    assert block.floor >= block.condition


@pytest.mark.parametrize(("formula", "x"), [("sinc(x + 0.3)", 1.5), ("exp(x)", 3.0)])
def test_where_nothing_is_absorbed_first_order_decides(formula: str, x: float) -> None:
    block = block_at(formula, x, "float64")
    assert block.condition < 1e-14 * np.abs(block.value)


@pytest.mark.parametrize(
    ("formula", "inputs"),
    [
        ("(x - 3) / log(x / 3)", {"x": 3.0000000000000009}),
        ("(x - y) / log(x / y)", {"x": 18.368400284838543, "y": 18.36840028483855}),
        ("(exp(x) - exp(y)) / (x - y)", {"x": 0.7000000000000001, "y": 0.7}),
    ],
)
def test_slopes_of_what_float64_has_lost_are_no_condition(formula: str, inputs: dict) -> None:
    """The truth of these quotients of differences hardly bends, where float64 has no digit of
    them."""
    truth = truth_of(formula, inputs, dtype="float64", modes=("reverse",), conditioning=True)
    block, value = truth.blocks["reverse", "x"], truth.output_cost
    assert block.certified.all()
    assert truth.output_certified
    assert block.condition[0, 0] <= 1e-14
    assert value is not None
    assert np.ravel(value.condition)[0] <= 5e-16 * np.ravel(truth.output)[0]


def test_a_truth_that_moves_is_ill_conditioned_in_float64_too() -> None:
    truth = truth_of(
        "sin(x)", {"x": 1.5e16}, dtype="float64", modes=("reverse",), conditioning=True
    )
    assert truth.blocks["reverse", "x"].condition[0, 0] > 0.1
    assert truth.output_cost is not None
    assert np.ravel(truth.output_cost.condition)[0] > 0.1


# the float32 next to 0.3 is above it by a quarter of its ulp
@pytest.mark.parametrize(
    ("formula", "beside"),
    [
        ("relu(5 * x - 1.5)", 5.0),
        ("maximum(x, 0.3) + x", 0.5),  # at the kink itself, since literals are rounded as x is
        ("relu(5 * x - 1.49999)", 0.0),
        ("where(5 * x > 1.5, 7 * x, x)", 6.0),
        ("abs(5 * x - 1.5)", 10.0),
        ("x ** 2", 0.0),
    ],
)
def test_rounding_the_input_takes_it_across_a_kink(formula: str, beside: float) -> None:
    found = block_of(formula, {"x": 0.3}).condition[0, 0]
    assert found == pytest.approx(beside, abs=1e-6)
