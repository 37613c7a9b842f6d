"""The truth about a callable of which nothing is known but its values: differences of them in the
highest precision that it runs in, and the gradient in that precision where they confirm it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.truth import PointKind, Truth, TruthBlock
from gradcheck_cli.engines.callables.subject import Call, Subject
from gradcheck_cli.truth.blocks import Differences, merge
from gradcheck_cli.truth.differences import Float
from gradcheck_cli.truth.directions import Sampled, Values
from gradcheck_cli.truth.halving import ENTRY_LIMIT, confirm
from gradcheck_cli.truth.noise import from_size, measured

DRAWS = 4  # of random signs, along which inputs are moved to see how far the gradient moves
MOVE = 2.0**-20  # of each number: far above the rounding of float64, far below what bends a layer
OPERATIONS = 16  # whose rounding is granted at the size of the value, where measuring finds none
FROM_REVERSE = "reverse"


@dataclass
class CallableTruth:
    """What is known of one subject at its own leaves, computed when it is asked for.

    `rows` (k, m) are cotangents in place of the whole Jacobian; None: every output by itself.
    `dtype` is the one that is judged; the subject runs in its own.
    """

    subject: Subject
    rows: Array | None
    bounds: Mapping[str, tuple[float, float]]
    dtype: str
    seed: int
    gradients: Mapping[str, Array] = field(default_factory=dict)
    evaluations: int = 0

    def __post_init__(self) -> None:
        self.values = {leaf.name: leaf.value for leaf in self.subject.leaves}
        self.moving = [leaf for leaf in self.subject.leaves if leaf.moves]
        self.output = self.subject.value({})
        self.identity = self.rows is None
        self.cotangents = np.eye(self.output.size) if self.rows is None else self.rows
        self.gradients = self._pulled({}, self.cotangents)

    def _pulled(self, values: Values, rows: Array) -> dict[str, Array]:
        """(k, n) a leaf; zeros where the layer gives no gradient: the differences tell."""
        ran = self.subject.run(Call(values, rows))
        return {
            leaf.name: np.zeros((len(rows), leaf.size)) if found is None else found
            for leaf in self.moving
            for found in (ran.gradients.get(leaf.name),)
        }

    def function(self, at: Values) -> Float:
        """The flattened output, or its products with the rows, where `at` has other leaves."""
        self.evaluations += 1
        moved = {name: v for name, v in at.items() if v is not self.values[name]}
        output = self.subject.value(moved)
        return output if self.identity else self.cotangents @ output

    def sampled(self) -> tuple[Sampled, Sampled]:
        """For steps that are taken exactly, and for steps that are rounded."""
        zero = self.function(self.values)
        floats = {n: v for n, v in self.values.items() if v.dtype.kind == "f"}
        least = from_size(zero, OPERATIONS)
        noise = np.fmax(least, measured(self.function, floats, zero))
        uneven = np.fmax(2 * noise, measured(self.function, floats, zero, exact=False))

        def with_noise(here: Float) -> Sampled:
            def noise_of(at: Values, y: Float) -> Float:
                with np.errstate(all="ignore"):
                    return here + from_size(y - zero, OPERATIONS)

            return Sampled(self.function, self.values, self.bounds, here, zero, noise_of)

        return with_noise(noise), with_noise(uneven)

    def truth(self, modes: Mapping[Mode, Mapping[str, Array] | None]) -> Truth:
        """Blocks of every mode: the value is the directions of forward mode, by leaf, or None."""
        started = time.perf_counter()
        blocks: dict[tuple[str, str], TruthBlock] = {}
        reasons: dict[tuple[str, str], str] = {}
        exact, rounded = self.sampled()
        costs = self._conditioning()
        found = self._differences(exact, rounded)
        for leaf in self.moving:
            block, reason = self._block(leaf.name, found[leaf.name], costs[leaf.name])
            for mode in modes:
                blocks[mode, leaf.name] = block
                if reason:
                    reasons[mode, leaf.name] = reason
        return Truth(
            dtype=self.dtype,
            output=self.output,
            output_error=np.fmax(from_size(self.output, OPERATIONS), 0.0),
            blocks=blocks,
            reasons=reasons,
            forward=self.evaluations,
            duration_s=time.perf_counter() - started,
        )

    def _differences(self, exact: Sampled, rounded: Sampled) -> dict[str, Differences]:
        count = len(self.cotangents)
        result = {leaf.name: Differences.empty(count, leaf.size) for leaf in self.moving}
        if sum(leaf.size for leaf in self.moving) > ENTRY_LIMIT:
            confirm(self.gradients, result, exact, rounded, self.seed)
            return result
        for leaf in self.moving:
            gradient = self.gradients[leaf.name]
            for column in range(leaf.size):
                slope = exact.along_entry(leaf.name, column, gradient[:, column])
                result[leaf.name].put(column, slope)
        return result

    def _conditioning(self) -> dict[str, Array]:
        """How far half an ulp of every number moves the gradient, by leaf (k, n): the mean square
        over moves of all leaves and cotangents along random signs."""
        rng = np.random.default_rng([self.seed, 5])
        unit = FORMATS[self.dtype].unit_roundoff
        sums = {name: np.zeros(g.shape) for name, g in self.gradients.items()}
        for _ in range(DRAWS):
            moved = {
                leaf.name: leaf.value * (1 + MOVE * _signs(rng, leaf.value.shape))
                for leaf in self.moving
            }
            rows = self.cotangents * (1 + MOVE * _signs(rng, self.cotangents.shape))
            with np.errstate(all="ignore"):
                for name, there in self._pulled(moved, rows).items():
                    sums[name] += ((there - self.gradients[name]) * (unit / MOVE)) ** 2
        return {name: np.sqrt(total / DRAWS) for name, total in sums.items()}

    def _block(self, name: str, differences: Differences, cost: Array) -> tuple[TruthBlock, str]:
        gradient = self.gradients[name]
        ulp = FORMATS[self.dtype].ulp(gradient)
        # what rounding costs in the subject's own precision
        own = cost * (FORMATS[self.subject.dtype].unit_roundoff / FORMATS[self.dtype].unit_roundoff)
        spread = 4 * FORMATS[self.subject.dtype].ulp(gradient)
        merged = merge(gradient, spread, differences, True, ulp, lambda: (own, own))
        merged.confirmed &= merged.kind == PointKind.SMOOTH
        known = np.where(np.isfinite(cost), cost, 0.0)
        taken = ~np.isnan(differences.value)
        block = TruthBlock(
            value=merged.value,
            error=merged.error,
            difference=differences.value,
            difference_error=np.where(taken, differences.error, np.nan),
            kind=merged.kind,
            lower=merged.lower,
            upper=merged.upper,
            condition=known,
            allowance=known,
            floor=known,
            stated=merged.value,
            scale=np.where(differences.vouched, np.inf, differences.steepest),
            confirmed=merged.confirmed,
            certified=np.zeros(gradient.shape, dtype=np.bool_),
        )
        return block, merged.reason


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return 2.0 * rng.integers(0, 2, shape) - 1.0
