"""Random directions. Whoever draws has a generator with a seed of its own, so that a run repeats.

(Importing `numpy.random` takes 30 ms, which few specs need: this module does not.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradcheck_cli.domain.dtypes import Array

if TYPE_CHECKING:
    import numpy as np


def signs(rng: np.random.Generator, shape: int | tuple[int, ...]) -> Array:
    """Rademacher numbers: each is 1 or -1."""
    return 2.0 * rng.integers(0, 2, shape) - 1.0


def direction(rng: np.random.Generator, shape: int | tuple[int, ...], turn: int) -> Array:
    """The direction number `turn` of several: Gaussian and Rademacher in turn. What hides in one
    kind, such as entries that cancel where all have one size, shows in the other."""
    return signs(rng, shape) if turn % 2 else rng.standard_normal(shape)
