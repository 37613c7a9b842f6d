"""Taking arrays apart and putting them together."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def concatenate(torch: Any, *xs: Any, axis: int = 0) -> Any:
    return torch.cat(xs, dim=axis)


def stack(torch: Any, *xs: Any, axis: int = 0) -> Any:
    return torch.stack(xs, dim=axis)


def getitem(torch: Any, x: Any, index: tuple[Any, ...]) -> Any:
    """PyTorch's slices have positive steps only: a negative one flips that axis first."""
    used = sum(part is not None and part is not Ellipsis for part in index)
    axis = 0
    parts: list[Any] = []
    for part in index:
        if part is Ellipsis:
            axis += x.ndim - used
        elif isinstance(part, slice) and part.step is not None and part.step < 0:
            size = x.shape[axis]
            taken = range(*part.indices(size))
            x = torch.flip(x, (axis,))
            first = size - 1 - taken.start
            part = slice(first, first + len(taken) * -part.step, -part.step)
            axis += 1
        elif part is not None:
            axis += 1
        parts.append(part)
    return x[tuple(parts)]


def from_the_start(torch: Any, indices: Any, size: int) -> Any:
    """Indices from the end, which not every function of PyTorch takes, counted from the start."""
    return torch.where(indices < 0, indices + size, indices)


def take(torch: Any, x: Any, indices: Any, axis: int | None = None) -> Any:
    return x[(*(slice(None),) * ((axis or 0) % x.ndim), indices)]


def take_along_axis(torch: Any, x: Any, indices: Any, axis: int = -1) -> Any:
    return torch.take_along_dim(x, from_the_start(torch, indices, x.shape[axis]), dim=axis)


def scatter_add(torch: Any, x: Any, indices: Any, updates: Any, axis: int = -1) -> Any:
    return torch.scatter_add(x, axis, from_the_start(torch, indices, x.shape[axis]), updates)


def one_hot(torch: Any, indices: Any, num_classes: int, axis: int = -1, dtype: Any = None) -> Any:
    """torch.nn.functional.one_hot refuses indices outside the classes, and gives integers."""
    place = axis % (indices.ndim + 1)
    classes = torch.arange(num_classes).reshape(-1, *(1,) * (indices.ndim - place))
    return (indices.unsqueeze(place) == classes).to(dtype)


ROWS: dict[str, Lowering] = {
    "concatenate": concatenate,
    "getitem": getitem,
    "one_hot": one_hot,
    "scatter_add": scatter_add,
    "stack": stack,
    "take": take,
    "take_along_axis": take_along_axis,
}
