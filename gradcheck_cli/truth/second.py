"""Second derivatives of a callable: differences of its gradient, in the highest precision that it
runs in, and its own second derivative where they confirm it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.engines.callables.subject import Call, Subject
from gradcheck_cli.truth.blocks import Differences, merge, unconstrained
from gradcheck_cli.truth.callables import ROUNDINGS, quick_of
from gradcheck_cli.truth.differences import Float
from gradcheck_cli.truth.directions import Values
from gradcheck_cli.truth.locating import at_rows
from gradcheck_cli.truth.noise import OPERATIONS, from_size, measured
from gradcheck_cli.truth.quick import Quick

Blocks = dict[tuple[str, str], Array]
"""By leaf and leaf: d(ds/da)/db along directions of b, (n of a, directions of b)."""


@dataclass
class SecondTruth:
    """The Hessian of s = row @ F at the subject's own leaves, along `directions` (k, n) of every
    leaf that is asked for, one leaf at a time. `doubt` is called where a first look does not
    confirm it."""

    subject: Subject
    row: Float
    directions: Mapping[str, Array]
    bounds: Mapping[str, tuple[float, float]]
    dtype: str
    doubt: Callable[[], None]

    def __post_init__(self) -> None:
        self.values = {leaf.name: leaf.value for leaf in self.subject.leaves}
        self.sizes = {
            leaf.name: leaf.size for leaf in self.subject.leaves if leaf.name in self.directions
        }

    def _gradient(self, at: Values) -> Float:
        """The gradient of s, all leaves one after the other."""
        moved = {name: v for name, v in at.items() if v is not self.values[name]}
        ran = self.subject.run(Call(moved, self.row[None]))
        parts = []
        for name, size in self.sizes.items():
            found = ran.gradients.get(name)
            parts.append(np.zeros(size) if found is None else found[0])
        return np.concatenate(parts)

    def _several(self, many: Sequence[Values]) -> Float:
        return np.stack([self._gradient(at) for at in many])

    def _quick(self) -> Quick:
        zero, dtype = self._gradient({}), self.subject.dtype
        floats = {n: v for n, v in self.values.items() if v.dtype.kind == "f"}
        # entries that cancel are as noisy as the others
        usual = np.sqrt(np.mean(np.square(zero[np.isfinite(zero)])))
        least = from_size(np.fmax(np.abs(zero), usual), OPERATIONS, self.subject.digits)

        def measure() -> Float:
            self.doubt()
            return np.fmax(least, 2 * measured(self._gradient, floats, zero, False, dtype))

        return quick_of(self._several, self.values, self.bounds, zero, least, measure, dtype)

    def blocks(self, own: Blocks, costs: Blocks | None) -> dict[tuple[str, str], TruthBlock]:
        """The truth of every block. `own` are the subject's second derivatives, `costs` how far
        half an ulp of the judged dtype in every number moves them, where that is known."""
        quick = self._quick()
        found = {key: Differences.empty(*block.shape) for key, block in own.items()}
        for second, directions in self.directions.items():
            shape = np.shape(self.values[second])
            for number, along in enumerate(directions):
                expected = np.concatenate([own[first, second][:, number] for first in self.sizes])
                with np.errstate(all="ignore"):
                    slope = quick.along({second: along.reshape(shape)}, expected)
                start = 0
                for first, size in self.sizes.items():
                    mine = list(range(start, start + size))
                    found[first, second].put(number, at_rows(slope, mine))
                    start += size
        return {
            key: self._block(block, found[key], None if costs is None else costs[key])
            for key, block in own.items()
        }

    def _block(self, own: Array, found: Differences, cost: Array | None) -> TruthBlock:
        known = np.zeros(own.shape) if cost is None else cost
        spread = 4 * FORMATS[self.subject.dtype].ulp(own)
        ratio = FORMATS[self.subject.dtype].unit_roundoff / FORMATS[self.dtype].unit_roundoff
        ulp = FORMATS[self.dtype].ulp(own)
        merged = unconstrained(
            merge(own, spread, found, True, ulp, lambda: (known * ratio, known * ratio))
        )
        agreed = merged.confirmed & (merged.kind == PointKind.SMOOTH)
        rounding = spread + 4 * known * ratio
        return merged.block(
            found,
            error=np.where(agreed, np.minimum(merged.error, rounding), merged.error),
            condition=known,
            allowance=ROUNDINGS * known,
            floor=ROUNDINGS * known,
            # an entry that cancels has no slope of its own; that of the others is its scale
            scale=np.broadcast_to(np.max(found.steepest, axis=0), own.shape),
            confirmed=agreed,
        )
