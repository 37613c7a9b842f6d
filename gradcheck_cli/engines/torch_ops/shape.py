"""Other shapes for the same elements."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.axes import axes_of, new_axes, shape_of
from gradcheck_cli.engines.lowerings import Lowering


def broadcast_to(torch: Any, x: Any, shape: Any) -> Any:
    return torch.broadcast_to(x, shape_of(shape))


def expand_dims(torch: Any, x: Any, axis: Any) -> Any:
    for dim in new_axes(axis, x.ndim):
        x = torch.unsqueeze(x, dim)
    return x


def reshape(torch: Any, x: Any, shape: Any) -> Any:
    return torch.reshape(x, shape_of(shape))


def squeeze(torch: Any, x: Any, axis: Any = None) -> Any:
    return torch.squeeze(x) if axis is None else torch.squeeze(x, dim=axes_of(axis, x.ndim))


def transpose(torch: Any, x: Any, axes: Any = None) -> Any:
    return torch.permute(x, tuple(reversed(range(x.ndim))) if axes is None else tuple(axes))


ROWS: dict[str, Lowering] = {
    "broadcast_to": broadcast_to,
    "expand_dims": expand_dims,
    "reshape": reshape,
    "squeeze": squeeze,
    "transpose": transpose,
}
