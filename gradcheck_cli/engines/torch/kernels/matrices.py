"""Kernels of linear algebra. The signs of factors and the row exchanges of pivoting are taken from
the run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradcheck_cli.engines.torch.kernels.elementwise import scaled
from gradcheck_cli.engines.trace import exact_kernels as exact
from gradcheck_cli.engines.trace.exact_kernels import (
    Kernel,
    OfRun,
    eliminated,
    exchanged,
    is_symbol,
    row,
    towards,
    transposed,
)


def _addmm(c: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    if any(map(exact.is_general, (a, b, c))):
        if alpha != 1 or beta != 1 or a.ndim != 2:
            raise ValueError("where its factors are multiplied is not known")
        return _one_sum(c, a, b)
    return scaled(row("matmul")(a, b), alpha) + scaled(c, beta)


def _one_sum(c: Any, a: Any, b: Any) -> Any:
    """c + a b of two matrices. c may be added at any position of the sum."""
    (rows, inner), columns = a.shape, b.shape[1]
    left, right = (
        row("reshape")(x, shape=shape)
        for x, shape in ((a, (rows, inner, 1)), (b, (1, inner, columns)))
    )
    added = row("broadcast_to")(c, shape=(rows, columns))
    added = row("reshape")(added, shape=(rows, 1, columns))
    return row("sum")(row("concatenate")(left * right, added, axis=1), axis=1)


def _addbmm(c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return scaled(c, beta) + scaled(row("sum")(row("matmul")(a, b), axis=0), alpha)


def _trilinear(
    a: Any, b: Any, c: Any, more1: Any, more2: Any, more3: Any, summed: Any, unroll: int = 1
) -> Any:
    for axes, x in ((more1, 0), (more2, 1), (more3, 2)):
        for axis in axes:
            a, b, c = (
                row("expand_dims")(one, axis=axis) if i == x else one
                for i, one in enumerate((a, b, c))
            )
    return row("sum")(a * b * c, axis=tuple(summed))


def _cholesky(x: Any, upper: bool = False) -> Any:
    y = row("cholesky")(x)
    return transposed(y) if upper else y


def _times_transpose(x: Any, upper: bool) -> Any:
    return row("matmul")(transposed(x), x) if upper else row("matmul")(x, transposed(x))


def _triangle(a: Any, upper: bool, unit: bool = False) -> Any:
    y = row("triu" if upper else "tril")(a, k=(1 if upper else -1) if unit else 0)
    return y + np.eye(a.shape[-2], a.shape[-1]) if unit else y


def _solve_triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    if not left:
        return transposed(
            _solve_triangular(
                transposed(a), transposed(b), upper=not upper, unitriangular=unitriangular
            )
        )
    a = _triangle(a, upper, unitriangular)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (row("broadcast_to")(one, shape=(*batch, *one.shape[-2:])) for one in (a, b))
    return row("triangular_solve")(a, b, lower=not upper)


def _triangular_solve(
    b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    triangle = _triangle(a, upper, unitriangular)
    if transpose:
        return _solve_triangular(transposed(triangle), b, upper=not upper), a
    return _solve_triangular(triangle, b, upper=upper), a


def _order(pivots: Any, length: int) -> Any:
    """The order of the rows after LAPACK's exchanges: one row for each matrix of the stack."""
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    orders = np.tile(np.arange(length), (len(flat), 1))
    for order, swaps in zip(orders, flat, strict=True):
        for i, j in enumerate(swaps - 1):
            order[[i, j]] = order[[j, i]]
    return orders.reshape(*pivots.shape[:-1], length)


def _packed(x: Any, pivots: Any) -> Any:
    factors = eliminated(exchanged(x, _order(pivots, x.shape[-2])))
    if is_symbol(factors):
        factors.writer.factored[factors.node] = x
    return factors


def _factored(run: OfRun, x: Any, packed: Any, pivots: Any) -> Any:
    """The factors of x that the run has packed. PyTorch factors the transpose if its memory layout
    is LAPACK's."""
    lower = np.tril(packed, -1) + np.eye(packed.shape[-1])
    whole = _permutation(_order(pivots, packed.shape[-1])) @ lower @ np.triu(packed)
    return _packed(x if np.allclose(whole, run.args[0]) else transposed(x), pivots)


def _unpacked(packed: Any) -> tuple[Any, Any]:
    m, n = packed.shape[-2:]
    k = min(m, n)
    lower = row("tril")(row("getitem")(packed, index=(..., slice(None), slice(0, k))), k=-1)
    upper = row("triu")(row("getitem")(packed, index=(..., slice(0, k), slice(None))))
    return lower + np.eye(m, k), upper


def _permutation(order: Any) -> Any:
    """P in x = P L U."""
    return np.swapaxes(np.eye(order.shape[-1])[order], -1, -2)


def _lu_factors(run: OfRun, x: Any, *, pivot: bool = True) -> Any:
    """P, L and U."""
    order = np.argmax(np.swapaxes(run.results[0], -1, -2), -1) if pivot else None
    packed = eliminated(x if order is None else exchanged(x, order))
    return run.results[0], *_unpacked(packed)


def _lu_unpack(packed: Any, pivots: Any, data: bool = True, exchanges: bool = True) -> Any:
    p = _permutation(_order(pivots, packed.shape[-2])) if exchanges else np.empty(0)
    return (p, *_unpacked(packed)) if data else (p, np.empty(0), np.empty(0))


def _solve(run: OfRun, a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    columns = row("expand_dims")(b, axis=-1) if vector else b
    y = _solved(a, columns, left)
    y = row("squeeze")(y, axis=-1) if vector else y
    return y, _factored(run, a, *run.results[1:3]), None, None


def _solved(a: Any, b: Any, left: bool = True) -> Any:
    if not left:
        return transposed(_solved(transposed(a), transposed(b)))
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (row("broadcast_to")(one, shape=(*batch, *one.shape[-2:])) for one in (a, b))
    return row("solve")(a, b)


def _lu_solve(packed: Any, pivots: Any, b: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    a = packed.writer.factored.get(packed.node) if is_symbol(packed) else None
    if a is None:
        lower, upper = _unpacked(packed)
        p = _permutation(_order(pivots, packed.shape[-2]))
        a = row("matmul")(p, row("matmul")(lower, upper))
    return _solved(transposed(a) if adjoint else a, b, left)


def _qr(run: OfRun, x: Any, mode: str = "reduced") -> Any:
    q, r = exact.qr(x, run.results[1], mode == "complete")
    return (np.empty(0) if mode == "r" else q), r


def _svd(
    run: OfRun, x: Any, full_matrices: bool = False, compute_uv: bool = True, **how: Any
) -> Any:
    if not compute_uv:
        return np.empty(0), row("svdvals")(x), np.empty(0)
    return exact.svd(x, full_matrices, run.results[0], run.results[2])


def _eigh(run: OfRun, x: Any, uplo: str = "L", compute_v: bool = True) -> Any:
    values = row("eigvalsh")(x)
    if not compute_v:
        return values, np.empty(0)
    return values, towards(row("eigh_vectors")(x), run.results[1], -2)


def _slogdet(run: OfRun, x: Any) -> Any:
    factors = _factored(run, x, *run.results[2:4])
    return row("slogdet_sign")(x), row("slogdet_logabs")(x), factors, None


def _pseudoinverse(
    run: OfRun, x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Any:
    if np.all(np.linalg.matrix_rank(run.results[0]) == min(x.shape[-2:])):
        return _of_full_rank(x)
    if hermitian or not (atol is None and rtol is None):
        raise TypeError("without full rank, only the usual bound of singular values is supported")
    return row("pinv")(x)


def _of_full_rank(x: Any) -> Any:
    """The pseudoinverse by the normal equations."""
    turned = transposed(x)
    if x.shape[-2] >= x.shape[-1]:
        return _solved(row("matmul")(turned, x), turned)
    return row("matmul")(turned, row("inv")(row("matmul")(x, turned)))


def _lstsq(run: OfRun, a: Any, b: Any, rcond: Any = None, *, driver: str | None = None) -> Any:
    """The solution x, and the squared norms of b - a x if the run has them."""
    if np.any(run.results[2] < min(a.shape[-2:])):
        raise TypeError("only least squares of full rank are supported")
    vector = b.ndim == a.ndim - 1
    columns = row("expand_dims")(b, axis=-1) if vector else b
    x = row("matmul")(_of_full_rank(a), columns)
    rest = columns - row("matmul")(a, x)
    squares = row("sum")(rest * rest, axis=-2) if run.results[1].size else np.empty(0)
    return (row("squeeze")(x, axis=-1) if vector else x), squares, None, np.empty(0)


def _reflected(v: Any, tau: Any, y: Any, backwards: bool) -> Any:
    """y times the Householder reflections 1 - tau v v^T, the first one outermost."""
    m = v.shape[-2]
    steps = range(tau.shape[-1])
    for i in steps if backwards else reversed(steps):
        column = row("getitem")(v, index=(..., slice(None), slice(i, i + 1)))
        below = np.arange(m)[:, None] > i
        unit = row("where")(below, column, (np.arange(m)[:, None] == i).astype(np.float64))
        factor = row("getitem")(tau, index=(..., slice(i, i + 1)))
        factor = row("expand_dims")(factor, axis=-1)
        y = y - factor * row("matmul")(unit, row("matmul")(transposed(unit), y))
    return y


def _householder(v: Any, tau: Any) -> Any:
    m, n = v.shape[-2:]
    return _reflected(v, tau, np.broadcast_to(np.eye(m, n), v.shape), False)


def _ormqr(v: Any, tau: Any, c: Any, left: bool = True, transpose: bool = False) -> Any:
    if left:
        return _reflected(v, tau, c, transpose)
    return transposed(_reflected(v, tau, transposed(c), not transpose))


MATRICES: dict[str, Kernel] = {
    **{"addmm": _addmm, "addmv": _addmm, "baddbmm": _addmm, "addbmm": _addbmm},
    "addr": lambda c, a, b, *, beta=1, alpha=1: scaled(c, beta) + scaled(row("outer")(a, b), alpha),
    "dot": exact.dot,
    "vdot": exact.dot,
    "_trilinear": _trilinear,
    "cholesky": _cholesky,
    "linalg_cholesky_ex": lambda x, *, upper=False, check_errors=False: (
        _cholesky(x, upper),
        None,
    ),
    "cholesky_solve": lambda b, u, upper=False: _solved(_times_transpose(u, upper), b),
    "cholesky_inverse": lambda u, upper=False: row("inv")(_times_transpose(u, upper)),
    "linalg_inv_ex": lambda x, *, check_errors=False: (row("inv")(x), None),
    "linalg_solve_triangular": _solve_triangular,
    "triangular_solve": _triangular_solve,
    "lu_unpack": _lu_unpack,
    "linalg_lu_solve": _lu_solve,
    "linalg_householder_product": _householder,
    "ormqr": _ormqr,
}

CHOSEN: dict[str, Kernel] = {
    "linalg_lu_factor_ex": lambda run, x, *, pivot=True, check_errors=False: (
        _packed(x, run.results[1]),
        None,
        None,
    ),
    "linalg_lu": _lu_factors,
    "_linalg_solve_ex": _solve,
    "_linalg_det": lambda run, x: (row("det")(x), _factored(run, x, *run.results[1:3]), None),
    "_linalg_slogdet": _slogdet,
    "linalg_lstsq": _lstsq,
    "linalg_pinv": _pseudoinverse,
    "linalg_qr": _qr,
    "_linalg_svd": _svd,
    "_linalg_eigh": _eigh,
}
