"""Arrays whose factorisations have errors as large as those of a backward stable algorithm.

Such an algorithm (Cholesky, QR, eigenvalues, solving) gives the exact result for a matrix that
differs from the given one by a few units in the last place of its norm, not of each entry (Higham,
Accuracy and Stability of Numerical Algorithms, chapters 7, 10 and 19). A program and its
derivatives that run on these arrays show how far such errors move the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reference_engine.traced import Traced, Value

PERTURBED_LEVEL = -0.5  # below every tape, as balls are


class Perturbed(Traced):
    """An array. `part` is the part of its norm by which a matrix is moved, in a random
    direction."""

    __slots__ = ("part", "rng")

    part: float
    rng: np.random.Generator

    def __init__(self, value: Any, part: float, rng: np.random.Generator) -> None:
        self.level = PERTURBED_LEVEL  # type: ignore[assignment]
        self.value = np.asarray(value)
        self.part = part
        self.rng = rng

    def __repr__(self) -> str:
        return f"Perturbed({self.value}, part={self.part})"

    def apply(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Value:
        xs = [a.value if isinstance(a, Perturbed) else a for a in args]
        if op.rounding == "inputs":
            xs = [self._with_noise(x) for x in xs]
        y = op.on_arrays(xs, keywords)
        return Perturbed(y, self.part, self.rng) if np.asarray(y).dtype.kind == "f" else y

    def _with_noise(self, x: Any) -> Any:
        array = np.asarray(x)
        if array.dtype.kind != "f" or not array.size:
            return x
        direction = self.rng.standard_normal(array.shape)
        size = np.linalg.norm(array.ravel()) / np.linalg.norm(direction.ravel())
        return array + self.part * size * direction
