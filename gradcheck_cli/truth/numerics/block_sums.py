"""Weighted sums over blocks of a large gradient, which stand for it where gradients are compared.

They are linear, as gradients are in the upstream gradient, and take a sixty-fourth of the memory.
No weight is smaller than 1, so an entry that differs shows as a whole; the weights are drawn, so
that several entries cancel by chance alone. A float64 has digits enough for the sum of so few. A
gradient that is not large is its own sums.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from gradcheck_cli.domain.draws import signs
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.thresholds import Spread
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.numerics.probes import PART, parts

BLOCK = 64
FEW = PART  # entries that are their own sums
# How much larger the largest sum is than the largest entry: numbers of one size add up to 1.5
# times the root of 64, and there are fewer sums than entries.
LARGER: Spread = 16.0


@cache
def _weights() -> Float:
    """From 1 to 2, and their negatives, in steps of 1/8: products with float32 round nothing."""
    rng = np.random.default_rng(64)
    return np.asarray(signs(rng, BLOCK) * (1.0 + rng.integers(0, 9, BLOCK) / 8))


def count(size: int) -> int:
    """How many sums there are of so many entries."""
    return size if size <= FEW else -(-size // BLOCK)


def block_sums(numbers: Array) -> Float:
    """The sums (count,) of numbers (n,), in float64 whatever they are in."""
    if numbers.size <= FEW:
        return np.array(numbers, np.float64)
    found = np.empty(count(numbers.size))
    for inside in parts(numbers.size):
        part = np.asarray(numbers[inside], np.float64)
        first, rest = inside.start // BLOCK, part.size % BLOCK
        if rest:
            part = np.append(part, np.zeros(BLOCK - rest))
        blocks = part.reshape(-1, BLOCK)
        np.einsum("ij,j->i", blocks, _weights(), out=found[first : first + len(blocks)])
    return found


def usual_size(sums: Float, size: int) -> float:
    """The root of the mean square of so many entries, of which these are the sums; of entries with
    random signs, where they are several in a block. What is no number does not count."""
    square = 1.0 if size <= FEW else float(np.mean(_weights() ** 2))
    finite = np.where(np.isfinite(sums), sums, 0.0)
    return float(np.sqrt(finite @ finite / (square * max(size, 1))))
