"""The directions along which gradients are compared: all of them, or a few random ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from zlib import crc32

import numpy as np

from gradcheck_cli.domain.blocks import PAIRED_ENTRIES
from gradcheck_cli.domain.draws import direction
from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.evaluation import FIRST_ORDER, Mode, Projection
from gradcheck_cli.domain.scale import tangent_scale
from gradcheck_cli.domain.spec import Spec

FULL_ENTRIES = 4096  # of a Jacobian that is computed whole
FULL_PASSES = 64  # of reverse mode (rows) or of forward mode (columns) for a whole Jacobian
FULL_SECOND = 32  # entries of all inputs for a whole Hessian
PROBES = 4  # directions in place of a whole Jacobian: two Gaussian, two of Rademacher
PAIRED = 1  # directions an input where each pair of them takes a pass


def kind_of(mode: Mode, pairs_are_few: bool) -> str:
    """The kind of a mode. All modes of one kind are asked for the same numbers."""
    if mode in FIRST_ORDER:
        return mode
    alone = mode == "forward-over-forward" and not pairs_are_few
    return mode if alone else "second order"


def pairs_are_few(spec: Spec, values: Mapping[str, Array]) -> bool:
    """Whether forward over forward computes all pairs of entries."""
    return sum(values[name].size for name in spec.wrt) <= PAIRED_ENTRIES


def projection_of(
    spec: Spec, kind: str, values: Mapping[str, Array], fmt: FloatFormat, seed: tuple[int, int, int]
) -> Projection:
    """The whole Jacobian ("reverse", "forward") or Hessian ("second order") if it is small, and
    seeded directions otherwise. A Hessian by "forward-over-forward" is taken along pairs of
    directions.

    The same seed gives the same directions in every dtype, up to rounding.
    """
    output = spec.program.result.shape
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
    row = None if output == () else draw(output, 1.0)[None]
    if kind == "forward-over-forward":
        firsts, seconds = (_tangents(spec, values, draw, PAIRED) for _ in range(2))
        return Projection(row, seconds, firsts)
    return Projection(row, None if columns <= FULL_SECOND else _tangents(spec, values, draw))


def direction_along(
    spec: Spec, values: Mapping[str, Array], fmt: FloatFormat, seed: tuple[int, int, int]
) -> dict[str, Array]:
    """The direction of all inputs together for third derivatives, which are second derivatives of
    the derivative along it. It is 1 if there is a single number."""
    if sum(values[name].size for name in spec.wrt) == 1:
        return {name: np.ones(values[name].shape) for name in spec.wrt}
    draw = _Directions([*seed, crc32(b"third order")], fmt)
    return {name: draw(values[name].shape, tangent_scale(values[name])) for name in spec.wrt}


class _Directions:
    """Draws Gaussian and Rademacher directions in turn. Their entries are exactly representable."""

    def __init__(self, seed: Sequence[int], fmt: FloatFormat) -> None:
        self._seed = seed
        self._fmt = fmt
        self._turns = itertools.count()

    @cached_property
    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self._seed)  # numpy.random costs 30 ms, and few specs need it

    def __call__(self, shape: tuple[int, ...], scale: float) -> Array:
        return self._fmt.round(direction(self._rng, shape, next(self._turns)) * scale)


def _tangents(
    spec: Spec, values: Mapping[str, Array], draw: _Directions, count: int = PROBES
) -> dict[str, Array]:
    """Directions of every input, each scaled by the size of its input, so that no input dominates
    the others."""
    return {
        name: np.stack(
            [draw(values[name].shape, tangent_scale(values[name])) for _ in range(count)]
        )
        for name in spec.wrt
    }
