"""Rules of orders: whatever order elements have at a point of a box, exactly or as computed, what
is put in order and what is moved by it lies within its enclosure."""

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.search.enclosures.enclosed import Enclosed, Exceeds, Mask, Rounding, between
from gradcheck_cli.search.enclosures.enclosing import BoxProgram
from gradcheck_cli.search.enclosures.rules import RULES
from reference_engine.traced import ROWS
from tests.search.searched import spec_of

COUNT = 300  # boxes of one call
SIZE = 4
PLAIN, FLUSHING = (Rounding.of(FORMATS["float32"], loose) for loose in (False, True))


def boxes(rng: np.random.Generator, error: bool) -> Enclosed:
    """Boxes of a few numbers that are close to each other, apart, or the same."""
    lo = rng.choice((-1.0, 0.0, 0.5, 1.0, 1.0 + 2.0**-20), (COUNT, SIZE))
    lo = lo + rng.choice((0.0, 0.0, 1e-6, 0.1), lo.shape) * rng.uniform(-1, 1, lo.shape)
    hi = lo + rng.choice((0.0, 0.0, 1e-6, 0.7), lo.shape)
    d, a = (rng.choice((0.0, 1e-7, 1e-3), lo.shape) * error for _ in range(2))
    no = np.zeros(lo.shape, np.bool_)
    return Enclosed(lo, hi, d, a, no, no)


def points(rng: np.random.Generator, x: Enclosed) -> tuple[Any, Any]:
    """A point of each box, and what is computed there."""
    point = x.lo + rng.choice((0.0, 1.0, 0.3), x.lo.shape) * (x.hi - x.lo)
    point = np.clip(point, x.lo, x.hi)
    reach = x.d * np.abs(point) + x.a
    return point, point + rng.choice((-0.999, 0, 0.999), point.shape) * reach


def orders(rng: np.random.Generator, x: Any, descending: bool) -> Any:
    """An order of each row; elements that are equal have any."""
    mixed = rng.permuted(np.broadcast_to(np.arange(SIZE), x.shape), axis=1)
    order = np.argsort(np.take_along_axis(x, mixed, 1), axis=1, stable=True)
    order = np.take_along_axis(mixed, order, 1)
    return order[:, ::-1] if descending else order


def held(found: Enclosed, value: Any, computed: Any) -> Any:
    """Where both are within the enclosure."""
    off = (found.d * np.abs(value) + found.a) * (1 + 1e-12)
    return (found.lo <= value) & (value <= found.hi) & (np.abs(computed - value) <= off)


@pytest.mark.parametrize("error", [False, True])
@pytest.mark.parametrize("rounding", [PLAIN, FLUSHING])
@pytest.mark.parametrize(
    ("name", "keywords"),
    [
        ("sort", {"axis": 1}),
        ("sort", {"axis": -1, "descending": True}),
        ("topk_values", {"k": 2, "axis": 1}),
        ("topk_values", {"k": 3, "axis": 1, "largest": False}),
        ("median", {"axis": 1}),
        ("median", {"axis": 1, "keepdims": True}),
    ],
)
def test_what_is_in_order_is_enclosed(
    name: str, keywords: dict[str, Any], rounding: Rounding, error: bool
) -> None:
    rng = np.random.default_rng(len(name))
    for _ in range(10):
        x = boxes(rng, error)
        found = RULES[name](rounding, x, **keywords)
        point, near = points(rng, x)
        value, computed = (ROWS[name].raw(part, **keywords) for part in (point, near))
        assert np.all(held(found, value, computed))


@pytest.mark.parametrize("error", [False, True])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("k", [SIZE, 2, 1])
def test_what_an_order_moves_is_enclosed(k: int, descending: bool, error: bool) -> None:
    """Gathered by it, and scattered: an element that has no place is 0. What is computed follows
    the computed order; at a tie of exact numbers any order is one of theirs."""
    rng = np.random.default_rng([k, descending])
    rules = RULES["argsort"], RULES["topk_indices"]
    agreed = 0
    for _ in range(20):
        x, g, updates = boxes(rng, error), boxes(rng, True), boxes(rng, True)
        updates = updates.map(lambda part: part[:, :k])
        if k == SIZE:
            places = rules[0](PLAIN, x, axis=1, descending=descending)
        else:
            places = rules[1](PLAIN, x, axis=1, k=k, largest=descending)
        taken = RULES["take_along_axis"](PLAIN, g, places, axis=1)
        zeros = between(np.zeros((COUNT, SIZE)), np.zeros((COUNT, SIZE)))
        put = RULES["scatter_add"](PLAIN, zeros, places, updates, axis=1)
        (point, near), (at_g, near_g), (at_u, near_u) = (points(rng, y) for y in (x, g, updates))
        order, own = (orders(rng, part, descending)[:, :k] for part in (point, near))
        rows = np.arange(COUNT)[:, None], np.arange(k)
        assert np.all(places.may[(*rows, order)])
        assert np.all(places.computed[(*rows, own)])
        agree = places.agree[:, :1]
        agreed += np.count_nonzero(agree)
        same = np.where(agree, own, order)  # an order of the exact numbers, where both agree
        on_sizes = np.take_along_axis(point, same, 1)
        assert np.all(np.diff(on_sizes, axis=1) * (-1 if descending else 1) >= 0)
        value, computed = (
            np.take_along_axis(part, one, 1) for part, one in ((at_g, same), (near_g, own))
        )
        assert np.all(held(taken, value, computed))
        value, computed = np.zeros((2, COUNT, SIZE))
        np.put_along_axis(value, same, at_u, 1)
        np.put_along_axis(computed, own, near_u, 1)
        assert np.all(held(put, value, computed))
    assert agreed > 1000


def test_places_are_no_numbers() -> None:
    """Nothing is proven of a choice, a mask or a product by them, and of updates that may meet."""
    rng = np.random.default_rng(0)
    x = boxes(rng, False)
    places = RULES["argsort"](PLAIN, x, axis=1)
    moved = RULES["flip"](PLAIN, places, axis=1)
    for name, *args in (
        ("multiply", places, x),
        ("where", places, x, x),
        ("greater", places, x),
        ("where", x, x, x),
    ):
        with pytest.raises((Exceeds, AttributeError)):
            RULES[name](PLAIN, *args)
    zeros = between(np.zeros(x.lo.shape), np.zeros(x.lo.shape))
    for onto, places_of in ((x, places), (zeros, moved)):
        with pytest.raises(Exceeds):
            RULES["scatter_add"](PLAIN, onto, places_of, x, axis=1)


def test_places_that_are_known_are_sums() -> None:
    rng = np.random.default_rng(1)
    x, updates = boxes(rng, True), boxes(rng, True)
    places = rng.integers(SIZE, size=x.lo.shape)
    found = RULES["scatter_add"](PLAIN, x, places, updates, axis=1)
    taken = RULES["take_along_axis"](PLAIN, x, places, axis=1)
    (point, near), (at_u, near_u) = points(rng, x), points(rng, updates)
    pairs = (point, at_u), (near, near_u)
    value, computed = (ROWS["scatter_add"].raw(one, places, u, axis=1) for one, u in pairs)
    assert np.all(held(found, value, computed))
    assert np.all(held(taken, *(np.take_along_axis(part, places, 1) for part in (point, near))))


def test_masks_stay_masks_where_they_are_moved() -> None:
    x = boxes(np.random.default_rng(2), False)
    mask = RULES["greater"](PLAIN, x, between(np.zeros(1), np.zeros(1)))
    for found in (
        RULES["take"](PLAIN, mask, np.array([1, 0]), axis=1),
        RULES["stack"](PLAIN, mask, mask, axis=1),
        RULES["concatenate"](PLAIN, mask, np.ones(x.lo.shape, np.bool_), axis=1),
    ):
        assert isinstance(found, Mask)


@pytest.mark.parametrize(
    "model", ["sum(sort(v) * v)", "sum(topk_values(v, 2))", "median(v)", "sum(sort(v)[1:])"]
)
def test_an_order_of_equal_numbers_is_a_kink(model: str) -> None:
    """The formula has a value and slopes there."""
    spec = spec_of("{v: [1, 2, 3]}", model)
    program = BoxProgram(spec.program, {}, FORMATS["float32"], PLAIN)
    (found,) = program({"v": np.ones((1, 3))}, {"v": np.full((1, 3), 2.0)}, 1)
    assert found is not None
    assert not found.undefined.any()
