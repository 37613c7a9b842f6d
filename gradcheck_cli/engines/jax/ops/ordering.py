"""Elements by their size."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def argsort(jax: Any, x: Any, axis: int = -1, descending: bool = False) -> Any:
    return jax.numpy.argsort(x, axis=axis, descending=descending, stable=True)


def _top(jax: Any, x: Any, k: int, axis: int, largest: bool) -> tuple[Any, Any]:
    """jax.lax.top_k takes the largest."""
    values, indices = jax.lax.top_k(x if largest else -x, k, axis=axis % x.ndim)
    return (values if largest else -values), indices.astype("int64")


def topk_values(jax: Any, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    return _top(jax, x, k, axis, largest)[0]


def topk_indices(jax: Any, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    return _top(jax, x, k, axis, largest)[1]


ROWS: dict[str, Lowering] = {
    "argsort": argsort,
    "median": "numpy.median",
    "sort": "numpy.sort",
    "topk_indices": topk_indices,
    "topk_values": topk_values,
}
