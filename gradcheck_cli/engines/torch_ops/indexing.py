"""Taking arrays apart and putting them together."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.lowerings import Lowering


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


ROWS: dict[str, Lowering] = {"concatenate": concatenate, "getitem": getitem, "stack": stack}
