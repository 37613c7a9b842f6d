"""Random directions. Every caller has its own seeded generator, so a run is repeatable.

(Importing `numpy.random` takes 30 ms, and few specs need it, so this module imports it on demand.)
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array

MANY = 2**16  # signs that are drawn from bits


def generator(*seed: int) -> np.random.Generator:
    """`np.random.default_rng(seed)`, made faster: most of its time goes into mixing the seed."""
    return np.random.Generator(np.random.PCG64(_mixed(seed)))


@lru_cache(maxsize=1024)
def _mixed(seed: tuple[int, ...]) -> Any:
    """A seed sequence whose words for PCG64 are computed once for each seed."""
    from numpy.random.bit_generator import ISeedSequence, SeedSequence

    class Mixed(ISeedSequence):
        words = SeedSequence(seed).generate_state(4, np.uint64)

        def generate_state(self, *_: Any) -> Any:
            return self.words

    return Mixed()


def signs(rng: np.random.Generator, shape: int | tuple[int, ...]) -> Array:
    """Rademacher numbers: each is 1 or -1. For many numbers, each takes a single random bit."""
    size = math.prod(shape) if isinstance(shape, tuple) else shape
    if size <= MANY:
        return 2.0 * rng.integers(0, 2, shape) - 1.0
    bits = np.frombuffer(rng.bytes(-(-size // 8)), np.uint8)
    drawn = np.unpackbits(bits, count=size).view(np.int8)
    drawn *= 2  # an eighth of the memory that float64 takes
    drawn -= 1
    return drawn.astype(np.float64).reshape(shape)


def direction(rng: np.random.Generator, shape: int | tuple[int, ...], turn: int) -> Array:
    """Direction number `turn` of several: Gaussian and Rademacher in turn. An error that hides in
    one kind shows in the other, for example entries that cancel if all have one size."""
    return signs(rng, shape) if turn % 2 else rng.standard_normal(shape)
