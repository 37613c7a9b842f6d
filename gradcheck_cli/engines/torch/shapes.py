"""Rows of the op table (`ops`) that move elements: shapes, indices, order."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import axes_of, from_the_start, new_axes, restored, widths_of

# Arrays made from their shape alone


def eye(torch: Any, n: int, m: int | None, k: int, dtype: Any) -> Any:
    columns = n if m is None else m
    if k == 0:
        return torch.eye(n, columns, dtype=dtype)
    return (torch.arange(columns) - torch.arange(n)[:, None] == k).to(dtype)


# Taking arrays apart and putting them together


def getitem(torch: Any, x: Any, index: tuple[Any, ...]) -> Any:
    """Index x. PyTorch's slices only have positive steps, so an axis with a negative step is
    flipped first."""
    used = sum(part is not None and part is not Ellipsis for part in index)
    axis = 0
    parts: list[Any] = []
    for part in index:
        if part is Ellipsis:
            axis += x.ndim - used
        elif isinstance(part, slice) and part.step is not None and part.step < 0:
            size = x.shape[axis]
            places = range(*part.indices(size))
            x = torch.flip(x, (axis,))
            first = size - 1 - places.start
            part = slice(first, first + len(places) * -part.step, -part.step)
            axis += 1
        elif part is not None:
            axis += 1
        parts.append(part)
    return x[tuple(parts)]


def take(torch: Any, x: Any, indices: Any, axis: int | None) -> Any:
    return x[(*(slice(None),) * ((axis or 0) % x.ndim), indices)]


def take_along_axis(torch: Any, x: Any, indices: Any, axis: int) -> Any:
    return torch.take_along_dim(x, from_the_start(torch, indices, x.shape[axis]), dim=axis)


def scatter_add(torch: Any, x: Any, indices: Any, updates: Any, axis: int) -> Any:
    return torch.scatter_add(x, axis, from_the_start(torch, indices, x.shape[axis]), updates)


def one_hot(torch: Any, indices: Any, num_classes: int, axis: int, dtype: Any) -> Any:
    """One-hot vectors. torch.nn.functional.one_hot raises for indices outside the classes, and
    returns integers."""
    place = axis % (indices.ndim + 1)
    classes = torch.arange(num_classes).reshape(-1, *(1,) * (indices.ndim - place))
    return (indices.unsqueeze(place) == classes).to(dtype)


# Order statistics


def median(torch: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """The mean of the two middle elements, found by sorting: torch.median takes the lower one."""
    axes = axes_of(axis, x.ndim)
    kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    moved = torch.movedim(x, axes, tuple(range(x.ndim - len(axes), x.ndim)))
    ordered = torch.sort(moved.flatten(len(kept)) if axes else moved[None], dim=-1).values
    n = ordered.shape[-1]
    y = 0.5 * ordered[..., (n - 1) // 2] + 0.5 * ordered[..., n // 2]
    last = ordered[..., -1]
    y = torch.where(last != last, last, y)  # sorting puts nan last
    return y.reshape(restored(x.shape, axes)) if keepdims else y.reshape(kept)


# Other shapes for the same elements


def expand_dims(torch: Any, x: Any, axis: Any) -> Any:
    for dim in new_axes(axis, x.ndim):
        x = torch.unsqueeze(x, dim)
    return x


def squeeze(torch: Any, x: Any, axis: Any) -> Any:
    return torch.squeeze(x) if axis is None else torch.squeeze(x, dim=axes_of(axis, x.ndim))


def transpose(torch: Any, x: Any, axes: Any) -> Any:
    return torch.permute(x, tuple(reversed(range(x.ndim))) if axes is None else tuple(axes))


def flip(torch: Any, x: Any, axis: Any) -> Any:
    return torch.flip(x, axes_of(axis, x.ndim))


def repeat(torch: Any, x: Any, repeats: Any, axis: int | None) -> Any:
    times = repeats if isinstance(repeats, int) else torch.tensor(repeats, dtype=torch.int64)
    return torch.repeat_interleave(x, times, dim=axis)


def pad(torch: Any, x: Any, pad_width: Any, value: float) -> Any:
    """Pad x. torch.nn.functional.pad counts the axes from the last."""
    widths = reversed(widths_of(pad_width, x.ndim))
    flat = [width for pair in widths for width in pair]
    return torch.nn.functional.pad(x, flat, value=value)


def trace(torch: Any, x: Any, offset: int) -> Any:
    """The trace of a stack of matrices along any diagonal. torch.trace takes the main diagonal of
    one matrix."""
    if x.ndim == 2 and offset == 0:
        return torch.trace(x)
    return torch.diagonal(x, offset, -2, -1).sum(-1)
