"""Kernels of complex numbers: each is a pair along a last axis, the real and the imaginary part.

A transform is a product with the matrix of all its waves, whose cosines are exact: 0 and 1 are no
roundings, and the others are rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.engines.trace.exact_kernels import Kernel, row

Turns = np.ndarray[Any, np.dtype[np.int64]]
"""Angles, in parts of a whole turn."""


def _pair(re: Any, im: Any) -> Any:
    shape = np.broadcast_shapes(re.shape, im.shape)
    return row("stack")(*(row("broadcast_to")(x, shape=shape) for x in (re, im)), axis=-1)


def _parts(x: Any) -> tuple[Any, Any]:
    return row("getitem")(x, index=(..., 0)), row("getitem")(x, index=(..., 1))


def _beside(x: Any, number: float) -> Any:
    """The number, (1,), as a row of the run that has `x`: what is computed of it is exact, and
    nothing of it moves with `x`."""
    one = row("getitem")(row("reshape")(x, shape=(-1,)), index=slice(0, 1))
    return row("full_like")(row("stop_gradient")(one), fill_value=number)


def _cosines(x: Any, turns: Turns, whole: int) -> Any:
    """cos(2 pi turns / whole). `x` is any array of the run: the constants become rows beside it."""
    distinct, places = np.unique(np.minimum(turns % whole, -turns % whole), return_inverse=True)
    simple = {0: 1.0, whole / 6: 0.5, whole / 4: 0.0, whole / 3: -0.5, whole / 2: -1.0}
    known = np.array([turn in simple for turn in distinct])
    values = np.array([simple.get(turn, np.nan) for turn in distinct])
    if known.all():
        return values[places].reshape(turns.shape)
    angles = row("acos")(_beside(x, -1.0)) * (2.0 * distinct) / float(whole)
    all_values = row("where")(known, values, row("cos")(angles))
    return row("reshape")(row("take")(all_values, places.reshape(-1), axis=0), shape=turns.shape)


def _turns(taken: Sequence[int], given: Sequence[int], sizes: Sequence[int]) -> tuple[Turns, int]:
    """Of every place that goes in and every one that comes out the angle between them."""
    whole = math.lcm(*sizes)
    turns: Turns = np.zeros((1, 1), np.int64)
    for n, first, last in zip(sizes, taken, given, strict=True):
        own = np.outer(np.arange(first), np.arange(last)) * (whole // n)
        turns = (turns[:, None, :, None] + own[None, :, None, :]).reshape(
            turns.shape[0] * first, turns.shape[1] * last
        )
    return turns, whole


class _Transform:
    """The matrix between the axes `dim` of an array of so many axes, of these sizes going in and
    coming out, for signals of the lengths `sizes`."""

    def __init__(
        self, x: Any, ndim: int, dim: Sequence[int], given: Sequence[int], sizes: Sequence[int]
    ) -> None:
        self._dim = [d % ndim for d in dim]
        self._outer = [i for i in range(ndim) if i not in self._dim]
        self._given = given
        taken = [x.shape[d] for d in self._dim]
        turns, whole = _turns(taken, given, sizes)
        self.cos = _cosines(x, turns, whole)
        self.sin = _cosines(x, 4 * turns - whole, 4 * whole)

    def flat(self, x: Any) -> Any:
        """The axes of the transform as one, the last."""
        moved = row("transpose")(x, axes=(*self._outer, *self._dim))
        return row("reshape")(moved, shape=(*(x.shape[i] for i in self._outer), -1))

    def back(self, y: Any) -> Any:
        y = row("reshape")(y, shape=(*y.shape[:-1], *self._given))
        order = np.argsort([*self._outer, *self._dim])
        return row("transpose")(y, axes=tuple(int(i) for i in order))


def _scaled(x: Any, y: Any, normalization: int, count: int) -> Any:
    """PyTorch's codes: 0 is none, 1 by the root of the number of elements, 2 by the number."""
    if normalization == 0:
        return y
    if normalization == 2:
        return y / float(count)
    return y / row("sqrt")(_beside(x, float(count)))


def _of_real(x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    sizes = [x.shape[d] for d in dim]
    given = [*sizes[:-1], sizes[-1] // 2 + 1] if onesided else sizes
    transform = _Transform(x, x.ndim, dim, given, sizes)
    flat = transform.flat(x)
    re = transform.back(row("matmul")(flat, transform.cos))
    im = transform.back(-row("matmul")(flat, transform.sin))
    return _scaled(x, _pair(re, im), normalization, math.prod(sizes))


def _of_complex(x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    sizes = [x.shape[d % (x.ndim - 1)] for d in dim]
    transform = _Transform(x, x.ndim - 1, dim, sizes, sizes)
    re, im = (transform.flat(part) for part in _parts(x))
    cos, sin = transform.cos, transform.sin if forward else -transform.sin
    y_re = row("matmul")(re, cos) + row("matmul")(im, sin)
    y_im = row("matmul")(im, cos) - row("matmul")(re, sin)
    y = _pair(transform.back(y_re), transform.back(y_im))
    return _scaled(x, y, normalization, math.prod(sizes))


def _to_real(x: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    """Of the half of a transform; of what is its own mirror image, the real part counts."""
    dim = [d % (x.ndim - 1) for d in dim]
    sizes = [*(x.shape[d] for d in dim[:-1]), last_dim_size]
    half = row("getitem")(x, index=(*(slice(None),) * dim[-1], slice(0, last_dim_size // 2 + 1)))
    transform = _Transform(half, x.ndim - 1, dim, sizes, sizes)
    twice = np.full(last_dim_size // 2 + 1, 2.0)
    twice[0] = 1.0
    if last_dim_size % 2 == 0:
        twice[-1] = 1.0
    weights = np.tile(twice, math.prod(x.shape[d] for d in dim[:-1]))
    re, im = (transform.flat(part) * weights for part in _parts(half))
    y = row("matmul")(re, transform.cos) - row("matmul")(im, transform.sin)
    return _scaled(x, transform.back(y), normalization, math.prod(sizes))


FOURIER: dict[str, Kernel] = {
    "_fft_r2c": _of_real,
    "_fft_c2c": _of_complex,
    "_fft_c2r": _to_real,
    "complex": _pair,
}
