"""The kernels of frameworks in exact arithmetic, written in rows of the op table, for balls.

The kernel of a derivative is treated as a function of its own inputs, independent of what it is a
derivative of: `tanh_backward(g, y)` is g (1 - y^2) for every y.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.execution import High

Kernel = Callable[..., Any]


class OfRun(NamedTuple):
    """The arguments and results of an operation in the recorded run."""

    args: Sequence[Array]
    results: Sequence[Array]


def row(name: str) -> Kernel:
    """The row of the op table, looked up when it is first called."""

    def call(*args: Any, **keywords: Any) -> Any:
        from reference_engine.traced import ROWS

        return ROWS[name](*args, **keywords)

    return call


def row_without_keywords(name: str) -> Kernel:
    """The row; keywords of the operation are ignored."""
    return lambda *xs, **how: row(name)(*xs)


def elementwise(row: str | None) -> bool:
    """Whether each element of the row's result depends only on the elements that meet it by
    broadcasting."""
    from reference_engine.op import TABLE

    return row is not None and row in TABLE and TABLE[row].elementwise


def on_balls(kernel: Kernel, args: Sequence[High]) -> list[High]:
    """The results of the kernel on arrays of `arb` objects. Other arrays, numbers and symbols are
    passed unchanged."""
    from reference_engine.arithmetic.balls import Ball

    found = kernel(
        *(Ball(x) if isinstance(x, np.ndarray) and x.dtype == object else x for x in args)
    )
    return [as_exact_array(y) for y in (found if isinstance(found, tuple) else (found,))]


def finite(x: Any, **how: Any) -> Any:
    """Whether numbers are finite, which all existing ones are. In a program that holds for other
    numbers, too, this is x = x."""
    if is_general(x):
        return row("equal")(x, x)
    return is_finite(getattr(x, "value", x))


def is_finite(x: High) -> Array:
    """Which numbers are finite. A ball beyond the range of float64 is finite, too."""
    x = np.asarray(x)
    if x.dtype != object:
        return np.asarray(np.isfinite(x))
    return np.array([one.is_finite() for one in x.ravel()], np.bool_).reshape(x.shape)


def is_symbol(x: Any) -> bool:
    """Whether it is a `symbols.Symbol`, an array of a program that is being written."""
    return hasattr(x, "writer")


def is_general(x: Any) -> bool:
    """Whether it is a symbol of a program that also holds for other numbers."""
    return is_symbol(x) and not x.writer.public


def as_exact_array(y: Any) -> High:
    """An array of `arb` objects, booleans or integers, or a symbol."""
    from reference_engine.arithmetic.arbs import objects, unwrap

    if is_symbol(y):
        return y
    y = y if isinstance(y, np.ndarray) else unwrap(y)
    return objects(y) if y.dtype.kind == "f" else y


def on_places(
    move: Callable[[Sequence[np.ndarray[Any, Any]]], Sequence[np.ndarray[Any, Any]]],
    args: Sequence[High],
) -> list[High]:
    """Runs an operation that only moves numbers on arrays of any type, by running it on their
    places.

    Zeros that it inserts are Nothing: times infinity they are still 0.
    """
    from reference_engine.arithmetic.ball_choices import NOTHING

    symbol = next((x for x in args if is_symbol(x)), None)
    if symbol is not None:
        return list(symbol.writer.move_numbers(move, args))
    if not any(isinstance(x, np.ndarray) and x.dtype == object for x in args):
        return list(move(args))  # indices, or a mask
    pool: list[Any] = [NOTHING]
    places = []
    for x in args:
        if isinstance(x, np.ndarray) and x.dtype == object:
            numbers = np.arange(len(pool), len(pool) + x.size, dtype=np.float64)
            places.append(numbers.reshape(x.shape))
            pool.extend(x.ravel())
        else:
            places.append(x)
    everything = np.empty(len(pool), dtype=object)
    everything[:] = pool
    return [_take_places(everything, np.asarray(y)) for y in move(places)]


def _take_places(pool: High, places: np.ndarray[Any, Any]) -> High:
    """`pool[places]`, as an array even for a single place. A place of nan means that the operation
    inserted nan itself."""
    from reference_engine.arithmetic.arbs import objects

    filled = np.isnan(places)
    made = np.empty(places.shape, dtype=object)
    made[...] = pool[np.where(filled, 0, places).astype(np.int64)]
    made[filled] = objects(np.full(int(filled.sum()), np.nan))
    return made


def nothing_where(condition: Any, x: Any) -> Any:
    """x, and Nothing where the condition holds."""
    return row("where")(condition, 0.0, x)


def structural(values: High) -> High:
    """The values, with Nothing for zeros that no computation produced."""
    from reference_engine.arithmetic.ball_choices import NOTHING

    if values.dtype != object:
        return values
    made = values.copy()
    flat = made.reshape(-1)
    for i, one in enumerate(flat):
        if one == 0:
            flat[i] = NOTHING
    return made


def as_floating(x: Any) -> Any:
    """Floats unchanged; integers and booleans as balls. False becomes Nothing, because it is a
    mask."""
    if not isinstance(x, np.ndarray) or x.dtype.kind in "fO":
        return x
    from reference_engine.arithmetic.arbs import objects
    from reference_engine.arithmetic.balls import Ball

    numbers = objects(x.astype(np.float64) if x.dtype == np.bool_ else x)
    return Ball(structural(numbers) if x.dtype == np.bool_ else numbers)


def tanh_grad(g: Any, y: Any) -> Any:
    return g * (1 - y * y)


def sigmoid_grad(g: Any, y: Any) -> Any:
    return g * (y * (1 - y))


def softmax_grad(g: Any, y: Any, axis: int) -> Any:
    return y * (g - row("sum")(g * y, axis=axis, keepdims=True))


def log_softmax_grad(g: Any, y: Any, axis: int) -> Any:
    return g - row("exp")(y) * row("sum")(g, axis=axis, keepdims=True)


def softplus_grad(g: Any, x: Any) -> Any:
    return g * row("sigmoid")(x)


def dot(a: Any, b: Any) -> Any:
    return row("sum")(a * b)


def stable_log_sigmoid(x: Any) -> Any:
    return -row("softplus")(-x)


def polygamma(n: Any, x: Any, **how: Any) -> Any:
    orders = np.unique(n).tolist() if isinstance(n, np.ndarray) else []
    if len(orders) != 1:
        raise TypeError("only one order, which is a constant, is supported")
    return row("polygamma")(x, n=int(orders[0]))


def towards_zero(x: Any) -> Any:
    return row("sign")(x) * row("floor")(row("abs")(x))


def transposed(x: Any) -> Any:
    """The transposed matrices of a stack."""
    return row("transpose")(x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def exchanged(x: Any, order: Any) -> Any:
    """The rows of x in this order."""
    places = np.broadcast_to(order[..., None], (*order.shape, x.shape[-1]))
    batch = np.broadcast_shapes(places.shape[:-2], x.shape[:-2])
    wide = row("broadcast_to")(x, shape=(*batch, *x.shape[-2:]))
    return row("take_along_axis")(
        wide, np.broadcast_to(places, (*batch, *places.shape[-2:])), axis=-2
    )


def eliminated(x: Any) -> Any:
    """Both factors of x = L U in one matrix, packed as by LAPACK, without row exchanges."""
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


def clamped(x: Any, min: Any = None, max: Any = None, **how: Any) -> Any:
    if min is not None:
        x = row("maximum")(x, min)
    return x if max is None else row("minimum")(x, max)


def rest_of_quotient(a: Any, b: Any, **how: Any) -> Any:
    """The remainder of a / b, with the sign of a."""
    return a - b * towards_zero(row("divide")(a, b))


def running(name: str, x: Any, axis: int, reverse: bool = False) -> Any:
    """A running row from the start of an axis, or from its end."""
    if not reverse:
        return row(name)(x, axis=axis)
    return row("flip")(row(name)(row("flip")(x, axis=axis), axis=axis), axis=axis)


def running_logsumexp(x: Any, axis: int, total: Callable[[Any], Any]) -> Any:
    """The running logsumexp; `total` computes running sums along the axis."""
    top = row("stop_gradient")(row("max")(x, axis=axis, keepdims=True))
    return top + row("log")(total(row("exp")(x - top)))


def added_at(x: Any, places: Any, values: Any) -> Any:
    """x with values added at these places of the flattened x."""
    wide = row("broadcast_to")(as_floating(values), shape=places.shape)
    flat, more = (row("reshape")(one, shape=(-1,)) for one in (x, wide))
    y = row("scatter_add")(flat, places.ravel(), more, axis=0)
    return row("reshape")(y, shape=x.shape)


def qr(x: Any, of_run: Any, whole: bool) -> tuple[Any, Any]:
    """Both factors, with the signs of the second factor in the run. `whole`: the first one is
    square."""
    if whole and x.shape[-2] > x.shape[-1]:
        raise TypeError("columns beyond those of the matrix are not supported")
    square = row("getitem")(x, index=(..., slice(None), slice(0, x.shape[-2])))
    signs = np.where(np.diagonal(of_run, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    q = row("qr_q")(square) * signs[..., None, :]
    return q, row("triu")(row("matmul")(transposed(q), x))


def svd(x: Any, whole: bool, u: Any, vh: Any) -> tuple[Any, Any, Any]:
    """The factors, with the signs of the vectors `u` and `vh` in the run. `whole`: `u` and `vh` are
    square."""
    if whole and x.shape[-2] != x.shape[-1]:
        raise TypeError("vectors beyond the singular values are not supported")
    values = row("svdvals")(x)
    return towards(row("svd_u")(x), u, -2), values, towards(row("svd_vh")(x), vh, -1)


def towards(x: Any, of_run: Any, axis: int) -> Any:
    """The vectors along an axis, each with its sign in the run."""
    along = row("sum")(x * of_run, axis=axis, keepdims=True)
    return x * row("stop_gradient")(row("sign")(along))
