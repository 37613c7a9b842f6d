"""Factors of matrices, as every framework's linear algebra gives them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.engines.trace.exact_kernels import row


def exchanged(x: Any, order: Any) -> Any:
    """The rows of x in this order."""
    places = np.broadcast_to(order[..., None], (*order.shape, x.shape[-1]))
    batch = np.broadcast_shapes(places.shape[:-2], x.shape[:-2])
    wide = row("broadcast_to")(x, shape=(*batch, *x.shape[-2:]))
    return row("take_along_axis")(
        wide, np.broadcast_to(places, (*batch, *places.shape[-2:])), axis=-2
    )


def eliminated(x: Any) -> Any:
    """Both factors of x = L U in one matrix, as LAPACK packs them. No rows are exchanged."""
    if min(x.shape[-2:]) == 0:
        return x
    top = row("getitem")(x, index=(..., slice(0, 1), slice(None)))
    if x.shape[-2] == 1:
        return top
    corner = row("getitem")(x, index=(..., slice(0, 1), slice(0, 1)))
    left = row("getitem")(x, index=(..., slice(1, None), slice(0, 1))) / corner
    if x.shape[-1] == 1:
        return row("concatenate")(corner, left, axis=-2)
    right = row("getitem")(top, index=(..., slice(None), slice(1, None)))
    rest = row("getitem")(x, index=(..., slice(1, None), slice(1, None))) - left * right
    below = row("concatenate")(left, eliminated(rest), axis=-1)
    return row("concatenate")(top, below, axis=-2)


def towards(x: Any, of_run: Any, axis: int) -> Any:
    """The vectors along an axis, each with the sign that it has in the run."""
    along = row("sum")(x * of_run, axis=axis, keepdims=True)
    return x * row("stop_gradient")(row("sign")(along))
