"""Lengths of vectors."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import axes_of
from gradcheck_cli.engines.kit.lowerings import Lowering


def norm(torch: Any, x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    dim = None if axis is None else axes_of(axis, x.ndim)
    return torch.linalg.vector_norm(x, ord=ord, dim=dim, keepdim=keepdims)


ROWS: dict[str, Lowering] = {"norm": norm}
