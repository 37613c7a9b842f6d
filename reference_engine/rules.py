"""The ways in which a row can state its derivative. Each gives both modes from the one statement.

`g` is a tangent where a rule runs forward and a cotangent where it runs in reverse: an elementwise
derivative is a diagonal matrix, which is its own transpose, so that one expression serves both.
What a rule returns in reverse may still be broadcast; the walkers put that right (tape.py,
dual.py).

`reads` gives the positions of the arguments (RESULT: y) whose values `reverse` looks at when the
`wanted` ones are differentiated; of the others it needs no more than shape and dtype, and the tape
keeps no more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from reference_engine.reads import NOTHING, RESULT, AllBut, Positions, positions_read
from reference_engine.tape import transposed
from reference_engine.traced import ROWS, Use, Value, shape_of

Part = Callable[..., Value]


class Elementwise:
    """y_i depends on x_i alone: one part an array argument, g -> g * dy/dx, called (g, y, *xs).

    None for an argument that is never differentiated.
    """

    takes_repeated = True  # a g that is constant along an axis may come with that axis at length 1

    def __init__(self, *parts: Part | None) -> None:
        self.parts = parts

    def reads(self, passive: frozenset[int], wanted: Sequence[int]) -> Positions:
        return positions_read([self.parts[i] for i in wanted])

    def forward(self, use: Use, x_dots: Sequence[Value]) -> Value:
        return _sum_of_parts(self.parts, x_dots, use)

    def reverse(self, use: Use, y_bar: Value, wanted: Sequence[int]) -> list[Value]:
        parts, (_, xs, y, keywords) = self.parts, use
        if len(parts) == 1:
            return [parts[0](y_bar, y, *xs, **keywords)]  # type: ignore[misc]
        x_bars = []
        for i in wanted:
            part = parts[i]
            x_bars.append(None if part is None else part(y_bar, y, *xs, **keywords))
        return x_bars


class Linear:
    """y is linear in its one array; `transpose` is called (y_bar, x, **keywords).

    Where the transpose is zero but for a few elements, `add_to` adds it to a plain array in place,
    called (x_bar, y_bar, **keywords): the time of many such uses of one array stays linear.
    """

    def __init__(self, transpose: Part, add_to: Callable[..., None] | None = None) -> None:
        self.transpose = transpose
        self.add_to = add_to

    def reads(self, passive: frozenset[int], wanted: Sequence[int]) -> Positions:
        return NOTHING  # a linear function has the same derivative everywhere

    def forward(self, use: Use, x_dots: Sequence[Value]) -> Value:
        return use.op(x_dots[0], **use.keywords)

    def reverse(self, use: Use, y_bar: Value, wanted: Sequence[int]) -> list[Value]:
        return [self.transpose(y_bar, use.xs[0], **use.keywords)]


class JointlyLinear:
    """y is linear in its arrays together; passive ones, if there are some (indices), say where.

    `transpose` is called (y_bar, i, xs, **keywords) for the argument i.
    """

    def __init__(self, transpose: Part) -> None:
        self.transpose = transpose

    def reads(self, passive: frozenset[int], wanted: Sequence[int]) -> Positions:
        return passive  # of the others, nothing: the derivative is the same everywhere

    def forward(self, use: Use, x_dots: Sequence[Value]) -> Value:
        op, xs, y, keywords = use
        filled = [
            x if i in op.passive else np.zeros(shape_of(x), y.dtype) if x_dot is None else x_dot
            for i, (x, x_dot) in enumerate(zip(xs, x_dots, strict=True))
        ]
        return op(*filled, **keywords)

    def reverse(self, use: Use, y_bar: Value, wanted: Sequence[int]) -> list[Value]:
        op, xs, _, keywords = use
        return [
            None if i in op.passive else self.transpose(y_bar, i, xs, **keywords) for i in wanted
        ]


class Multilinear:
    """y is linear in each array while the others stay; one transpose each, called (y_bar, *xs)."""

    def __init__(self, *transposes: Part) -> None:
        self.transposes = transposes

    def reads(self, passive: frozenset[int], wanted: Sequence[int]) -> Positions:
        return AllBut(RESULT, *wanted) if len(wanted) == 1 else AllBut(RESULT)

    def forward(self, use: Use, x_dots: Sequence[Value]) -> Value:
        op, xs, _, keywords = use
        terms = [
            op(*xs[:i], x_dot, *xs[i + 1 :], **keywords)
            for i, x_dot in enumerate(x_dots)
            if x_dot is not None
        ]
        y_dot = terms[0]
        for term in terms[1:]:
            y_dot = y_dot + term
        return y_dot

    def reverse(self, use: Use, y_bar: Value, wanted: Sequence[int]) -> list[Value]:
        return [self.transposes[i](y_bar, *use.xs, **use.keywords) for i in wanted]


class Contraction(Multilinear):
    """Multilinear in any number of arrays: one `transpose`, called (y_bar, i, xs, **keywords)."""

    def reverse(self, use: Use, y_bar: Value, wanted: Sequence[int]) -> list[Value]:
        (transpose,) = self.transposes
        return [transpose(y_bar, i, use.xs, **use.keywords) for i in wanted]


class Reduction:
    """y_dot = sum over `axis` of part(x_dot), the part elementwise: called (g, y, x, axis).

    y and a cotangent g come with the reduced axes kept at length 1. Keywords other than `axis` and
    `keepdims` are handed on to the part.
    """

    def __init__(self, part: Part) -> None:
        self.part = part

    def reads(self, passive: frozenset[int], wanted: Sequence[int]) -> Positions:
        return positions_read([self.part])

    def forward(self, use: Use, x_dots: Sequence[Value]) -> Value:
        op, (x,), y, keywords = use
        axis = keywords.get("axis", op.keywords["axis"])
        terms = self.part(x_dots[0], _keepdims(y, x, axis), x, axis, **_own_keywords(keywords))
        return ROWS["sum"](terms, axis=axis, keepdims=keywords.get("keepdims", False))

    def reverse(self, use: Use, y_bar: Value, wanted: Sequence[int]) -> list[Value]:
        op, (x,), y, keywords = use
        axis = keywords.get("axis", op.keywords["axis"])
        kept = None if y is None else _keepdims(y, x, axis)
        return [self.part(_keepdims(y_bar, x, axis), kept, x, axis, **_own_keywords(keywords))]


class LinearReduction(Reduction):
    """A reduction whose part is linear, so that it reads no more of x than its shape."""

    def reads(self, passive: frozenset[int], wanted: Sequence[int]) -> Positions:
        return NOTHING


class SelfAdjoint:
    """The Jacobian is symmetric: g -> J g, called (g, y, x, **keywords), serves both modes."""

    def __init__(self, product: Part) -> None:
        self.product = product

    def reads(self, passive: frozenset[int], wanted: Sequence[int]) -> Positions:
        return positions_read([self.product])

    def forward(self, use: Use, x_dots: Sequence[Value]) -> Value:
        return self.product(x_dots[0], use.y, use.xs[0], **use.keywords)

    def reverse(self, use: Use, y_bar: Value, wanted: Sequence[int]) -> list[Value]:
        return [self.product(y_bar, use.y, use.xs[0], **use.keywords)]


class Tangents:
    """y_dot is the sum of one part an array, called (x_dot, y, *xs, **keywords).

    `transposes` are called (y_bar, y, *xs, **keywords); where one is None, or none are stated, the
    transpose is found.
    """

    def __init__(self, *pushes: Part, transposes: Sequence[Part | None] = ()) -> None:
        self.pushes = pushes
        self.transposes = transposes or (None,) * len(pushes)

    def reads(self, passive: frozenset[int], wanted: Sequence[int]) -> Positions:
        return positions_read([self.transposes[i] or self.pushes[i] for i in wanted])

    def forward(self, use: Use, x_dots: Sequence[Value]) -> Value:
        return _sum_of_parts(self.pushes, x_dots, use)

    def reverse(self, use: Use, y_bar: Value, wanted: Sequence[int]) -> list[Value]:
        return [self._pulled_back(i, y_bar, use) for i in wanted]

    def _pulled_back(self, i: int, y_bar: Value, use: Use) -> Value:
        transpose = self.transposes[i]
        if transpose is not None:
            return transpose(y_bar, use.y, *use.xs, **use.keywords)
        return _transposed_part(self.pushes[i], y_bar, use, i)


class Implicit:
    """y is given by equations: J y_dot = the sum of one part an array, (x_dot, y, *xs, **keywords).

    `solve` and `adjoint` are called (r, *xs, **keywords): J^-1 r, and J^-T y_bar, which all the
    cotangents share.
    """

    def __init__(self, solve: Part, adjoint: Part, *pushes: Part) -> None:
        self.solve = solve
        self.adjoint = adjoint
        self.pushes = pushes

    def forward(self, use: Use, x_dots: Sequence[Value]) -> Value:
        right = _sum_of_parts(self.pushes, x_dots, use)
        return self.solve(right, *use.xs, **use.keywords)

    def reverse(self, use: Use, y_bar: Value, wanted: Sequence[int]) -> list[Value]:
        w = self.adjoint(y_bar, *use.xs, **use.keywords)
        return [_transposed_part(self.pushes[i], w, use, i) for i in wanted]


def _sum_of_parts(parts: Sequence[Part | None], x_dots: Sequence[Value], use: Use) -> Value:
    """Of the parts whose argument moves; None where none does."""
    _, xs, y, keywords = use
    total = None
    for part, x_dot in zip(parts, x_dots, strict=True):
        if part is not None and x_dot is not None:
            term = part(x_dot, y, *xs, **keywords)
            total = term if total is None else total + term
    return total


def _transposed_part(push: Part, bar: Value, use: Use, i: int) -> Value:
    _, xs, y, keywords = use
    return transposed(lambda x_dot: [push(x_dot, y, *xs, **keywords)], xs[i], [bar])


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that `axis` (None, an int or a tuple) means, non-negative and in order.

    Raises AxisError for an axis that an array of that many does not have.
    """
    if axis is None:
        return tuple(range(ndim))
    axes: tuple[int, ...] = (int(axis),) if isinstance(axis, (int, np.integer)) else axis
    for a in axes:
        if not -ndim <= a < ndim:
            raise np.exceptions.AxisError(a, ndim)
    return tuple(sorted(int(a) % ndim for a in axes))


def _own_keywords(keywords: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keywords without those that every reduction has."""
    if not keywords:
        return keywords
    return {name: value for name, value in keywords.items() if name not in ("axis", "keepdims")}


def _keepdims(y: Value, x: Value, axis: Any) -> Value:
    """y, or its cotangent, with the reduced axes of x at length 1."""
    shape = x.shape
    if axis is None:
        kept = (1,) * len(shape)
    else:
        axes = axes_of(axis, len(shape))
        kept = tuple([1 if i in axes else n for i, n in enumerate(shape)])
    return y if y.shape == kept else y.reshape(kept)
