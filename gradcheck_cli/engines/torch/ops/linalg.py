"""Products of vectors, matrices and arrays of any rank."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import pair_of_axes
from gradcheck_cli.engines.kit.lowerings import Lowering


def cross(torch: Any, x1: Any, x2: Any, axis: int = -1) -> Any:
    """It broadcasts, but not between different numbers of axes."""
    rank = max(x1.ndim, x2.ndim)
    x1, x2 = (x[(None,) * (rank - x.ndim)] for x in (x1, x2))
    return torch.linalg.cross(x1, x2, dim=axis)


def dot(torch: Any, x1: Any, x2: Any) -> Any:
    """numpy.dot: torch.dot takes vectors only."""
    if x1.ndim == 0 or x2.ndim == 0:
        return x1 * x2
    if x1.ndim == x2.ndim == 1:
        return torch.dot(x1, x2)
    if x2.ndim <= 2:
        return torch.matmul(x1, x2)
    return torch.tensordot(x1, x2, dims=([-1], [-2]))


def einsum(torch: Any, *xs: Any, subscripts: str) -> Any:
    return torch.einsum(subscripts, *xs)


def tensordot(torch: Any, x1: Any, x2: Any, axes: Any = 2) -> Any:
    return torch.tensordot(x1, x2, dims=pair_of_axes(axes))


ROWS: dict[str, Lowering] = {
    "cross": cross,
    "dot": dot,
    "einsum": einsum,
    "kron": "kron",
    "matmul": "matmul",
    "outer": "outer",
    "tensordot": tensordot,
}
