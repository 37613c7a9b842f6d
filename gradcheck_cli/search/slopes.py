"""What slopes over boxes say about a number: how far half an ulp of the inputs moves it, where in
the box it is least and largest, and along which input it moves most."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.search.enclosures.enclosed import between, up
from gradcheck_cli.search.enclosures.rules import times

_SLOP = 1e-300  # bounds the loss from underflow of float64


@dataclass(frozen=True, slots=True)
class Slopes:
    """The slopes of n numbers over N boxes of D inputs. Their derivatives lie between `least` and
    `most` (N, n, D), infinite if unknown; `low` and `high` (N, D) are the boxes, in numbers of the
    dtype."""

    least: Array
    most: Array
    low: Array
    high: Array

    @property
    def moves(self) -> Array:
        """A lower bound on the sum of |x| |slope| over the inputs: (N, n)."""
        x = between(self.low[:, None], self.high[:, None]).least
        size = between(self.least, self.most).least
        total = np.sum(times(x, size), axis=2)
        return np.where(np.isfinite(total), total, 0.0)

    @property
    def reach(self) -> Array:
        """How far each input moves a number from the middle of its box, (N, n, D)."""
        half = (self.high / 2 - self.low / 2) * (1 + 2.0**-40)
        return times(half[:, None], np.maximum(np.abs(self.least), np.abs(self.most)))

    def ends(self, index: int, middle: Array) -> tuple[Array, Array, Array]:
        """Points (N, D) at which number `index` is least and largest, and how far beyond these
        points' values it may be, (N,). An input that moves it in both directions is in the `middle`
        (N, D)."""
        rises, falls = self.least[:, index] >= 0, self.most[:, index] <= 0
        least = np.where(rises, self.low, np.where(falls, self.high, middle))
        most = np.where(rises, self.high, np.where(falls, self.low, middle))
        beyond = np.where(rises | falls, 0.0, self.reach[:, index])
        return least, most, up(np.sum(beyond, axis=1)) + _SLOP
