"""Every rule of arrays, comparisons and choices against exact values, as `test_rules` does for
those of single numbers: at points of random and extreme boxes, with computed arguments as far off
as they may be. No row that a proof may use is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.search.enclosures.array_rules import MOVES, as_enclosed
from gradcheck_cli.search.enclosures.enclosed import Enclosed, Exceeds, Rounding
from gradcheck_cli.search.enclosures.rules import RULES
from reference_engine.arithmetic.arbs import Undecided, precision
from reference_engine.arithmetic.balls import exactly
from reference_engine.traced import ROWS
from tests.search.enclosures import test_rules
from tests.search.enclosures.test_rules import EXTREMES, FLOAT32

ROUNDING = Rounding.of(FLOAT32, False)
Shape = tuple[int, ...]
VECTOR, PAIR = ((1, 3),), ((1, 3), (1, 3))
MATRICES = ("det", "inv", "slogdet_sign", "slogdet_logabs", "logdet")
REGULAR = (*MATRICES, "solve")  # of matrices whose diagonal is large
ARRAYS: list[tuple[str, tuple[Shape, ...], dict[str, Any]]] = [
    *((name, VECTOR, {"axis": 1}) for name in ("sum", "mean", "max", "min", "norm", "prod")),
    *((name, VECTOR, {"axis": 1}) for name in ("cumsum", "cumprod", "logsumexp", "centered")),
    *((name, VECTOR, {"axis": 1}) for name in ("cummax", "cummin")),
    *((name, VECTOR, {"axis": -1}) for name in ("softmax", "log_softmax")),
    *((name, ((1, 1),), {"axis": 1}) for name in ("sum", "prod", "softmax", "centered")),
    *((name, VECTOR, {"axis": 1}) for name in ("var", "std")),
    *((name, VECTOR, {"axis": 1, "correction": 1}) for name in ("var", "std")),
    *(("norm", VECTOR, {"axis": 1, "ord": order}) for order in (1, 3, 1.5, np.inf)),
    ("matmul", ((1, 2, 3), (1, 3, 2)), {}),
    ("dot", ((1, 2, 3), (1, 3, 2)), {}),
    ("outer", ((2,), (3,)), {}),
    ("einsum", ((1, 2, 3), (1, 3, 2)), {"subscripts": "bij,bjk->bk"}),
    *((name, (shape,), {}) for name in MATRICES for shape in ((2, 2), (1, 3, 3))),
    ("solve", ((1, 2, 2), (1, 2, 2)), {}),
    ("solve", ((1, 3, 3), (1, 3, 1)), {}),
    ("soft_nll", PAIR, {"axis": 1}),
    *((name, ((1, 1), (1, 1)), {}) for name in ("bce_terms", "kl_terms", "logistic_terms")),
]
SHARES = ("bce_terms", "kl_terms")  # of numbers between 0 and 1
PARTS = {"dot": "matmul"}  # a row that means something else of a batch
EXTREME = ("max", "min", "cummax", "cummin")  # without a value where numbers are equal
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
ORDERS = ("sort", "argsort", "topk_values", "topk_indices", "median")  # in test_order_rules
BY_PLACES = ("take_along_axis", "scatter_add")  # there, too
LOGIC = ("all", "any", "logical_and", "logical_or", "logical_not", "where", "sign", "astype")


def test_every_rule_is_tried() -> None:
    arrays = {name for name, _, _ in ARRAYS}
    assert {*RULES} == {
        *test_rules.NAMES,
        *arrays,
        *COMPARISONS,
        *LOGIC,
        *MOVES,
        *ORDERS,
        *BY_PLACES,
    }


def boxes(rng: np.random.Generator, shape: Shape, within: bool) -> Enclosed:
    """A box of arrays, between extremes and draws."""
    size = 10 ** rng.uniform(-6, 2, (2, *shape))
    size = np.where(rng.random(size.shape) < 0.2, rng.choice(EXTREMES, size.shape), size)
    ends = np.float32(size if within else size * rng.choice((-1, 1), size.shape))
    lo, hi = np.sort(np.minimum(ends, 0.999) if within else ends, axis=0).astype(np.float64)
    kind = rng.integers(3)
    if kind < 2:
        hi = lo + (0 if kind else np.abs(lo) * 1e-3)
    d = rng.choice((0.0, 1e-7, 1e-3), shape)
    a = rng.choice((0.0, 0.0, 1e-44, 1e-6), shape)
    no = np.zeros(shape, np.bool_)
    return Enclosed(lo, hi, d, a, no, no)


def points(rng: np.random.Generator, x: Enclosed) -> tuple[Any, Any]:
    """A point of a box, and the computed number of each element."""
    share = rng.choice((0.0, 1.0, 0.3), x.lo.shape)
    point = np.clip(x.lo + share * (x.hi - x.lo), x.lo, x.hi)
    near = point + rng.choice((-1, 0, 1), point.shape) * (x.d * np.abs(point) + x.a)
    good = np.abs(near - point) <= x.d * np.abs(point) + x.a
    return point, np.where(good, near, point)


def exact(name: str, xs: Any, keywords: Any) -> Any:
    """Exact values, or None where there are none, or none are known."""
    with precision(600):
        try:
            balls = ROWS[PARTS.get(name, name)](*map(exactly, xs), **keywords)
        except (Undecided, ValueError, ZeroDivisionError):
            return None
        found = np.asarray(balls.value).ravel()
    return found if all(one.is_finite() for one in found) else None


@pytest.mark.parametrize(("name", "shapes", "keywords"), ARRAYS)
def test_a_rule_of_arrays_holds_at_all_points_of_boxes(
    name: str, shapes: tuple[Shape, ...], keywords: dict[str, Any]
) -> None:
    rng = np.random.default_rng([len(name), shapes[0][-1]])
    tried = 0
    for _ in range(40):
        xs = [boxes(rng, shape, name in SHARES) for shape in shapes]
        if name in REGULAR:
            far = 300 * np.eye(shapes[0][-1])
            xs[0] = replace(xs[0], lo=xs[0].lo + far, hi=xs[0].hi + far)
        found = RULES[name](ROUNDING, *xs, **keywords)
        lo, hi, d, a, bad, undefined, *_ = (part.ravel() for part in found.parts)
        for _ in range(3):
            both = [points(rng, x) for x in xs]
            value = exact(name, [point for point, _ in both], keywords)
            if value is None:
                assert bad.any() or undefined.any() or name in EXTREME, (name, xs)
                continue
            with precision(600):
                ends = zip(value, lo, hi, strict=True)
                outside = [one < low or one > high for one, low, high in ends]
            assert not any(outside), (name, xs, both, found)
            computed = exact(name, [near for _, near in both], keywords)
            if computed is None:
                assert bad.all() or name in EXTREME, (name, xs, both)
                continue
            with precision(600):
                apart = np.array([float(abs(p - q)) for p, q in zip(value, computed, strict=True)])
                size = np.array([float(abs(one)) for one in value])
            assert np.all(bad | (apart <= (d * size + a) * (1 + 1e-12))), (name, xs, both, found)
            tried += not bad.all()
    assert tried > 10, "too few boxes have a value"


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_says_what_may_come_out(name: str, flush: bool) -> None:
    """Of points and of computed numbers; both agree at each point where it says so. `flush` is for
    an engine that takes subnormal numbers for 0, or does not."""
    rng, rounding = np.random.default_rng(len(name)), Rounding.of(FLOAT32, flush)
    for _ in range(60):
        xs = [boxes(rng, (50,), False) for _ in range(2)]
        mask = RULES[name](rounding, *xs)
        (x, near_x), (y, near_y) = (points(rng, one) for one in xs)
        real, computed = ROWS[name].raw(x, y), ROWS[name].raw(near_x, near_y)
        assert np.all(np.where(real, mask.true, mask.false))
        assert np.all(np.where(computed, mask.computed_true, mask.computed_false))
        assert np.all(~mask.agree | (real == computed))
        assert np.all(mask.tie | (x != y))


def test_what_is_chosen_is_one_of_both() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        c, x, y = (boxes(rng, (50,), False) for _ in range(3))
        zero = np.zeros(50)
        above, below = (RULES[n](ROUNDING, c, c.map(np.zeros_like)) for n in ("greater", "less"))
        (at_c, near_c), (at_x, near_x), (at_y, near_y) = (points(rng, one) for one in (c, x, y))
        for name, mask, real, computed in (
            ("greater", above, at_c > zero, near_c > zero),
            ("logical_not", RULES["logical_not"](ROUNDING, above), at_c <= 0, near_c <= 0),
            ("logical_or", RULES["logical_or"](ROUNDING, above, below), at_c != 0, near_c != 0),
            ("logical_and", RULES["logical_and"](ROUNDING, above, below), zero > 0, zero > 0),
            ("all", RULES["all"](ROUNDING, above), np.all(at_c > 0), np.all(near_c > 0)),
            ("any", RULES["any"](ROUNDING, above), np.any(at_c > 0), np.any(near_c > 0)),
        ):
            found = RULES["where"](ROUNDING, mask, x, y)
            value, near = np.where(real, at_x, at_y), np.where(computed, near_x, near_y)
            assert np.all((found.lo <= value) & (value <= found.hi)), name
            allowed = (found.d * np.abs(value) + found.a) * (1 + 1e-12)
            assert np.all(found.bad | (np.abs(near - value) <= allowed)), name
        found = RULES["astype"](ROUNDING, as_enclosed(above), dtype=np.float64)
        assert np.all((found.lo <= (at_c > 0)) & ((at_c > 0) <= found.hi))
        assert np.all(np.abs((near_c > 0) * 1.0 - (at_c > 0)) <= found.a)
        found = RULES["sign"](ROUNDING, c)
        value = np.sign(at_c)
        assert np.all((found.lo <= value) & (value <= found.hi))
        assert np.all(np.abs(np.sign(near_c) - value) <= found.a)


def test_a_row_without_a_rule_is_told() -> None:
    with pytest.raises(Exceeds):
        RULES["norm"](ROUNDING, boxes(np.random.default_rng(0), (1, 3), False), ord=0.5, axis=1)
    with pytest.raises(Exceeds):
        RULES["astype"](ROUNDING, boxes(np.random.default_rng(0), (3,), False), dtype=np.int64)
