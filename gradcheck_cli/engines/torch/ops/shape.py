"""Other shapes for the same elements."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import axes_of, new_axes, shape_of, widths_of
from gradcheck_cli.engines.kit.lowerings import Lowering


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


def moveaxis(torch: Any, x: Any, source: Any, destination: Any) -> Any:
    return torch.movedim(x, source, destination)


def flip(torch: Any, x: Any, axis: Any = None) -> Any:
    return torch.flip(x, axes_of(axis, x.ndim))


def roll(torch: Any, x: Any, shift: Any, axis: Any = None) -> Any:
    return torch.roll(x, shift, dims=axis)


def tile(torch: Any, x: Any, reps: Any) -> Any:
    return torch.tile(x, shape_of(reps))


def repeat(torch: Any, x: Any, repeats: Any, axis: int | None = None) -> Any:
    times = repeats if isinstance(repeats, int) else torch.tensor(repeats, dtype=torch.int64)
    return torch.repeat_interleave(x, times, dim=axis)


def pad(torch: Any, x: Any, pad_width: Any, value: float = 0.0) -> Any:
    """torch.nn.functional.pad counts the axes from the last."""
    widths = reversed(widths_of(pad_width, x.ndim))
    flat = [width for pair in widths for width in pair]
    return torch.nn.functional.pad(x, flat, value=value)


def tril(torch: Any, x: Any, k: int = 0) -> Any:
    return torch.tril(x, diagonal=k)


def triu(torch: Any, x: Any, k: int = 0) -> Any:
    return torch.triu(x, diagonal=k)


def diag(torch: Any, x: Any, k: int = 0) -> Any:
    return torch.diag(x, diagonal=k)


def trace(torch: Any, x: Any, offset: int = 0) -> Any:
    """torch.trace takes the main diagonal of one matrix."""
    if x.ndim == 2 and offset == 0:
        return torch.trace(x)
    return torch.diagonal(x, offset, -2, -1).sum(-1)


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
    "squeeze": squeeze,
    "tile": tile,
    "trace": trace,
    "transpose": transpose,
    "tril": tril,
    "triu": triu,
}
