"""Along which directions gradients are compared: all of them, or a few that are drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from zlib import crc32

import numpy as np

from gradcheck_cli.domain.draws import direction
from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.evaluation import Projection
from gradcheck_cli.domain.scale import tangent_scale
from gradcheck_cli.domain.spec import Spec

FULL_ENTRIES = 4096  # of a Jacobian that is computed whole
FULL_PASSES = 64  # of reverse mode (rows) or of forward mode (columns) for a whole Jacobian
FULL_SECOND = 32  # entries of all inputs for a whole Hessian
PROBES = 4  # directions in place of a whole Jacobian: two Gaussian, two of Rademacher


def projection_of(
    spec: Spec,
    kind: str,
    values: Mapping[str, Array],
    fmt: FloatFormat,
    seed: tuple[int, int, int],
) -> Projection:
    """The whole Jacobian ("reverse", "forward") or Hessian ("second order") while that is small,
    else seeded directions.

    The same seed gives the same directions in every dtype, up to rounding.
    """
    output = spec.program.nodes[spec.program.output].shape
    rows = math.prod(output)
    columns = sum(values[name].size for name in spec.wrt)
    draw = _Directions([*seed, crc32(kind.encode())], fmt)
    if kind == "reverse":
        if rows <= FULL_PASSES and rows * columns <= FULL_ENTRIES:
            return Projection()
        return Projection(rows=np.stack([draw(output, 1.0) for _ in range(PROBES)]))
    if kind == "forward":
        if columns <= FULL_PASSES and rows * columns <= FULL_ENTRIES:
            return Projection()
        return Projection(columns=_tangents(spec, values, draw))
    return Projection(
        rows=None if output == () else draw(output, 1.0)[None],
        columns=None if columns <= FULL_SECOND else _tangents(spec, values, draw),
    )


class _Directions:
    """Draws directions: Gaussian and of Rademacher in turn, exactly representable."""

    def __init__(self, seed: Sequence[int], fmt: FloatFormat) -> None:
        self._seed = seed
        self._fmt = fmt
        self._turns = itertools.count()

    @cached_property
    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self._seed)  # numpy.random costs 30 ms, and few specs need it

    def __call__(self, shape: tuple[int, ...], scale: float) -> Array:
        return self._fmt.round(direction(self._rng, shape, next(self._turns)) * scale)


def _tangents(spec: Spec, values: Mapping[str, Array], draw: _Directions) -> dict[str, Array]:
    """PROBES directions an input, each scaled by its input's size, so that none drowns another."""
    return {
        name: np.stack(
            [draw(values[name].shape, tangent_scale(values[name])) for _ in range(PROBES)]
        )
        for name in spec.wrt
    }
