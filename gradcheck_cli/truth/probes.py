"""Random directions and cotangents in place of a whole Jacobian, and what they promise to find."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from gradcheck_cli.domain.dtypes import FloatFormat
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.engines.callables.subject import Output
from gradcheck_cli.truth.differences import Float

COTANGENTS = 4  # two Gaussian, two of Rademacher, as there are of everything in turn
MOST_DIRECTIONS = 8
GRID = 100  # points of the integral over the larger of several Gaussians
PART = 2**15  # entries that are worked on at once
REMEMBERED = 2**17  # numbers of a direction that are drawn once: they are asked for a dozen times


class Draws:
    """Seeded directions over all leaves and cotangents over all outputs, drawn again whenever they
    are asked for: one of a million entries is not worth its memory. Even ones are Gaussian, odd
    ones of Rademacher; a leaf's part is as large as the leaf by a power of two (`by_entry`: each of
    its entries as large as itself), an output's part as the inverse of that output."""

    def __init__(self, seed: int, fmt: FloatFormat) -> None:
        self._seed = seed
        self._fmt = fmt
        self._sizes: dict[str, float] = {}
        self._drawn_before: dict[tuple[int, int], Float] = {}
        self.by_entry = False

    def direction(self, number: int, leaf: Leaf, place: int) -> Float:
        """The part of direction `number` that belongs to a leaf, the `place`-th of all, flat."""
        drawn = self._drawn_before.get((number, place))
        if drawn is None:
            drawn = self._drawn([self._seed, 11, number, place], number, leaf.size, 1.0)
            if leaf.size > REMEMBERED:
                return self._scaled(drawn, leaf)
            self._drawn_before[number, place] = drawn
        return self._scaled(drawn.copy(), leaf)

    def _scaled(self, drawn: Float, leaf: Leaf) -> Float:
        """In place, part by part: another array of its size would be felt."""
        for inside in parts(leaf.size):
            drawn[inside] *= self.scales(leaf, inside)
        return drawn

    def scales(self, leaf: Leaf, inside: slice = slice(None)) -> Float:
        """How far the entries of a leaf move, by the size of what is drawn for each: (n,), or (1,)
        where all move alike."""
        if leaf.name not in self._sizes:
            self._sizes[leaf.name] = size_of(leaf.value)
        size = self._sizes[leaf.name]
        if not self.by_entry:
            return np.array([size])
        found = np.abs(leaf.value.reshape(-1)[inside])
        found[found == 0] = size
        return found

    def least_scale(self, leaf: Leaf) -> float:
        """The smallest of them."""
        return min(float(np.min(self.scales(leaf, inside))) for inside in parts(leaf.size))

    def cotangents(self, outputs: Sequence[Output], values: Float) -> Float:
        """All cotangents, (COTANGENTS, m); of a single output there is but one, 1."""
        if values.size == 1:
            return np.ones((1, 1))
        rows = np.empty((COTANGENTS, values.size))
        for place, output in enumerate(outputs):
            inside = slice(output.start, output.start + output.size)
            scale = 1 / size_of(values[inside]) if len(outputs) > 1 else 1.0
            for number, row in enumerate(rows):
                seed = [self._seed, 13, number, place]
                row[inside] = self._drawn(seed, number, output.size, scale)
        return rows

    def _drawn(self, seed: list[int], number: int, size: int, scale: float) -> Float:
        rng = np.random.default_rng(seed)
        if is_gaussian(number):
            return self._fmt.round(rng.standard_normal(size) * scale)
        drawn = rng.integers(0, 2, size, dtype=np.int8).astype(np.float64)
        drawn *= 2 * scale
        drawn -= scale
        return drawn


def parts(size: int) -> Iterator[slice]:
    """Slices of as many entries as fit a processor's cache."""
    for start in range(0, size, PART):
        yield slice(start, min(start + PART, size))


def is_gaussian(number: int) -> bool:
    return number % 2 == 0


def size_of(values: Float) -> float:
    """The power of two below the root mean square, which rounds nothing; 1 for zeros."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    with np.errstate(over="ignore"):
        square = float(np.dot(flat, flat)) / max(flat.size, 1)
    if not math.isfinite(square):  # infinities, or numbers whose squares are beyond the format
        largest = float(np.max(np.abs(flat[np.isfinite(flat)]), initial=0.0))
        return 2.0 ** math.floor(math.log2(largest)) if largest > 0 else 1.0
    return 2.0 ** math.floor(math.log2(square) / 2) if square > 0 else 1.0


def _all_small(limit: float, directions: int, cotangents: int) -> float:
    """The probability that an error of norm 1, whatever its pattern, shows in no product with the
    Gaussian ones of so many cotangents and directions by more than `limit`.

    The pattern that hides best is a single product of two vectors: then v^T E u is a b with
    independent standard Gaussians, and all products are small if the largest a times the largest b
    is. A single cotangent is that of a single output, and a is 1.
    """
    mine = sum(map(is_gaussian, range(cotangents)))
    theirs = sum(map(is_gaussian, range(directions)))
    if cotangents == 1:
        return math.erf(limit / math.sqrt(2)) ** theirs
    edges = np.linspace(0.0, 8.0, GRID + 1)
    below = np.array([math.erf(a / math.sqrt(2)) for a in edges]) ** mine
    middle = (edges[1:] + edges[:-1]) / 2
    small = np.array([math.erf(limit / a / math.sqrt(2)) for a in middle]) ** theirs
    return float(np.sum(np.diff(below) * small))


@cache
def smallest(directions: int, cotangents: int, power: float) -> float:
    """The norm of the smallest error that is missed with a probability of no more than
    1 - `power`, in units of the tolerance."""
    low, high = 0.0, 40.0  # as a power of two
    for _ in range(24):
        middle = (low + high) / 2
        if _all_small(2.0**-middle, directions, cotangents) > 1 - power:
            low = middle
        else:
            high = middle
    return float(2.0**high)
