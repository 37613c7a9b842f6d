"""Other shapes for the same elements."""

from __future__ import annotations

from math import prod
from typing import Any

from gradcheck_cli.engines.kit.axes import axes_of, moved_axes, new_axes, shape_of, widths_of
from gradcheck_cli.engines.kit.lowerings import Lowering


def broadcast_to(tf: Any, x: Any, shape: Any) -> Any:
    return tf.broadcast_to(x, shape_of(shape))


def expand_dims(tf: Any, x: Any, axis: Any) -> Any:
    for a in new_axes(axis, x.shape.rank):
        x = tf.expand_dims(x, a)
    return x


def reshape(tf: Any, x: Any, shape: Any) -> Any:
    return tf.reshape(x, shape_of(shape))


def transpose(tf: Any, x: Any, axes: Any = None) -> Any:
    """tf.transpose takes axes counted from the end, but its gradient does not."""
    return tf.transpose(x, perm=None if axes is None else [a % x.shape.rank for a in axes])


def moveaxis(tf: Any, x: Any, source: Any, destination: Any) -> Any:
    return tf.transpose(x, perm=moved_axes(source, destination, x.shape.rank))


def flattened(tf: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """x with those axes as one, the last."""
    rank = x.shape.rank
    order = (*(i for i in range(rank) if i not in axes), *axes)
    kept = [x.shape[i] for i in order[: rank - len(axes)]]
    count = prod(x.shape[i] for i in axes)
    return tf.reshape(tf.transpose(x, perm=order), [*kept, count])


def flip(tf: Any, x: Any, axis: Any = None) -> Any:
    return tf.reverse(x, axes_of(axis, x.shape.rank))


def roll(tf: Any, x: Any, shift: Any, axis: Any = None) -> Any:
    """tf.roll needs an axis."""
    if axis is None:
        return tf.reshape(tf.roll(tf.reshape(x, [-1]), shift, 0), x.shape)
    return tf.roll(x, shift, axis)


def tile(tf: Any, x: Any, reps: Any) -> Any:
    """tf.tile wants a number for each axis."""
    times = shape_of(reps)
    rank = max(len(times), x.shape.rank)
    x = tf.reshape(x, [*(1,) * (rank - x.shape.rank), *x.shape])
    return tf.tile(x, [*(1,) * (rank - len(times)), *times])


def repeat(tf: Any, x: Any, repeats: Any, axis: int | None = None) -> Any:
    return tf.repeat(x, repeats, axis)


def pad(tf: Any, x: Any, pad_width: Any, value: float = 0.0) -> Any:
    return tf.pad(x, widths_of(pad_width, x.shape.rank), constant_values=value)


def _distance(tf: Any, x: Any) -> Any:
    """How far an element of the matrices lies above the main diagonal."""
    rows, columns = x.shape[-2:]
    return tf.range(columns)[None, :] - tf.range(rows)[:, None]


def tril(tf: Any, x: Any, k: int = 0) -> Any:
    """tf.linalg.band_part always keeps the main diagonal."""
    if k >= 0:
        return tf.linalg.band_part(x, -1, min(k, x.shape[-1]))
    return tf.where(_distance(tf, x) <= k, x, tf.zeros_like(x))


def triu(tf: Any, x: Any, k: int = 0) -> Any:
    """tf.linalg.band_part always keeps the main diagonal."""
    if k <= 0:
        return tf.linalg.band_part(x, min(-k, x.shape[-2]), -1)
    return tf.where(_distance(tf, x) >= k, x, tf.zeros_like(x))


def diag(tf: Any, x: Any, k: int = 0) -> Any:
    return tf.linalg.diag(x, k=k) if x.shape.rank == 1 else tf.linalg.diag_part(x, k=k)


def trace(tf: Any, x: Any, offset: int = 0) -> Any:
    """tf.linalg.trace takes the main diagonal."""
    if offset == 0:
        return tf.linalg.trace(x)
    on_it = tf.where(_distance(tf, x) == offset, x, tf.zeros_like(x))
    return tf.reduce_sum(on_it, axis=[-2, -1])


ROWS: dict[str, Lowering] = {
    "broadcast_to": broadcast_to,
    "diag": diag,
    "expand_dims": expand_dims,
    "flip": flip,
    "moveaxis": moveaxis,
    "pad": pad,
    "repeat": repeat,
    "reshape": reshape,
    "roll": roll,
    "squeeze": "squeeze",
    "tile": tile,
    "trace": trace,
    "transpose": transpose,
    "tril": tril,
    "triu": triu,
}
