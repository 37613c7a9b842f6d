"""Directions through a kink of several entries, and the one-sided derivatives along them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.truth import Hull, PointKind, TruthBlock
from gradcheck_cli.truth.directions import Sampled

RANDOM_DIRECTIONS = 5  # beside the one that moves every tied entry together


def hulls_of(blocks: Mapping[str, TruthBlock], sampled: Sampled, seed: int) -> tuple[Hull, ...]:
    """Hulls along all tied entries at once and along seeded random signs of them."""
    tied = {name: np.any(block.kind == PointKind.KINK, axis=0) for name, block in blocks.items()}
    rng = np.random.default_rng([seed, 2])
    directions = [{name: mask.astype(np.float64) for name, mask in tied.items()}]
    for _ in range(RANDOM_DIRECTIONS):
        directions.append(
            {name: mask * rng.choice([-1.0, 1.0], size=mask.size) for name, mask in tied.items()}
        )
    return tuple(_hull(direction, sampled) for direction in directions)


def _hull(direction: Mapping[str, Array], sampled: Sampled) -> Hull:
    shaped = {
        name: np.reshape(weights, np.shape(sampled.values[name]))
        for name, weights in direction.items()
    }
    slope = sampled.along(shaped)
    above, below = slope.sides.above, slope.sides.below
    return Hull(
        direction=direction,
        lower=np.fmin(above.value, below.value),
        upper=np.fmax(above.value, below.value),
        error=np.fmax(above.error, below.error),
    )
