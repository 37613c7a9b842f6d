"""Enclose gradients at points very close to a tie; their hull is Clarke's generalised gradient.

If three or more numbers tie, as in a median, the kink may show along no axis at all. Beside the
point, in a random direction, the tie is broken, and the gradient there can be enclosed. (Clarke,
Optimization and Nonsmooth Analysis, 1983, theorem 2.5.1.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import SECOND, Mode, Projection
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import SAME_LIMIT_BITS, Residue
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.truth.certified.ball_program import BallProgram, operations
from gradcheck_cli.truth.certified.enclose import BUDGET, FIRST_BITS, MOST_BITS, Blocks, Certificate

SAMPLES = 64
ENOUGH = 16  # samples, if each kind was met twice: few directions can then meet another kind
SHIFT = 200  # bits below the numbers: bends within this distance change no digit of a float64
# Part of the largest limit of a row that is left of a slope which vanishes at the point.
NOTHING: Residue = 2.0**-80


@dataclass(frozen=True, slots=True)
class Limiting:
    """Limits of the gradient of one mode: `gradients` by input, (samples, rows, columns). `tied`
    marks the entries (rows, columns) of each input that they bound; `rows` (rows,) the rows that
    are steep nowhere."""

    gradients: Mapping[str, Array]
    tied: Mapping[str, Array]
    rows: Array

    def widened(self, name: str, block: TruthBlock) -> TruthBlock:
        """The block in which a tied entry may be anything between its limits, and anything at all
        if not all limits were met."""
        samples = self.gradients[name]
        low, high = np.min(samples, axis=0), np.max(samples, axis=0)
        size = np.fmax(np.abs(low), np.abs(high))
        wide = self.tied[name] & ~(high - low <= 2.0**-SAME_LIMIT_BITS * size)
        smooth = wide & (block.kind == PointKind.SMOOTH)
        met = np.zeros(wide.shape, np.bool_)
        for place in map(tuple, np.argwhere(wide)):
            met[place] = all_met_twice(samples[:, *place], float(size[place]))
        lower, upper = np.fmin(block.lower, low), np.fmax(block.upper, high)
        lower, upper = np.where(smooth, low, lower), np.where(smooth, high, upper)
        lower = np.where(met, lower, np.where(smooth, -np.inf, block.lower))
        upper = np.where(met, upper, np.where(smooth, np.inf, block.upper))
        kinks = block.at(smooth, value=np.clip(block.value, low, high), kind=PointKind.KINK)
        bar = np.fmax(block.error, 2.0**-SAME_LIMIT_BITS * size)
        return replace(kinks.at(met, error=bar), lower=lower, upper=upper)


def limiting(
    request: TruthRequest,
    mode: Mode,
    certificates: Mapping[tuple[Mode, str], Certificate],
    blocks: Mapping[tuple[str, str], TruthBlock],
) -> Limiting | None:
    """Return the limits at a point where a row of the Jacobian depends on a tie through several
    inputs and is steep nowhere (Lipschitz, as far as differences show). None if there is no such
    row, or the limits cannot be enclosed within the budget."""
    projection = request.projections[mode]
    if mode in SECOND or projection.columns is not None:
        return None
    if not all((mode, name) in certificates for name in request.wrt):
        return None
    if not any(certificates[mode, name].tied.any() for name in request.wrt):
        return None
    kinds = np.concatenate([blocks[mode, name].kind for name in request.wrt], axis=1)
    mild = np.all((kinds == PointKind.SMOOTH) | (kinds == PointKind.KINK), axis=1)
    tied = {name: certificates[mode, name].tied & mild[:, None] for name in request.wrt}
    if not np.any(sum(np.sum(t, axis=1) for t in tied.values()) > 1):
        return None
    beside = _Beside(request, BallProgram(request), mode, projection)
    found = beside.gradients()
    if len(found) < ENOUGH:
        return None
    gradients = {name: np.stack([one[name] for one in found]) for name in request.wrt}
    together = np.concatenate(list(gradients.values()), axis=2)
    sizes = np.max(np.abs(together), axis=2)
    largest = np.max(sizes, axis=0)
    for row, sample in enumerate(np.argmax(sizes, axis=0)):
        nearer = beside.nearer(int(sample))
        if nearer is None:
            return None
        left = max(np.max(np.abs(nearer[name][row]), initial=0.0) for name in request.wrt)
        if left <= NOTHING * largest[row]:
            largest[row] = np.inf  # the whole row vanishes towards the point
    for samples in gradients.values():
        samples[np.abs(samples) <= NOTHING * largest[:, None]] = 0.0
    return Limiting(gradients, tied, mild)


class _Beside(Blocks):
    """First derivatives at points very near the inputs."""

    def __init__(
        self, request: TruthRequest, function: BallProgram, mode: Mode, projection: Projection
    ) -> None:
        super().__init__(request, function, mode, projection)
        self._rng = generator(request.seed, 41)
        self._at = self._xs
        sizes = np.abs(np.concatenate([x.ravel() for x in self._at]))
        sizes = sizes[(sizes > 0) & np.isfinite(sizes)]
        self._least, most = float(np.min(sizes, initial=1.0)), float(np.max(sizes, initial=1.0))
        self._ways: list[list[Array]] = []  # directions to the points that were enclosed
        self._nearer: dict[int, dict[str, Array] | None] = {}
        self._spread = 2 * int(np.log2(most) - np.log2(self._least))

    def gradients(self) -> list[dict[str, Array]]:
        """The blocks at up to SAMPLES points, as many as the budget allows, without points that
        could not be enclosed."""
        bits = self._bits(SHIFT)
        cost = operations(self._function.program) * self._passes() * bits / FIRST_BITS
        count = min(SAMPLES, int(BUDGET / cost))
        samples = []
        for _ in range(count if count >= ENOUGH else 0):
            way = [self._rng.normal(size=x.shape) for x in self._at]
            one = self._gradient_beside(way, SHIFT)
            if one is not None:
                samples.append(one)
                self._ways.append(way)
        return samples

    def nearer(self, sample: int) -> dict[str, Array] | None:
        """The blocks at a point twice as many bits nearer to the inputs, in the same direction."""
        if sample not in self._nearer:
            self._nearer[sample] = self._gradient_beside(self._ways[sample], 2 * SHIFT)
        return self._nearer[sample]

    def _bits(self, shift: int) -> int:
        """The precision in bits at which such a move changes the inputs."""
        return min(FIRST_BITS + 2 * shift + self._spread, MOST_BITS)

    def _gradient_beside(self, way: Sequence[Array], shift: int) -> dict[str, Array] | None:
        from flint import arb

        from reference_engine.arithmetic.arbs import NotInBalls, Undecided, objects
        from reference_engine.arithmetic.arbs import precision as at_precision
        from reference_engine.arithmetic.balls import exactly

        hair = arb(self._least) * arb(2) ** -shift
        with at_precision(self._bits(shift)):
            moved = (objects(x) + hair * objects(w) for x, w in zip(self._at, way, strict=True))
            self._xs = [exactly(x) for x in moved]
            try:
                found = self._first_order(self._function)
            except (Undecided, NotInBalls):
                return None
        values: dict[str, Array] = {}
        for name, shape in self._shapes.items():
            middles = [float(one.mid()) for one in np.ravel(found[name])]
            values[name] = np.array(middles, np.float64).reshape(shape)
        return values if all(np.all(np.isfinite(v)) for v in values.values()) else None


def all_met_twice(samples: Array, largest: float) -> bool:
    """Check whether every limit among the samples, (count, ...), was met at least twice. (Good, The
    population frequencies of species, 1953: the probability that another draw shows a new kind is
    about the number of kinds that were met once, divided by the number of draws.)"""
    grid: npt.NDArray[np.float64] = np.round(
        samples.reshape(len(samples), -1) / (largest or 1.0) * 2.0**SAME_LIMIT_BITS
    )
    _, counts = np.unique(grid, axis=0, return_counts=True)
    return bool(np.all(counts > 1))
