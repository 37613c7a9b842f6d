"""Symbols: values of one point that know which node of a program gives them.

What runs on symbols is written down as a `Program`, row by row. Every symbol also holds the float64
value of the point, so that shapes, indices and choices of the code are those of the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.program import Node, Program
from gradcheck_cli.engines.trace.moves import taken, without_axes
from gradcheck_cli.formula.program import Builder
from gradcheck_cli.formula.shapes import KINDS, wanted_kinds
from reference_engine.op import REQUIRED, TABLE
from reference_engine.traced import ROWS, Traced, Value, new_level, shape_of


class Symbol(Traced):
    """An array: `value` (float64, int64 or bool) at the point, and the `node` that gives it."""

    __slots__ = ("node", "writer")
    composes = False

    def __init__(self, writer: ProgramWriter, value: Array, node: int) -> None:
        self.level = writer.level
        self.value = value
        self.node = node
        self.writer = writer

    def apply(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Value:
        return self.writer.row(op, args, keywords)


class ProgramWriter:
    """Appends a node for every row that is called with a symbol. `span`, `text` and `source` are
    the place of the nodes that follow. `constants` has the arrays that are inputs of the program
    and not of the layer, by name. `public`: formulas may have all of its rows."""

    def __init__(self, span: Span, dtype: str = "float64", public: bool = True) -> None:
        self.level = new_level()
        self._format = FORMATS[dtype]
        self.public = public
        self.span, self.text = span, ""
        self.source: Source | None = None
        self.constants: dict[str, Array] = {}
        self._builder = Builder({})
        self._numbers: dict[str, int] = {}  # by their repr: 0.0 is not -0.0
        self._arrays: dict[int, tuple[Any, int]] = {}  # by identity, which they keep while held

    @property
    def size(self) -> int:
        """How many nodes were written."""
        return len(self._builder.nodes)

    def input(self, name: str, value: Array) -> Symbol:
        """An input of the program, at its value."""
        return Symbol(self, value, self._builder.input(name, value.shape, _kind(value), self.span))

    def row(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Symbol:
        """The row of the arguments, as a node. Raises what the row raises, and TypeError for one
        that no formula may call."""
        if self.public and op.name not in TABLE:
            raise TypeError(f"formulas have no `{op.name}`")
        args = [_exact(x) for x in args]
        values = [x.value if isinstance(x, Symbol) else x for x in args]
        with np.errstate(all="ignore"):
            value = op.on_arrays(values, keywords)
        places = tuple(x.node if isinstance(x, Symbol) else self._constant(x) for x in args)
        if _kind(value) == "float" and all(self._builder.nodes[i].kind == "bool" for i in places):
            places = (self._number_of(places[0]), *places[1:])
        usual = {n: value for n, value in op.keywords.items() if value is not REQUIRED}
        keywords = {**usual, **keywords}
        if not isinstance(keywords.get("index", ()), tuple):
            keywords["index"] = (keywords["index"],)  # as formulas have it
        name, shorter, keywords = self._shortest(op.name, places, keywords)
        text = self.text or op.name
        if name != op.name:  # the operation is still the one that gave its argument
            text = self._builder.nodes[places[0]].text
        places = shorter
        kinds = [self._builder.nodes[i].kind for i in places]
        node = Node(
            name,
            places,
            dict(keywords),
            self.span,
            text,
            shape=value.shape,
            kind=_kind(value),
            wants=wanted_kinds(ROWS[name], kinds, _kind(value)),
            source=self.source,
        )
        return Symbol(self, value, self._builder.append(node))

    def _number_of(self, mask: int) -> int:
        """The node of a mask as numbers: formulas do not calculate with masks alone."""
        node = self._builder.nodes[mask]
        symbol = Symbol(self, np.zeros(node.shape, bool), mask)
        return self.row(ROWS["where"], (symbol, 1.0, 0.0), {}).node

    def _shortest(
        self, op: str, args: tuple[int, ...], keywords: dict[str, Any]
    ) -> tuple[str, tuple[int, ...], dict[str, Any]]:
        """The row, or one that does what it does after the row that gave its argument."""
        inner = self._builder.nodes[args[0]] if op == "reshape" else None
        if inner is not None and inner.op == "reshape":
            return op, inner.args, keywords
        if inner is not None and tuple(keywords["shape"]) == self._kept(inner):
            return inner.op, inner.args, {**inner.keywords, "keepdims": True}
        if inner is not None and inner.op == "getitem":
            index = without_axes(inner.keywords["index"], inner.shape, tuple(keywords["shape"]))
            if index is not None:
                return "getitem", inner.args, {"index": index}
        return op, args, keywords

    def _kept(self, node: Node) -> tuple[int, ...] | None:
        """The shape of a reduction if its axes were kept; None for what is no such row."""
        if node.keywords.get("keepdims") is not False:
            return None
        shape, axis = self._builder.nodes[node.args[0]].shape, node.keywords["axis"]
        axes = range(len(shape)) if axis is None else np.atleast_1d(axis) % len(shape)
        return tuple(1 if i in axes else size for i, size in enumerate(shape))

    def moved(
        self, move: Callable[[Sequence[Array]], Sequence[Array]], args: Sequence[Value]
    ) -> list[Value]:
        """An operation that only moves numbers. It is run on their places: each of its results is
        taken from all numbers that it was given, one after the other, behind a zero."""
        parts: list[Value] = [np.zeros(1)]
        places, end = [], 1
        for x in args:
            if _is_float(x):
                size = math.prod(shape_of(x))
                numbers = np.arange(end, end + size, dtype=np.float64)
                places.append(numbers.reshape(shape_of(x)))
                parts.append(x)
                end += size
            else:  # indices, or a mask
                places.append(x.value if isinstance(x, Symbol) else x)
        return [taken(parts, np.asarray(y)) for y in move(places)]

    def _constant(self, value: Any) -> int:
        """The node of a number, or of an array as one more input."""
        if isinstance(value, (bool, int, float)):
            number = value if isinstance(value, (bool, int)) else float(value)
            text = repr(number)
            if isinstance(number, float) and self._format.round(number) != number:
                return self._constant(np.asarray(number))
            if text not in self._numbers:
                self._numbers[text] = self._builder.constant(number, self.span, text)
            return self._numbers[text]
        if id(value) not in self._arrays:
            self._arrays[id(value)] = value, self.constant(np.asarray(value)).node
        return self._arrays[id(value)][1]

    def constant(self, array: Array) -> Symbol:
        """An array as one more input of the program."""
        names = (f"constant{number}" for number in count(len(self.constants) + 1))
        name = next(name for name in names if name not in self._builder.inputs)
        self.constants[name] = array
        return self.input(name, array)

    def program(self, *outputs: Symbol | None) -> Program:
        """What the outputs need of all that was written."""
        return self._builder.program([y if y is None else y.node for y in outputs], "")


def _exact(x: Value) -> Value:
    """Balls that a kernel made of integers or a mask, as the numbers that they are."""
    from reference_engine.arithmetic.balls import Ball, midpoints

    return midpoints(x) if isinstance(x, Ball) else x


def _is_float(x: Value) -> bool:
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype.kind == "f"


def _kind(value: Array) -> str:
    """Raises TypeError for numbers that no formula holds."""
    kind = KINDS.get(value.dtype.kind)
    if kind is None:
        raise TypeError(f"formulas do not support {value.dtype}")
    return kind
