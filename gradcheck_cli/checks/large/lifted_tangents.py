"""J @ direction of a layer that is too large for enclosures: forward mode of the reference engine,
on the operations that the layer's forward ran.

No kink disturbs it, and its error is rounding alone. So one direction shows what takes several
directions of finite differences. It counts if the layer has the values of these operations at the
point and a step along the direction: a term that they lack, because the layer computed it elsewhere
or chose by numbers, would show.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.certified.lifted import inputs_of
from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.layer import word_of
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import LIFTED_NOISE, Step
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.lifting import Lifted, NotLifted
from gradcheck_cli.engines.layer.recording import TooLarge
from gradcheck_cli.engines.tracebacks import raise_if_internal
from gradcheck_cli.truth.layers.projections import Projections
from gradcheck_cli.truth.layers.stairs import searches
from gradcheck_cli.truth.numerics.differences import Estimate, Float
from gradcheck_cli.truth.numerics.probes import moves
from gradcheck_cli.truth.tangents import value_and_tangent, value_of

# Of a direction, whose entries are about as large as those of the leaves. The longer it is, the
# less of a missing term is hidden by rounding; both sides cross the same kinks.
STEP: Step = 2.0**-8
STAIRS = frozenset(("ceil", "floor", "floor_divide", "round"))
"""Operations whose derivative of 0 holds on one stair. Differences see how high the stairs are."""


@dataclass(slots=True)
class LiftedTangents:
    """The tangents of a lifted layer along the directions of `truth`."""

    lifted: Lifted
    truth: Projections

    def along(self, number: int) -> Estimate | None:
        """J @ direction (m,), with the usual size of a term of each output that the operations may
        lack; None if they have other values than the layer."""
        truth, program = self.truth, self.lifted.program
        along = {n: w for n, w in truth.narrow_direction(number).items() if moves(w)}
        point = truth.beside(along, STEP)
        if point is None:
            return None
        there = value_of(program, self._inputs(point))
        off_there = self._off(truth.value(point), there)  # the layer may write to the point
        del there
        for name in point:
            point[name].reshape(-1)[:] = along.pop(name)
        truth.let_go()  # frees its memory for the values of the leaves
        tangents = {word_of(name): tangent for name, tangent in point.items()}
        here, tangent = value_and_tangent(program, self._inputs({}), tangents)
        off_here = self._off(truth.output, here)
        rounding = max(_usual(off_here), _usual(truth.noise(None)))
        unseen = LIFTED_NOISE * rounding
        if not _usual(off_there - off_here) <= unseen:
            return None
        known = np.where(truth.known, tangent.reshape(-1), 0.0)
        return Estimate(known, np.full(known.shape, unseen / STEP))

    def at(self, point: Values, along: Mapping[str, Float]) -> Float:
        """J @ `along` (m,), parts (n,) of a direction by leaf, where some leaves are at `point`."""
        shapes = {leaf.name: leaf.shape for leaf in self.truth.leaves}
        tangents = {
            word_of(name): np.asarray(part, np.float64).reshape(shapes[name])
            for name, part in along.items()
        }
        _, tangent = value_and_tangent(self.lifted.program, self._inputs(point), tangents)
        return np.where(self.truth.known, tangent.reshape(-1), 0.0)

    def _off(self, layer: Array, program: Array) -> Array:
        """How far the values of the operations are off, (m,)."""
        return np.where(self.truth.known, layer - program.reshape(-1), 0.0)

    def _inputs(self, moved: Values) -> dict[str, Array]:
        return inputs_of(self.truth.subject, self.lifted.constants, moved)


def _usual(values: Array) -> float:
    """The root mean square."""
    return float(np.sqrt(np.mean(np.square(values))))


def lifted_tangents(layer: BoundLayer, truth: Projections) -> LiftedTangents | None:
    """The tangents of the layer; None if its forward cannot be written in rows, or has stairs."""
    if layer.highest.digits != "float64":
        return None
    try:
        lifted = layer.highest.lift().without_islands()
    except (NotLifted, TooLarge, Unsupported):
        return None
    except Exception as error:  # it does not run while watched; differences meet other exceptions
        raise_if_internal(error)
        return None
    finally:
        truth.ran()
    program = lifted.program
    stairs = any(node.op in STAIRS for node in program.nodes)
    moving = [word_of(leaf.name) for leaf in truth.leaves]
    return None if stairs or searches(program, moving) else LiftedTangents(lifted, truth)
