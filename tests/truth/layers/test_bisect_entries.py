"""Wrong entries of a large gradient are found by halving, on a linear layer whose products are
known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.layers.bisect_entries import Search, at_rows
from gradcheck_cli.truth.numerics.classify import Sides
from gradcheck_cli.truth.numerics.differences import Estimate
from gradcheck_cli.truth.numerics.directions import Slope

OUTPUTS = 16
SIZES = {"x": 700, "w": 1000, "b": 3}
BAR = 1e-9


class Products:
    """What `Projections` knows of y = J p: `right` are the blocks of J by leaf, and `wrong` those
    of the backward."""

    seed = 5

    def __init__(self, errors: Mapping[tuple[str, int, int], float]) -> None:
        rng = np.random.default_rng(3)
        self.right = {name: rng.normal(size=(OUTPUTS, size)) for name, size in SIZES.items()}
        self.wrong = {name: block.copy() for name, block in self.right.items()}
        for (name, row, flat), error in errors.items():
            self.wrong[name][row, flat] += error
        self.row = rng.choice([-1.0, 1.0], OUTPUTS)
        self.signs = {name: rng.choice([-1.0, 1.0], size) for name, size in SIZES.items()}
        self.leaves = [
            Leaf(name, "input", np.arange(size) / 8, True) for name, size in SIZES.items()
        ]
        self.masks = {name: np.zeros(size, np.bool_) for name, size in SIZES.items()}
        self.kinks: set[tuple[str, int]] = set()
        self.forward = 0

    @property
    def draws(self) -> Products:
        return self

    def scale(self, leaf: Leaf, flat: int) -> float:
        return 1.0

    def mask(self, leaf: Leaf) -> Array:
        return self.masks[leaf.name].copy()

    def exclude(self, name: str, mask: Array) -> None:
        self.masks[name] = mask

    def direction(self, number: int) -> dict[str, Array]:
        return {name: np.where(self.masks[name], 0.0, signs) for name, signs in self.signs.items()}

    def product(self, gradient: Mapping[str, Array], along: Mapping[str, Array]) -> float:
        return float(sum(gradient[name] @ part for name, part in along.items()))

    def glance(
        self, along: Mapping[str, Array], row: Array, expected: float, level: int, wanted: float
    ) -> tuple[float, float]:
        self.forward += 2
        moved = sum(self.right[name] @ part for name, part in along.items())
        return float(row @ moved) - expected, BAR

    def column(self, leaf: Leaf, flat: int, rows: Array | None, level: int) -> Slope:
        value, error = self.right[leaf.name][:, flat], np.full(OUTPUTS, BAR)
        rough = (leaf.name, flat) in self.kinks
        kind = np.full(OUTPUTS, PointKind.KINK if rough else PointKind.SMOOTH)
        estimate = Estimate(value, error)
        sides = Sides(kind, estimate, estimate, np.zeros(OUTPUTS, np.bool_))
        return Slope(estimate, sides, np.abs(value))

    def pulled(self, row: Array) -> dict[str, Array]:
        return {name: row @ block for name, block in self.wrong.items()}

    def search(self) -> Search:
        gradient: Any = self.pulled(self.row)
        along = self.direction(0)
        apart, _ = self.glance(along, self.row, self.product(gradient, along), 0, 0.0)
        self.forward = 0
        search = Search(self, self.row, gradient, 0, 0, apart)  # type: ignore[arg-type]
        search.run()
        return search


@pytest.mark.parametrize("where", [("x", 3, 699), ("w", 0, 0), ("w", 15, 512), ("b", 7, 1)])
def test_a_single_wrong_entry_is_named_with_its_output(where: tuple[str, int, int]) -> None:
    name, row, flat = where
    products = Products({where: 0.01})
    search = products.search()
    assert [(one.leaf.name, one.flat) for one in search.columns] == [(name, flat)]
    assert search.complete
    assert search.rows() == ([row], False)
    assert products.forward < 50  # two for each halving of 2000 entries, and samples


def test_every_wrong_entry_is_named_one_after_the_other() -> None:
    wrong = {("x", 3, 10): 0.01, ("x", 3, 11): -0.02, ("w", 9, 500): 0.5}
    search = Products(wrong).search()
    assert {(one.leaf.name, one.flat) for one in search.columns} == {(n, i) for n, _, i in wrong}
    assert search.complete
    rows, _ = search.rows()
    assert set(rows) == {3, 9}


def test_an_entry_that_is_wrong_in_two_outputs_says_that_there_are_more() -> None:
    search = Products({("w", 2, 77): 0.25, ("w", 11, 77): 0.5}).search()
    assert [one.flat for one in search.columns] == [77]
    (row,), more = search.rows()
    assert row in (2, 11)
    assert more


def test_a_leaf_of_which_most_entries_are_wrong_is_sampled() -> None:
    products = Products({("w", 4, flat): 0.1 for flat in range(SIZES["w"])})
    search = products.search()
    assert search.dense == {"w": (3, 3)}
    assert {one.leaf.name for one in search.columns} == {"w"}
    assert search.complete  # what is left of the direction is right
    assert products.masks["w"].all()


def test_entries_that_hold_the_number_of_one_at_a_kink_are_not_looked_at() -> None:
    products = Products({("x", 1, 20): 0.1, ("x", 1, 30): 0.1})
    x = products.leaves[0]
    numbers = x.kept.copy()
    numbers[[30, 40]] = numbers[20]
    products.leaves[0] = replace(x, kept=numbers)
    products.kinks = {("x", flat) for flat in (20, 30, 40)}
    search = products.search()
    (column,) = search.columns
    assert column.flat in (20, 30)
    assert (column.rough, column.alike) == (True, 2)
    assert np.flatnonzero(products.masks["x"]).tolist() == [20, 30, 40]


def test_the_part_of_a_leaf_has_two_numbers_where_differences_tell_something() -> None:
    products = Products({("x", 3, 100): 0.01})
    search = products.search()
    given, true = search.whole_difference(products.leaves[0]) or (0.0, 0.0)
    change = 0.01 * products.row[3] * products.signs["x"][100]
    assert given - true == pytest.approx(change, rel=1e-6)
    blind: Any = lambda *given: (0.0, np.inf)  # noqa: E731
    products.glance = blind  # type: ignore[method-assign]
    assert search.whole_difference(products.leaves[0]) is None


def test_slopes_of_some_outputs() -> None:
    products = Products({})
    slope = products.column(products.leaves[0], 4, None, 0)
    some = at_rows(slope, [2, 5])
    np.testing.assert_array_equal(some.estimate.value, slope.estimate.value[[2, 5]])
    assert some.sides.kind.shape == some.steepest.shape == (2,)
