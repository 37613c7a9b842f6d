"""Derivatives of functions: vjp, grad, jacobian, hessian (and jvp, from dual.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from reference_engine.dual import jvp
from reference_engine.errors import ShapeError
from reference_engine.tape import Record, check_cotangent, pull_back
from reference_engine.tensor import Tensor, tensor
from reference_engine.traced import (
    CONSTANT_LEVEL,
    ROWS,
    USER_LEVEL,
    Traced,
    Value,
    float_value,
    new_level,
)

Function = Callable[..., Value]


def vjp(
    f: Function,
    *xs: Value,
    create_graph: bool = False,
    unconnected: Literal["zeros", "none"] = "zeros",
) -> tuple[Value, Callable[..., tuple[Value, ...]]]:
    """The value of f at `xs`, and a function that pulls a cotangent of it back to the arguments.

    `y, pull = vjp(f, *xs)`; then `pull(y_bar)`, y_bar of y's shape (a scalar y needs none), gives a
    tuple with one gradient an argument, of the argument's shape and dtype. `pull` may be called
    several times. An argument that y does not depend on gets zeros, or None with
    `unconnected="none"`.

    With create_graph everything is recorded on the user's tape, y and the pulled-back gradients
    included: they are tensors, can be differentiated again, and `tape.sensitivities` of them spans
    both passes. Raises TypeError for arguments that are not floating, ShapeError for a cotangent
    that does not fit.
    """
    with np.errstate(all="ignore"):
        value, root, variables = _recorded(f, xs, create_graph)

    def pull(y_bar: Value = None) -> tuple[Value, ...]:
        with np.errstate(all="ignore"):
            y_bar = check_cotangent(y_bar, value, "pull")
            seeds = [] if root is None else [(root, y_bar)]
            reached = pull_back(seeds, variables, create_graph=create_graph)
            found = ((v, reached.get(v.record)) for v in variables)
            return tuple([_gradient(v, x_bar, unconnected, create_graph) for v, x_bar in found])

    return value, pull


def _recorded(
    f: Function, xs: Sequence[Value], create_graph: bool
) -> tuple[Value, Tensor | None, list[Tensor]]:
    """f at fresh variables: its value, that as a tensor of their level (None: constant), and they.

    Raises what `vjp` raises of the arguments and the result.
    """
    level = USER_LEVEL if create_graph else new_level()
    variables = [_variable(x, i, level) for i, x in enumerate(xs)]
    y = f(*variables)
    if isinstance(y, (tuple, list)):
        raise TypeError("a function to be differentiated must return one array")
    root = y if isinstance(y, Tensor) and y.level == level else None
    value = y if root is None or create_graph else root.value
    return value if isinstance(value, Traced) else np.asarray(value), root, variables


def _variable(x: Value, position: int, level: int) -> Tensor:
    """A fresh variable of the level; on the user's tape it stays connected to a recorded x."""
    x = float_value(x, "argument", position)
    if level != USER_LEVEL:
        return Tensor(level, x)
    if isinstance(x, Traced) and x.level > USER_LEVEL:
        raise TypeError("create_graph records on the user's tape; leave it in a transformation")
    if isinstance(x, Tensor) and x.level == USER_LEVEL:
        shape = x.shape
        made = Record(shape, x.dtype, ROWS["reshape"], {"shape": shape}, [0], [x.record], [x.value])
        made.value = x.value
        return Tensor(level, x.value, made)
    return tensor(x, requires_grad=True)


def _gradient(x: Tensor, x_bar: Value, unconnected: str, create_graph: bool) -> Value:
    if x_bar is None:
        if unconnected == "none":
            return None
        zeros = np.zeros(x.shape, x.dtype)
        return Tensor(CONSTANT_LEVEL, zeros) if create_graph else zeros
    if isinstance(x_bar, Traced):
        return x_bar
    return Tensor(CONSTANT_LEVEL, np.asarray(x_bar)) if create_graph else np.asarray(x_bar)


def _selected(argnums: int | Sequence[int], xs: Sequence[Value]) -> tuple[int, ...]:
    chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    count = len(xs)
    for i in chosen:
        if not -count <= i < count:
            raise TypeError(f"argnums has {i}, but {count} arguments were given")
    return tuple([i % count for i in chosen])


def _partial(f: Function, xs: Sequence[Value], chosen: tuple[int, ...]) -> Function:
    """f as a function of the chosen arguments alone."""
    if chosen == tuple(range(len(xs))):
        return f

    def g(*some: Value) -> Value:
        full = list(xs)
        for i, x in zip(chosen, some, strict=True):
            full[i] = x
        return f(*full)

    return g


def value_and_grad(
    f: Function, argnums: int | Sequence[int] = 0, *, create_graph: bool = False
) -> Callable[..., tuple[Value, Any]]:
    """The value of a scalar function and its gradient, as a function of the same arguments.

    `y, x_bar = value_and_grad(f)(x)`, in one pass forward and one back; the gradients as by `grad`.
    Without create_graph, which is as in `vjp`, the pass back frees what it has used as it goes.
    Raises ShapeError if f does not return a scalar, TypeError for arguments that are not floating.
    """

    def both(*xs: Value) -> tuple[Value, Any]:
        chosen = _selected(argnums, xs)
        g = _partial(f, xs, chosen)
        with np.errstate(all="ignore"):
            y, root, variables = _recorded(g, [xs[i] for i in chosen], create_graph)
            if y.shape != ():
                reason = "the function must return a scalar; see jacobian"
                raise ShapeError("grad", (y.shape,), reason)
            seeds = [] if root is None else [(root, np.array(1, y.dtype))]
            reached = pull_back(seeds, variables, create_graph=create_graph, free=not create_graph)
            found = [_gradient(v, reached.get(v.record), "zeros", create_graph) for v in variables]
        return y, found[0] if isinstance(argnums, int) else tuple(found)

    return both


def grad(
    f: Function, argnums: int | Sequence[int] = 0, *, create_graph: bool = False
) -> Callable[..., Any]:
    """The gradient of a scalar function, as a function of the same arguments (reverse mode).

    Returns one array, or a tuple where argnums is a sequence, each of its argument's shape and
    dtype. create_graph is as in `vjp`. Raises what `value_and_grad` raises.
    """
    both = value_and_grad(f, argnums, create_graph=create_graph)
    return lambda *xs: both(*xs)[1]


def jacobian(
    f: Function,
    argnums: int | Sequence[int] = 0,
    *,
    mode: Literal["reverse", "forward"] | None = None,
) -> Callable[..., Any]:
    """The Jacobian of f, as a function of the same arguments: shape (*output, *argument).

    Without a mode, the cheaper one: reverse runs one pass an output element, forward one an input
    element. Returns a tuple of Jacobians where argnums is a sequence.
    """

    def jacobian_of(*xs: Value) -> Any:
        chosen = _selected(argnums, xs)
        blocks = tuple(_block(_partial(f, xs, (i,)), xs[i], mode) for i in chosen)
        return blocks[0] if isinstance(argnums, int) else blocks

    return jacobian_of


def _block(f: Function, x: Value, mode: str | None) -> Value:
    x = float_value(x, "the argument")
    columns = x.size
    if mode != "forward":
        y, pull = vjp(f, x)
        if mode == "reverse" or y.size <= columns:
            rows = [pull(e)[0] for e in _basis(y.shape, y.dtype)]
            return _assembled(rows, 0, (*y.shape, *x.shape), y.dtype)
    tangents = [jvp(f, (x,), (e,))[1] for e in _basis(x.shape, x.dtype)]
    y_shape = tangents[0].shape if tangents else np.shape(f(x))
    return _assembled(tangents, -1, (*y_shape, *x.shape), x.dtype)


def _assembled(parts: list[Value], axis: int, shape: tuple[int, ...], dtype: Any) -> Value:
    if not parts:
        return np.zeros(shape, dtype)
    return ROWS["reshape"](ROWS["stack"](*parts, axis=axis), shape=shape)


def _basis(shape: tuple[int, ...], dtype: Any) -> list[Any]:
    """The unit arrays of a shape, in order of the flattened index."""
    size = int(np.prod(shape))
    return list(np.eye(size, dtype=dtype).reshape((size, *shape)))


def hessian(f: Function, argnums: int = 0) -> Callable[..., Any]:
    """The second derivative of a scalar function, shape (*argument, *argument).

    Forward over reverse: one pass of dual numbers through the gradient an element of the argument.
    """
    return jacobian(grad(f, argnums), argnums, mode="forward")
