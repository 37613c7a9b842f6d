"""Functions with a derivative that the user writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

import numpy as np

from reference_engine.errors import WrongGradientShape
from reference_engine.op import Op
from reference_engine.tape import transposed
from reference_engine.traced import Traced, Use, Value, shape_of

Function = Callable[..., Value]


class Stated:
    """A derivative written by the user, as `custom_gradient` takes it."""

    def __init__(self, name: str, vjp: Function, jvp: Function | None) -> None:
        self.name = name
        self.vjp = vjp
        self.jvp = jvp

    def forward(self, use: Use, x_dots: Sequence[Value]) -> Value:
        _, xs, y, _ = use
        if self.jvp is not None:
            filled = [
                np.zeros(shape_of(x), y.dtype) if x_dot is None else x_dot
                for x, x_dot in zip(xs, x_dots, strict=True)
            ]
            y_dot = self.jvp(*filled, *xs)
            return None if y_dot is None else self._checked(y_dot, None, y)

        def pull(y_bar: Value) -> list[Value]:
            return self._gradients(y_bar, xs, range(len(xs)))

        return transposed(pull, y, x_dots)

    def reverse(self, use: Use, y_bar: Value, wanted: Sequence[int]) -> list[Value]:
        return self._gradients(y_bar, use.xs, wanted)

    def _gradients(self, y_bar: Value, xs: Sequence[Value], wanted: Sequence[int]) -> list[Value]:
        given = self.vjp(y_bar, *xs)
        x_bars = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if len(x_bars) != len(xs):
            raise TypeError(
                f"the custom gradient of {self.name} gives {len(x_bars)} gradients "
                f"for {len(xs)} arguments"
            )
        return [None if x_bars[i] is None else self._checked(x_bars[i], i, xs[i]) for i in wanted]

    def _checked(self, bar: Value, argument: int | None, like: Value) -> Value:
        bar = bar if isinstance(bar, Traced) else np.asarray(bar)
        expected = shape_of(like)
        if bar.shape != expected:
            raise WrongGradientShape(self.name, argument, expected, bar.shape)
        return bar


def custom_gradient(vjp: Function, jvp: Function | None = None) -> Callable[[Function], Function]:
    """Decorate a function of arrays with a derivative of your own.

        def slope(upstream, x):
            return -upstream * exp(-x)

        @custom_gradient(slope)
        def reciprocal_exp(x):
            return 1 / exp(x)

    `vjp(upstream, *args)` returns one gradient an argument, as a tuple (or bare, for one
    argument), of the argument's shape, or None where there is none. `jvp(*tangents, *args)`
    returns the output's tangent; without it, forward mode is the transpose of `vjp`. Higher orders
    differentiate the stated rule.

    The function takes arrays by position and returns one array; everything that is to be
    differentiated must be an argument. Calling it raises TypeError if the function captured a
    traced value, and differentiating it raises WrongGradientShape, or TypeError for a wrong number
    of gradients.
    """

    def decorate(f: Function) -> Function:
        name = getattr(f, "__name__", "function")
        rows: dict[int, Op] = {}

        def raw(*arrays: Any) -> Any:
            y = f(*arrays)
            if isinstance(y, Traced) and y.level > 0:
                raise TypeError(
                    f"{name} has a custom gradient but captures a value that is being "
                    f"differentiated; pass it as an argument"
                )
            return y

        def call(*args: Value) -> Value:
            row = rows.get(len(args))
            if row is None:
                row = rows[len(args)] = Op(
                    name,
                    raw,
                    Stated(name, vjp, jvp),
                    family="custom",
                    arrays=tuple(f"x{i}" for i in range(len(args))),
                    keywords={},
                )
                row.says(f"{name}(...)", "as the user states it", source="the user")
            return row(*args)

        return update_wrapper(call, f)

    return decorate
