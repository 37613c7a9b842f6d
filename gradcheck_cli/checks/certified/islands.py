"""Operations of a lifted layer that no row states: their Jacobians by differences, with bars."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.thresholds import OPERATIONS
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.engines.layer.lifting import Island, Lifted
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.numerics.directions import Sampled, Values
from gradcheck_cli.truth.numerics.noise import from_size, measured_of_layer

X = "x"  # the only input of an island, as a function


def with_islands(lifted: Lifted) -> tuple[Lifted, dict[str, Array]]:
    """The program with the Jacobian of each island, and by name how far constants may be off.
    Raises NotLifted for an island without an input, on a kink, with another number of results
    nearby, or where no difference says anything."""
    constants, radii = dict(lifted.constants), {}
    for island in lifted.islands:
        jacobian, bars, noise = _jacobian(island, constants[island.value])
        constants[island.jacobian], radii[island.jacobian] = jacobian, bars
        radii[island.value] = noise
    return replace(lifted, constants=constants), radii


def _jacobian(island: Island, value: Float) -> tuple[Array, Array, Float]:
    """The Jacobian (m, n), its bars, and the rounding of the value (m,)."""

    def function(at: Values) -> Float:
        result = island.call(at[X])
        if result.shape != value.shape:  # as of `unique`, where two of its inputs were equal
            raise island.refusal
        return result

    if not island.at.size:
        raise island.refusal
    noise, _ = measured_of_layer(function, {X: island.at}, value, exact=False, dtype="float64")
    noise = np.fmax(2 * noise, from_size(value, OPERATIONS))

    def noise_of(at: Values, y: Float) -> Float:
        return noise + from_size(y - value, OPERATIONS)

    sampled = Sampled(function, {X: island.at}, {}, noise, value, noise_of)
    with np.errstate(all="ignore"):
        slopes = [sampled.along_entry(X, flat) for flat in range(island.at.size)]
    kinds = np.stack([slope.sides.kind for slope in slopes])
    bars = np.stack([slope.estimate.error for slope in slopes], axis=1)
    if np.any(kinds != PointKind.SMOOTH) or not np.all(np.isfinite(bars)):
        raise island.refusal
    return np.stack([slope.estimate.value for slope in slopes], axis=1), bars, noise
