"""Rules of arrays, at points of random boxes, against float64; and what masks say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.search.enclosures import enclosing  # noqa: F401 - it fills the table of rules
from gradcheck_cli.search.enclosures.array_rules import as_enclosed
from gradcheck_cli.search.enclosures.enclosed import (
    Enclosed,
    Exceeds,
    Mask,
    Rounding,
    between,
    literals,
)
from gradcheck_cli.search.enclosures.rules import RULES, as_flushed
from reference_engine.traced import ROWS

ROUNDING = Rounding.of(FORMATS["float32"], False)
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("sum", {"axis": 1}),
    ("mean", {"axis": 1}),
    ("max", {"axis": 1}),
    ("min", {"axis": 1}),
    ("softmax", {"axis": -1}),
    ("log_softmax", {"axis": -1}),
    ("logsumexp", {"axis": 1}),
    ("norm", {"axis": 1}),
    ("prod", {"axis": 1}),
    ("cumsum", {"axis": 1}),
    ("cumprod", {"axis": 1}),
    ("var", {"axis": 1}),
    ("std", {"axis": 1, "correction": 1}),
]


def drawn(rng: np.random.Generator, scale: float) -> tuple[Enclosed, np.ndarray, np.ndarray]:
    """Boxes of three numbers with errors; points of them; and what is computed for those."""
    middle = rng.normal(size=(400, 3)) * scale
    width = np.abs(rng.normal(size=(400, 3))) * scale * rng.choice((0, 1e-4, 1.0), size=(400, 1))
    box = between(middle - width, middle + width)
    d, a = rng.choice((0, 1e-6), size=(400, 3)), rng.choice((0, 1e-5), size=(400, 3))
    points = middle + width * rng.choice((-1, 1, 0.3), size=(400, 3))
    d, a = d + 1e-7, a + 1e-37  # for rounding to float32
    near = points + rng.choice((-1, 1), size=(400, 3)) * ((d - 1e-7) * np.abs(points) + a)
    return Enclosed(box.lo, box.hi, d, a, box.bad, box.undefined), points, near


@pytest.mark.parametrize(("name", "keywords"), CALLS)
@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0])
def test_reductions_enclose_and_bound(name: str, keywords: dict[str, Any], scale: float) -> None:
    rng = np.random.default_rng(7)
    x, points, near = drawn(rng, scale)
    found = RULES[name](ROUNDING, x, **keywords)
    exact = ROWS[name].raw(points, **keywords)
    assert np.all((found.lo <= exact) & (exact <= found.hi))
    computed = ROWS[name].raw(near.astype(np.float32), **keywords).astype(np.float64)
    error = np.abs(computed - exact)
    assert np.all(found.bad | (error <= found.d * np.abs(exact) + found.a))
    assert not found.bad.all()


def test_the_cross_entropy_of_probabilities() -> None:
    rng = np.random.default_rng(3)
    (x, points, near), (q, shares, close) = drawn(rng, 5.0), drawn(rng, 1.0)
    found = RULES["soft_nll"](ROUNDING, x, q, axis=1)
    exact = ROWS["soft_nll"].raw(points, shares, axis=1)
    assert np.all((found.lo <= exact) & (exact <= found.hi))
    computed = ROWS["soft_nll"].raw(near.astype(np.float32), close.astype(np.float32), axis=1)
    error = np.abs(computed.astype(np.float64) - exact)
    assert np.all(found.bad | (error <= found.d * np.abs(exact) + found.a))
    assert not found.bad.all()


def test_products_of_vectors() -> None:
    x, y = np.array([1.0, -2.0]), np.array([0.5, 3.0, -1.0])
    found = RULES["outer"](ROUNDING, between(x, x + 0.1), between(y, y + 0.1))
    exact = np.outer(x + 0.05, y + 0.1)
    assert np.all((found.lo <= exact) & (exact <= found.hi))
    assert found.lo.shape == (2, 3)


def test_products_of_matrices() -> None:
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(5, 2, 3)), rng.normal(size=(5, 3, 4))
    found = RULES["matmul"](ROUNDING, between(left, left + 0.1), between(right, right + 0.1))
    exact = (left + 0.07) @ (right + 0.03)
    assert np.all((found.lo <= exact) & (exact <= found.hi))


@pytest.mark.parametrize("subscripts", ["bij,bjk->bik", "bij,bjk->bki", "bij,bjk->b"])
def test_a_contraction_is_a_product_of_matrices(subscripts: str) -> None:
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(5, 2, 3)), rng.normal(size=(5, 3, 4))
    xs = between(left, left + 0.1), between(right, right + 0.1)
    found = RULES["einsum"](ROUNDING, *xs, subscripts=subscripts)
    exact = np.einsum(subscripts, left + 0.07, right + 0.03)
    assert np.all((found.lo <= exact) & (exact <= found.hi))
    with pytest.raises(Exceeds, match="einsum of"):
        RULES["einsum"](ROUNDING, xs[0], subscripts="bij->b")


def test_a_product_is_bad_where_some_order_overflows() -> None:
    x = between([[1e30, 1e30, 1e-30]], [[1e30, 1e30, 1e-30]])
    assert RULES["prod"](ROUNDING, x, axis=1).bad[0]


def test_a_comparison_is_settled_where_errors_leave_no_doubt() -> None:
    x = Enclosed(*(np.array(v) for v in ([0.0, 1.0, -1.0], [2.0, 2.0, 3.0])), *_errors([0, 0.5, 0]))
    mask: Mask = RULES["greater"](ROUNDING, x, between(np.zeros(3), np.zeros(3)))
    assert mask.true.tolist() == [True, True, True]
    assert mask.false.tolist() == [True, False, True]
    assert mask.agree.tolist() == [True, True, True]
    near = Enclosed(np.array([-1.0]), np.array([1.0]), *_errors([0.1]))
    assert not RULES["greater"](ROUNDING, near, between(np.zeros(1), np.zeros(1))).agree[0]


def _errors(a: list[float]) -> tuple[Any, ...]:
    no = np.zeros(len(a), np.bool_)
    return np.zeros(len(a)), np.array(a), no, no


def test_where_forgets_what_the_other_side_does() -> None:
    x = between(np.array([1.0, -1.0]), np.array([2.0, 1.0]))
    zero = between(np.zeros(2), np.zeros(2))
    mask = RULES["greater"](ROUNDING, x, zero)
    found = RULES["where"](ROUNDING, mask, x, RULES["log"](ROUNDING, zero))
    assert found.bad.tolist() == [False, True]
    assert as_enclosed(mask).lo.tolist() == [1.0, 0.0]


def test_the_variance_of_one_number_has_no_rule() -> None:
    with pytest.raises(Exceeds):
        RULES["var"](ROUNDING, between(np.ones((1, 1)), np.ones((1, 1))), axis=1, correction=1)


def test_what_is_flushed_on_the_way_is_missing_in_a_sum() -> None:
    normal = float(FORMATS["float32"].smallest_normal)
    x = between(*2 * (np.array([[1.5 * normal, -normal, 3 * normal]]),))
    found = RULES["sum"](Rounding.of(FORMATS["float32"], True), x, axis=1)
    assert found.error[0] >= normal / 2  # 1.5 - 1 is flushed


def test_a_mean_of_an_engine_that_multiplies_by_reciprocals() -> None:
    x = between(*2 * (np.array([[1.0, 1.0, 1.0]]),))
    plain, loose = (
        RULES["mean"](Rounding.of(FORMATS["float32"], way), x, axis=1).d[0] for way in (False, True)
    )
    assert loose >= plain + 2.0**-24


def test_the_variance_of_equal_numbers_is_not_exact() -> None:
    """The mean of three times 0.1 may be rounded away from 0.1."""
    x = between(*2 * (np.array([[0.1, 0.1, 0.1]]),))
    assert RULES["var"](ROUNDING, x, axis=1).error[0] >= (0.1 * 2.0**-24) ** 2


def test_the_variance_is_bad_where_the_sum_of_its_numbers_overflows() -> None:
    x = between(*2 * (np.array([[3e38, 3e38, 3e38]]),))
    assert RULES["var"](ROUNDING, x, axis=1).bad[0]


def test_a_choice_by_a_number_without_a_value_has_none() -> None:
    x = RULES["log"](ROUNDING, between(np.array([-1.0]), np.array([-0.5])))
    one, two = (between(np.array([end]), np.array([end])) for end in (1.0, 2.0))
    mask = RULES["logical_not"](ROUNDING, RULES["greater"](ROUNDING, x, two))
    assert RULES["where"](ROUNDING, mask, one, two).undefined[0]
    assert as_enclosed(mask).undefined[0]


def test_a_number_is_itself_and_no_infinity_unless_it_overflows() -> None:
    x = RULES["exp"](ROUNDING, between(np.array([1.0, 50.0]), np.array([2.0, 100.0])))
    itself = RULES["equal"](ROUNDING, x, x)
    infinite = RULES["equal"](ROUNDING, x, literals(ROUNDING, np.array([np.inf, np.inf])))
    assert itself.agree.tolist() == infinite.agree.tolist() == [True, False]
    assert (itself.true.all(), itself.false.any(), itself.tie.any()) == (True, False, False)
    assert not infinite.true[0]


def test_what_is_centered_is_near_0_where_numbers_are_equal() -> None:
    x = between(*2 * (np.array([[0.1, 0.1, 0.1]]),))
    found = RULES["centered"](ROUNDING, x, axis=1)
    assert np.all(found.lo <= 0)
    assert np.all(found.hi >= 0)
    assert np.all(found.error < 1e-7)
    assert np.all(found.error > 0)


def test_the_larger_of_two_numbers_that_an_engine_takes_for_0_may_be_the_other() -> None:
    flushing = Rounding.of(FORMATS["bfloat16"], True)
    x, y = (
        as_flushed(flushing, between(np.array([e]), np.array([e]))) for e in (3.58e-39, -1.157e-38)
    )
    found = RULES["maximum"](flushing, x, y)
    assert np.all(np.abs(-1.157e-38 - found.lo) <= found.error)


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_the_range_of_a_sum_holds_what_float64_loses_of_it(name: str) -> None:
    x = between(*2 * (np.array([[1.0, 2.0**-60, -1.0]]),))
    found = RULES[name](ROUNDING, x, axis=1)
    assert found.lo[0] < 0 < 2.0**-60 / 3 < found.hi[0]
    wide = RULES[name](ROUNDING, between(np.full((1, 3), 1e-40), np.full((1, 3), 1e30)), axis=1)
    assert wide.lo[0] > 0.9e-40


def test_a_small_addend_does_not_spoil_a_sum() -> None:
    """Its relative error, however large, is one of the small number alone."""
    sizes, errors = [1.0, 0.003], [1e-3, 4.0]
    x, y = (
        Enclosed(np.array([v]), np.array([v]), np.array([d]), np.zeros(1), *_errors([0])[2:])
        for v, d in zip(sizes, errors, strict=True)
    )
    both = x.map(lambda part: np.stack([part, part], axis=-1))
    both = replace(both, lo=np.array([sizes]), hi=np.array([sizes]), d=np.array([errors]))
    for found in (RULES["add"](ROUNDING, x, y), RULES["sum"](ROUNDING, both, axis=1)):
        assert 0.013 < found.error[0] < 0.0131


def test_what_underflows_is_off_by_no_more_than_its_size() -> None:
    flushing = Rounding.of(FORMATS["float32"], True)
    x = between(np.array([1e-30, 1e-20]), np.array([2e-30, 1.1e-19]))
    found = RULES["multiply"](flushing, x, x)
    assert np.all(found.a < [1e-43, 1.18e-38])
    assert np.all(as_flushed(flushing, between(np.array([1e-42]), np.array([2e-42]))).a < 2.1e-42)


def test_a_number_that_may_be_flushed_does_not_change_its_sign() -> None:
    """Below 0 it is not above 0, and above 0 it may be."""
    flushing = Rounding.of(FORMATS["float32"], True)
    x = as_flushed(
        flushing, between(np.array([-1e-39, 1e-40, 0.0]), np.array([-1e-40, 1e-39, 0.0]))
    )
    mask: Mask = RULES["greater"](flushing, x, between(np.zeros(3), np.zeros(3)))
    assert mask.agree.tolist() == [True, False, True]
    assert mask.computed_true.tolist() == [False, True, False]


def test_beside_what_is_never_true_no_tie_counts() -> None:
    rounding = Rounding.of(FORMATS["float32"], False)
    zero = between(np.zeros(3), np.zeros(3))
    never = RULES["equal"](rounding, between([1.0, 0.0, 1.0], [2.0, 2.0, 2.0]), zero)
    may = RULES["equal"](rounding, between([-1.0, -1.0, 1.0], [1.0, 1.0, 2.0]), zero)
    for pair in ((never, may), (may, never)):
        both = RULES["logical_and"](rounding, *pair)
        assert both.tie.tolist() == [False, True, False]
        assert both.true.tolist() == [False, True, False]


def test_a_sum_of_three_numbers_is_rounded_twice_in_any_order() -> None:
    """Where they cancel, the last of both roundings is as small as the sum."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (5000, 3)).astype(np.float32)
    x[:, 2] = -(x[:, 0] + x[:, 1]) * rng.choice([1.0, 0.999], 5000).astype(np.float32)
    found = RULES["sum"](ROUNDING, between(x, x), axis=1)
    right = np.sum(x.astype(np.float64), axis=1)
    for one, other, last in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
        computed = (x[:, one] + x[:, other]) + x[:, last]
        assert np.all(np.abs(computed - right) <= found.d * np.abs(right) + found.a)
    sizes = np.sum(np.abs(x), axis=1)
    assert np.median(found.a / sizes) < 0.6 * ROUNDING.unit
    assert np.all(found.a <= 2.01 * ROUNDING.unit * sizes)
