"""Arrays of expressions, as NumPy object arrays, and helpers for operations on whole arrays."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.kit.axes import axes_of, restored


def the_row(name: str) -> Callable[..., Any]:
    """The row of the op table itself, which moves, adds and multiplies entries of any type."""

    def row(sympy: Any, *arrays: Any, **keywords: Any) -> Any:
        from reference_engine.op import TABLE

        return TABLE[name].raw(*arrays, **keywords)

    return row


def own(of: Callable[[Any], Any]) -> Callable[..., Any]:
    """A function `of` gradcheck's own SymPy functions. Only calling it imports SymPy; listing the
    operations does not."""

    def function(sympy: Any, *xs: Any) -> Any:
        from gradcheck_cli.engines.symbolic import functions

        return of(functions)(*xs)

    return function


absolute = own(lambda functions: functions.Size)


def entrywise(call: Callable[..., Any], *arrays: Any) -> Array:
    """Apply `call` entry by entry, with broadcasting."""
    return np.asarray(np.frompyfunc(call, len(arrays), 1)(*arrays), dtype=object)


def reduce_along(call: Callable[[Any], Any], x: Any, axis: Any, keepdims: bool) -> Any:
    """Apply `call` to the list of entries along the axes (None: all)."""
    axes = axes_of(axis, x.ndim)
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = x.transpose([*kept, *axes]).reshape(prod(x.shape[i] for i in kept), -1)
    reduced = np.empty(len(rows), dtype=object)
    for i, row in enumerate(rows):
        reduced[i] = call(list(row))
    shape = restored(x.shape, axes) if keepdims else [x.shape[i] for i in kept]
    return reduced.reshape(shape)


def reduced(terms: Any, reduction: str) -> Any:
    """The terms of a loss, their sum, or their mean."""
    if reduction == "none":
        return terms
    total = sum(terms.ravel())
    return total / terms.size if reduction == "mean" else total


def matrices(call: Callable[[Any], Any], x: Any) -> Any:
    """Apply `call` to each matrix (..., n, n). It returns a number or a matrix."""
    results = [call(m) for m in x.reshape(-1, *x.shape[-2:])]
    shape = (*x.shape[:-2], *np.shape(results[0]))
    made = np.empty(len(results), dtype=object)
    for i, one in enumerate(results):
        made[i] = one
    return np.stack(list(made)).reshape(shape) if np.shape(results[0]) else made.reshape(shape)
