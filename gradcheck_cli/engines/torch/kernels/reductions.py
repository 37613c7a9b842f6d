"""Kernels that reduce the elements along some axes, or sort them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck_cli.engines.trace import exact_kernels as exact
from gradcheck_cli.engines.trace.exact_kernels import Kernel, OfRun, row


def _axes(x: Any, dim: Any) -> Any:
    """The axes of a row. A number has one axis, -1 or 0, which the table does not know."""
    if dim is None or dim == [] or x.ndim == 0:
        return None
    return tuple(dim) if isinstance(dim, list) else dim


def with_axis(x: Any) -> Any:
    """A number as an array of one element."""
    return x if x.ndim else row("reshape")(x, shape=(1,))


def _as_before(y: Any, x: Any) -> Any:
    return y if x.ndim else row("reshape")(y, shape=())


def _reduction(name: str) -> Kernel:
    def kernel(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        return row(name)(exact.as_floating(x), axis=_axes(x, dim), keepdims=keepdim)

    return kernel


def _spread(name: str) -> Kernel:
    def kernel(x: Any, dim: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Any:
        free = 1 if correction is None else correction
        return row(name)(x, axis=_axes(x, dim), correction=free, keepdims=keepdim)

    return kernel


def _spread_and_mean(name: str) -> Kernel:
    def kernel(x: Any, dim: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Any:
        spread = _spread(name)(x, dim, correction=correction, keepdim=keepdim)
        return spread, row("mean")(x, axis=_axes(x, dim), keepdims=keepdim)

    return kernel


def _norm(
    x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if ord == 0:
        one = row("where")(row("not_equal")(x, 0.0), 1.0, 0.0)
        return row("sum")(one, axis=_axes(x, dim), keepdims=keepdim)
    return row("norm")(x, ord=ord, axis=_axes(x, dim), keepdims=keepdim)


def _running(name: str) -> Kernel:
    return lambda x, dim, *, dtype=None: _as_before(row(name)(with_axis(x), axis=dim), x)


def _running_logsumexp(x: Any, dim: int) -> Any:
    total = partial(row("cumsum"), axis=dim)
    return _as_before(exact.running_logsumexp(with_axis(x), dim, total), x)


def _running_extreme(name: str) -> Kernel:
    """The extreme so far, and its position."""
    return lambda x, dim: (_as_before(row(name)(with_axis(x), axis=dim), x), None)


def _extreme(name: str) -> Kernel:
    """The extreme of all elements, or the extreme along an axis and its position."""

    def kernel(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        y = row(name)(x, axis=_axes(x, dim), keepdims=keepdim)
        if dim is None:
            return y
        order = _order("topk_indices", x, dim, k=1, largest=name == "max")
        return y, order if order is None or keepdim else row("squeeze")(order, axis=dim)

    return kernel


def _order(name: str, x: Any, dim: int, **how: Any) -> Any:
    """The positions of sorted elements along an axis. They are symbolic if the program must hold
    for other numbers too, and otherwise those of the run."""
    if not (exact.is_general(x) and x.ndim):
        return None
    return row(name)(x, axis=dim, **how)


def _extremes(x: Any, *, dim: Any = None, keepdim: bool = False) -> Any:
    how = {"axis": _axes(x, dim), "keepdims": keepdim}
    return row("min")(x, **how), row("max")(x, **how)


def _sort(
    x: Any, dim: int = -1, descending: bool = False, *, stable: bool | None = None, **more: Any
) -> Any:
    dim, descending = more.get("dim", dim), more.get("descending", descending)
    sorted = row("sort")(with_axis(x), axis=dim, descending=descending)
    return _as_before(sorted, x), _order("argsort", x, dim, descending=descending)


def _topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    how = {"k": k, "largest": largest}
    order = _order("topk_indices", x, dim, **how) if sorted else None
    return _as_before(row("topk_values")(with_axis(x), axis=dim, **how), x), order


def _ranked(x: Any, rank: int, dim: int, keepdim: bool) -> Any:
    """The element of a rank, counted from 0, among the sorted elements along an axis, and its
    position."""

    def at_rank(ordered: Any) -> Any:
        y = row("take")(ordered, np.array([rank]), axis=dim)
        return y if keepdim and x.ndim else row("squeeze")(y, axis=dim)

    order = _order("argsort", x, dim)
    y = at_rank(row("sort")(with_axis(x), axis=dim))
    return y, None if order is None else at_rank(order)


def _median(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The lower of the two middle elements."""
    if dim is None:
        return _ranked(row("reshape")(x, shape=(-1,)), (x.size - 1) // 2, 0, False)[0]
    length = x.shape[dim] if x.ndim else 1
    return _ranked(x, (length - 1) // 2, dim, keepdim)


def _found_at(run: OfRun, x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The elements along an axis that the run chose, and their positions."""
    places = run.results[1] if keepdim or not x.ndim else np.expand_dims(run.results[1], dim)
    y = row("take_along_axis")(with_axis(x), np.atleast_1d(places), axis=dim)
    return (y if keepdim and x.ndim else row("squeeze")(y, axis=dim)), None


def _safe_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    """The softmax, and 0 along a line on which every number is -inf, because a mask covers it."""
    masked = row("all")(row("equal")(x, -np.inf), axis=dim, keepdims=True)
    return exact.nothing_where(masked, row("softmax")(x, axis=dim))


def _distance(x: Any, y: Any, p: float, axis: int = -1) -> Any:
    return _norm(x - y, p, axis)


def _distances(x: Any, y: Any, p: float, mode: Any = None) -> Any:
    """The distance of each row of x from each row of y."""
    return _distance(row("expand_dims")(x, axis=-2), row("expand_dims")(y, axis=-3), p)


def _pairwise_distances(x: Any, p: float = 2) -> Any:
    """The distance of each row from each later row."""
    first, second = np.triu_indices(x.shape[0], 1)
    return _distance(row("take")(x, first, axis=0), row("take")(x, second, axis=0), p)


REDUCTIONS: dict[str, Kernel] = {
    **{name: _reduction(name) for name in ("sum", "mean", "prod")},
    **{"amax": _reduction("max"), "amin": _reduction("min"), "logsumexp": _reduction("logsumexp")},
    **{"var": _spread("var"), "std": _spread("std"), "linalg_vector_norm": _norm},
    **{"var_mean": _spread_and_mean("var"), "std_mean": _spread_and_mean("std")},
    **{"cumsum": _running("cumsum"), "cumprod": _running("cumprod")},
    **{"cummax": _running_extreme("cummax"), "cummin": _running_extreme("cummin")},
    **{"max": _extreme("max"), "min": _extreme("min"), "aminmax": _extremes},
    **{"sort": _sort, "topk": _topk, "median": _median},
    "kthvalue": lambda x, k, dim=-1, keepdim=False: _ranked(x, k - 1, dim, keepdim),
    "norm": lambda x, p=2, *more, **how: _norm(x, 2 if p is None else p, *more, **how),
    "logcumsumexp": _running_logsumexp,
    "_safe_softmax": _safe_softmax,
    "_softmax": lambda x, dim, half: _as_before(row("softmax")(with_axis(x), axis=dim), x),
    "_log_softmax": lambda x, dim, half: _as_before(row("log_softmax")(with_axis(x), axis=dim), x),
    "_cdist_forward": _distances,
    "_pdist_forward": _pairwise_distances,
}

CHOSEN: dict[str, Kernel] = {
    "mode": _found_at,
    "frexp": lambda run, x: (x / 2.0 ** run.results[1], None),
}
