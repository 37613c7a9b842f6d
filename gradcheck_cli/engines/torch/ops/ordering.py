"""Elements by their size."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import axes_of, restored
from gradcheck_cli.engines.kit.lowerings import Lowering


def sort(torch: Any, x: Any, axis: int = -1, descending: bool = False) -> Any:
    return torch.sort(x, dim=axis, descending=descending, stable=True).values


def argsort(torch: Any, x: Any, axis: int = -1, descending: bool = False) -> Any:
    return torch.argsort(x, dim=axis, descending=descending, stable=True)


def median(torch: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """torch.median takes the lower of two middle elements; their mean comes from sorting."""
    axes = axes_of(axis, x.ndim)
    kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    moved = torch.movedim(x, axes, tuple(range(x.ndim - len(axes), x.ndim)))
    ordered = torch.sort(moved.flatten(len(kept)) if axes else moved[None], dim=-1).values
    n = ordered.shape[-1]
    y = 0.5 * ordered[..., (n - 1) // 2] + 0.5 * ordered[..., n // 2]
    last = ordered[..., -1]
    y = torch.where(torch.isnan(last), last, y)
    return y.reshape(restored(x.shape, axes)) if keepdims else y.reshape(kept)


def topk_values(torch: Any, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    return torch.topk(x, k, dim=axis, largest=largest).values


def topk_indices(torch: Any, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    return torch.topk(x, k, dim=axis, largest=largest).indices


ROWS: dict[str, Lowering] = {
    "argsort": argsort,
    "median": median,
    "sort": sort,
    "topk_indices": topk_indices,
    "topk_values": topk_values,
}
