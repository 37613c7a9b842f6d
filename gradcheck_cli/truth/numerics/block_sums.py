"""Weighted sums over blocks of a large gradient, which replace it in comparisons.

The sums are linear, like gradients in the upstream gradient, and take a sixty-fourth of the memory.
No weight is smaller than 1, so an error of one entry shows in full. The weights are random, so that
the errors of several entries cancel only by chance. The digits of float64 are enough for sums of so
few numbers. A gradient that is not large is kept entry by entry.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from gradcheck_cli.domain.draws import signs
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.large_arrays import PART
from gradcheck_cli.domain.thresholds import Spread
from gradcheck_cli.truth.numerics.differences import Float

BLOCK = 64
FEW = PART  # entries that are their own sums
# The largest sum in units of the largest entry: numbers of one size add up to 1.5 times the root
# of 64, and there are fewer sums than entries.
LARGER: Spread = 16.0


@cache
def _weights() -> Float:
    """From 1 to 2, with random signs, in steps of 1/8: products with float32 round nothing."""
    rng = np.random.default_rng(64)
    return np.asarray(signs(rng, BLOCK) * (1.0 + rng.integers(0, 9, BLOCK) / 8))


def count(size: int) -> int:
    """The number of sums for so many entries."""
    return size if size <= FEW else -(-size // BLOCK)


def block_sums(numbers: Array) -> Float:
    """The sums (count,) of numbers (n,), in float64 for any dtype."""
    if numbers.size <= FEW:
        return np.array(numbers, np.float64)
    whole = numbers.size // BLOCK
    found = np.empty(count(numbers.size))
    blocks, rest = np.split(numbers, [whole * BLOCK])
    np.einsum("ij,j->i", blocks.reshape(-1, BLOCK), _weights(), out=found[:whole])
    found[whole:] = rest @ _weights()[: rest.size]
    return found


def usual_size(sums: Float, size: int) -> float:
    """The root mean square of `size` entries from their sums; for sums of several entries it
    assumes random signs. Sums that are not finite do not count."""
    square = 1.0 if size <= FEW else float(np.mean(_weights() ** 2))
    finite = np.where(np.isfinite(sums), sums, 0.0)
    return float(np.sqrt(finite @ finite / (square * max(size, 1))))
