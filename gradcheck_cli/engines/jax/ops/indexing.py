"""Taking arrays apart and putting them together."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def concatenate(jax: Any, *xs: Any, axis: int = 0) -> Any:
    return jax.numpy.concatenate(xs, axis=axis)


def stack(jax: Any, *xs: Any, axis: int = 0) -> Any:
    return jax.numpy.stack(xs, axis=axis)


def getitem(jax: Any, x: Any, index: tuple[Any, ...]) -> Any:
    return x[index]


def take(jax: Any, x: Any, indices: Any, axis: int | None = None) -> Any:
    return jax.numpy.take(x, indices, axis=axis or 0)


def take_along_axis(jax: Any, x: Any, indices: Any, axis: int = -1) -> Any:
    return jax.numpy.take_along_axis(x, indices, axis=axis)


def scatter_add(jax: Any, x: Any, indices: Any, updates: Any, axis: int = -1) -> Any:
    ranges = [jax.numpy.arange(n) for n in indices.shape]
    places = list(jax.numpy.meshgrid(*ranges, indexing="ij"))
    places[axis] = indices
    return x.at[tuple(places)].add(updates)


def one_hot(jax: Any, indices: Any, num_classes: int, axis: int = -1, dtype: Any = None) -> Any:
    return jax.nn.one_hot(indices, num_classes, axis=axis, dtype=dtype)


ROWS: dict[str, Lowering] = {
    "concatenate": concatenate,
    "getitem": getitem,
    "one_hot": one_hot,
    "scatter_add": scatter_add,
    "stack": stack,
    "take": take,
    "take_along_axis": take_along_axis,
}
