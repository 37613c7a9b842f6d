"""Random directions and cotangents that replace a whole Jacobian, and the errors that they find."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FloatFormat
from gradcheck_cli.domain.large_arrays import any_nonzero, parts
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.scale import scale_of
from gradcheck_cli.domain.thresholds import Spread
from gradcheck_cli.engines.layer.subject import Output
from gradcheck_cli.truth.numerics.differences import Float

COTANGENTS = 4
MANY = 2**21  # entries of leaves: for so many a second cotangent takes as long as all differences
MOST_DIRECTIONS = 8
# Numbers are drawn evenly from -1 .. 1 and moved away from 0 by LEAST, so that none hides an entry.
# They have a density, so a combination of them cancels only by chance.
LEAST: Spread = 0.5
DENSITY: Spread = 0.5
SQUARE: Spread = 13 / 12  # their mean square
# A sum of independent numbers with densities up to M, whose weights have norm 1, has a density up
# to sqrt(2) M (Rogozin 1987, "The estimate of the maximum of the convolution of bounded
# densities"; Ball 1986, "Cube slicing in R^n"): the chance to be within t of 0 is at most CLOSE t.
CLOSE: Spread = 2 * math.sqrt(2) * DENSITY
REMEMBERED = 2**17  # numbers of a direction that is kept: it is requested a dozen times


class Draws:
    """Seeded directions over all leaves and cotangents over all outputs. Large ones are drawn again
    for each request, because one of a million entries is not worth its memory. Signs and sizes of
    all entries are random, with sizes between LEAST and 3 LEAST. A leaf's part is scaled by the
    leaf's size as a power of two (`by_entry`: each entry by its own size), an output's part by the
    inverse of the output's size."""

    def __init__(self, seed: int, fmt: FloatFormat) -> None:
        self._seed = seed
        self._fmt = fmt
        self._sizes: dict[str, float] = {}
        self._drawn_before: dict[tuple[int, int], Float] = {}
        self.by_entry = False

    def direction(self, number: int, leaf: Leaf, place: int, narrow: bool = False) -> Float:
        """The flat part of direction `number` for a leaf, the `place`-th of all; in float32 if it
        may be `narrow`, the leaf is large and all of its entries move alike."""
        is_narrow = narrow and leaf.size > REMEMBERED and not self.by_entry
        found: Any = np.empty(leaf.size, np.float32 if is_narrow else np.float64)
        for inside, drawn in self.unscaled(number, leaf, place):
            np.multiply(drawn, self.scales(leaf, inside), out=found[inside], casting="same_kind")
        return found

    def unscaled(self, number: int, leaf: Leaf, place: int) -> Iterator[tuple[slice, Float]]:
        """Yield the direction before scaling, part by part. Read-only."""
        key, seed = (number, place), [self._seed, 11, number, place]
        if leaf.size > REMEMBERED:
            yield from self._parts_drawn(seed, leaf.size)
            return
        if key not in self._drawn_before:
            self._drawn_before[key] = self._draw(seed, leaf.size)
        for inside in parts(leaf.size):
            yield inside, self._drawn_before[key][inside]

    def scales(self, leaf: Leaf, inside: slice = slice(None)) -> Float:
        """How far each entry of a leaf moves per unit drawn: (n,), or (1,) if all move alike."""
        return self.entry_scales(leaf, inside) if self.by_entry else np.array([self.size(leaf)])

    def size(self, leaf: Leaf) -> float:
        """How far the entries of a leaf move if all move alike."""
        if leaf.name not in self._sizes:
            self._sizes[leaf.name] = scale_of(leaf.kept)
        return self._sizes[leaf.name]

    def entry_scales(self, leaf: Leaf, inside: slice) -> Float:
        """How far the entries move if each moves by its own size."""
        found = np.abs(leaf.kept.reshape(-1)[inside], dtype=np.float64)
        found[found == 0] = self.size(leaf)
        return found

    def scale(self, leaf: Leaf, flat: int) -> float:
        """How far one entry moves."""
        return float(self.scales(leaf, slice(flat, flat + 1))[0])

    def least_scale(self, leaf: Leaf) -> float:
        """The smallest move of an entry of the leaf; inf for a leaf without entries."""
        if not self.by_entry:
            return self.size(leaf) if leaf.size else np.inf
        sizes = (float(np.min(self.scales(leaf, inside))) for inside in parts(leaf.size))
        return min(sizes, default=np.inf)  # of a leaf without entries

    def cotangents(self, outputs: Sequence[Output], values: Float, count: int) -> Float:
        """The first `count` cotangents, (count, m); for a single output the cotangent 1 alone."""
        if values.size == 1:
            return np.ones((1, 1))
        rows = np.empty((count, values.size))
        for place, output in enumerate(outputs):
            inside = slice(output.start, output.start + output.size)
            scale = 1 / scale_of(values[inside]) if len(outputs) > 1 else 1.0
            for number, row in enumerate(rows):
                seed = [self._seed, 13, number, place]
                row[inside] = self._draw(seed, output.size) * scale
        return rows

    def _draw(self, seed: list[int], size: int) -> Float:
        drawn = np.empty(size)
        for inside, part in self._parts_drawn(seed, size):
            drawn[inside] = part
        return drawn

    def _parts_drawn(self, seed: list[int], size: int) -> Iterator[tuple[slice, Any]]:
        rng = np.random.default_rng(seed)
        is_large = size > REMEMBERED  # the 24 bits that float32 holds are enough then
        dtype = np.float32 if is_large else np.float64
        exact = is_large and self._fmt.bits >= np.finfo(np.float32).nmant + 1
        for inside in parts(size):
            part = rng.random(inside.stop - inside.start, dtype)
            part *= 2
            part -= 1
            part += np.copysign(dtype(LEAST), part)
            yield inside, part if exact else self._fmt.round(part)


def moves(direction: Float) -> bool:
    """Check whether any entry of the direction is not zero."""
    return any_nonzero(direction)


def _all_small(limit: float, directions: int, cotangents: int) -> float:
    """A bound on the probability that an error of norm 1 with any pattern E shows in no product of
    these cotangents and directions by more than `limit`.

    Given the cotangents v, the product v^T E u is within `limit` of 0 with a chance of at most
    CLOSE limit / |v^T E|, independently in each direction u. Each |v^T E|^2 is a mean of squares
    (v^T e)^2 over normed columns e, so E h(|v^T E|^2) is at most E h((v^T e)^2) for convex h. With
    h linear from 3 t^2 down, and 0 beyond, |v^T E| <= t has a chance of at most sqrt(3) CLOSE t.
    The largest of all |v^T E| is then no smaller than the largest of as many even draws x from 0 ..
    1 over sqrt(3) CLOSE. For a single output no cotangent is drawn: it is 1, and |v^T E| is the
    norm.
    """
    if cotangents == 0:
        return float(min(1.0, CLOSE * limit) ** directions)
    c, k, d = min(1.0, math.sqrt(3) * CLOSE**2 * limit), cotangents, directions
    # the mean of min(1, c / x)^d over the largest x of k draws, whose density is k x^(k - 1)
    rest = -k * math.log(c) * c**k if k == d else k / (k - d) * (c**d - c**k)
    return float(c**k + rest)


@cache
def smallest(directions: int, cotangents: int, power: float) -> float:
    """The norm of the smallest error that is missed with a probability of at most 1 - `power`, in
    units of the tolerance. `cotangents` is the number of random cotangents: none for a single
    output."""
    low, high = 0.0, 40.0  # as a power of two
    for _ in range(24):
        middle = (low + high) / 2
        if _all_small(2.0**-middle, directions, cotangents) > 1 - power:
            low = middle
        else:
            high = middle
    return float(2.0**high)


def smallest_single(limits: Float, cotangents: int, power: float) -> float:
    """The smallest error of a single entry that is missed with a probability of at most 1 -
    `power`. Its product with cotangent k and direction d shows beyond limits[k, d].

    Directions move the entry by LEAST at least. So it is missed only if no v_k, which are drawn
    evenly from LEAST on, exceeds the least limit of its products. Without `cotangents`, the
    directions take their place.
    """
    reach = np.min(limits, axis=1) / LEAST if cotangents else limits[0]
    low, high = float(np.min(reach)) / (2 * LEAST + 1), float(np.min(reach)) / LEAST
    for _ in range(24):
        middle = (low + high) / 2
        missed = float(np.prod(np.clip(reach / middle - LEAST, 0.0, 1.0)))
        low, high = (middle, high) if missed > 1 - power else (low, middle)
    return high
