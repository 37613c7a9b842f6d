"""Primitives of linear algebra. The signs of factors and the row exchanges of pivoting are taken
from the run."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.engines.trace.exact_kernels import (
    Kernel,
    OfRun,
    eliminated,
    exchanged,
    qr,
    row,
    svd,
    towards,
    transposed,
)


def _triangular_solve(a: Any, b: Any, **how: Any) -> Any:
    lower = how["lower"]
    a = row("tril" if lower else "triu")(a, k=(-1 if lower else 1) * bool(how["unit_diagonal"]))
    a = a + np.eye(a.shape[-1]) if how["unit_diagonal"] else a
    if how["transpose_a"]:
        a, lower = transposed(a), not lower
    if how["left_side"]:
        return row("triangular_solve")(a, b, lower=lower)
    return transposed(row("triangular_solve")(transposed(a), transposed(b), lower=not lower))


def _lu(run: OfRun, x: Any, **how: Any) -> Any:
    """Both factors in one matrix, and the row exchanges."""
    return eliminated(exchanged(x, run.results[2])), None, None


def _qr(run: OfRun, x: Any, *, full_matrices: bool, **how: Any) -> Any:
    return qr(x, run.results[1], full_matrices)


def _svd(run: OfRun, x: Any, *, full_matrices: bool, compute_uv: bool, **how: Any) -> Any:
    if not compute_uv:
        return row("svdvals")(x)
    u, values, vh = svd(x, full_matrices, *run.results[1:])
    return values, u, vh


def _eigh(run: OfRun, x: Any, **how: Any) -> Any:
    return towards(row("eigh_vectors")(x), run.results[0], -2), row("eigvalsh")(x)


def _cholesky(run: OfRun, x: Any, **how: Any) -> Any:
    """The factor. The triangle above it keeps its old entries if the run did not clear them."""
    y = row("cholesky")(x)
    return y + row("triu")(x, k=1) if np.any(np.triu(run.results[0], 1)) else y


MATRICES: dict[str, Kernel] = {"triangular_solve": _triangular_solve}

CHOSEN: dict[str, Kernel] = {
    "cholesky": _cholesky,
    "lu": _lu,
    "qr": _qr,
    "svd": _svd,
    "eigh": _eigh,
}
