"""Points around a failing one, by the ordinals of floating-point numbers, not by their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.thresholds import Spread

# How far an entry moves, as a part of its own binade: half of the digits, or a quarter of a binade.
# Beyond that it changes its magnitude, by up to FAR_BINADES either way.
BROAD: Spread = 0.25
FAR_BINADES = 6
SIDES = 4  # one in so many far entries changes its sign


def fresh_points(
    values: Mapping[str, Array],
    moving: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
    fmt: FloatFormat,
    seed: int,
) -> Iterator[tuple[dict[str, Array], bool]]:
    """Endless: points where every floating entry of `moving` has moved, and whether they are near.

    By turns within half of the digits, within a quarter of a binade, and across magnitudes. A zero
    stays one in half of the near points, so that what happens there is not lost, and becomes a
    small number in others; an infinity becomes one of the largest numbers.
    """
    rng = generator(seed, 17)
    scales = (2.0 ** -(fmt.bits // 2), BROAD, None)
    turn = 0
    while True:
        scale = scales[turn % len(scales)]
        made = dict(values)
        for name in moving:
            x = np.asarray(values[name])
            if x.dtype.kind == "f":
                moved = _moved(x, scale, turn % 2 == 0, fmt, rng)
                low, high = bounds.get(name, (-np.inf, np.inf))
                made[name] = np.clip(fmt.round(moved), low, high)
        turn += 1
        yield made, scale is not None


def _moved(
    x: Array, scale: float | None, keep_zeros: bool, fmt: FloatFormat, rng: np.random.Generator
) -> Array:
    shift = rng.uniform(-1.0, 1.0, x.shape)
    x = np.where(np.isinf(x), np.copysign(fmt.largest * 2.0**-FAR_BINADES, x), x)
    if scale is None:
        moved = x * 2.0 ** (FAR_BINADES * shift)
        moved = np.where(rng.integers(0, SIDES, x.shape) == 0, -moved, moved)
    else:
        moved = x + scale * shift * np.abs(x)
    # a zero has no binade of its own: it becomes as small as digits beside 1 are, or as its turn is
    size = fmt.unit_roundoff if scale is None else scale
    small = np.zeros_like(x) if keep_zeros and scale is not None else size * shift
    return np.asarray(np.where(x == 0, small, moved))
