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


def is_solved_by_factors(params: Any) -> bool:
    """Whether a `custom_linear_solve` takes the LU factors of one matrix, by which its `matvec`
    multiplies, as that of `jax.numpy.linalg.solve` and `inv` does."""
    lengths, program = params["const_lengths"], params["jaxprs"]
    of_factors = [e.params.get("name") for e in program.solve.jaxpr.eqns] == ["_lu_solve"]
    return of_factors and lengths.matvec == 1 and _contracted(program.matvec.jaxpr) is not None


def _contracted(matvec: Any) -> int | None:
    """The axis of the matrix, the first variable, that is summed over in its product with rows of
    vectors, the second one; None if it is no such product."""
    a, b = matvec.invars
    first, *rest = matvec.eqns
    if first.primitive.name != "dot_general" or set(first.invars) != {a, b}:
        return None
    summed, batches = first.params["dimension_numbers"]
    mine = first.invars.index(a)
    names = [e.primitive.name for e in rest if e.primitive.name != "reduce_sum" or e.params["axes"]]
    in_rows = names == ["transpose"] * (1 - mine)  # of the product, too
    plain = a.aval.ndim == b.aval.ndim == 2 and tuple(summed[1 - mine]) == (1,)
    return int(summed[mine][0]) if in_rows and plain and not any(batches) else None


def solved(a: Any, b: Any, *, jaxprs: Any, **how: Any) -> Any:
    """The solutions of A x = b, for the rows of b: A is the matrix, or its transpose, by which the
    `matvec` of a `custom_linear_solve` multiplies."""
    a = a if _contracted(jaxprs.matvec.jaxpr) == 1 else transposed(a)
    return transposed(row("solve")(a, transposed(b)))


def _lu(run: OfRun, x: Any, **how: Any) -> Any:
    """Both factors in one matrix, and the row exchanges."""
    return eliminated(exchanged(x, run.results[2])), None, None


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
    "qr": lambda run, x, *, full_matrices, **how: qr(x, run.results[1], full_matrices),
    "svd": _svd,
    "eigh": _eigh,
}
