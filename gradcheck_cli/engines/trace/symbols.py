"""Symbols: values at one point that know the node of a program that computes them.

Code that runs on symbols is written down as a `Program`, row by row. Every symbol also has its
float64 value at the point, so that shapes, indices and choices of the code are those of the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count, permutations
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, is_same_view
from gradcheck_cli.domain.layer import MANY
from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.program import CONSTANT, INPUT, Node, Program
from gradcheck_cli.formula.program import Builder
from gradcheck_cli.formula.shapes import KINDS, broadcasts, wanted_kinds
from reference_engine.op import REQUIRED, TABLE
from reference_engine.traced import ROWS, Traced, Value, new_level, shape_of

_MOST_AXES = 5  # 120 orders of axes are tried


class Symbol(Traced):
    """An array: its `value` (float64, int64 or bool) at the point, and the `node` that computes
    it."""

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
    the place of the following nodes. `constants` has the arrays, by name, that are inputs of the
    program but not of the layer. `public`: formulas may have all of its rows."""

    def __init__(self, span: Span, dtype: str = "float64", public: bool = True) -> None:
        self.level = new_level()
        self._format = FORMATS[dtype]
        self.public = public
        self.span, self.text = span, ""
        self.factored: dict[int, Symbol] = {}  # by node of packed LU factors, their product
        self.source: Source | None = None
        self.constants: dict[str, Array] = {}
        self._builder = Builder({})
        self._numbers: dict[str, int] = {}  # by their repr: 0.0 is not -0.0
        self._arrays: dict[int, tuple[Any, int]] = {}  # by identity, which they keep while held

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self._builder.nodes)

    def rows_since(self, size: int) -> set[str]:
        """The rows of the nodes after the first `size`, inputs and constants left out."""
        return {node.op for node in self._builder.nodes[size:]} - {INPUT, CONSTANT}

    def keep(self, symbol: Symbol) -> None:
        """Notes that an engine stores the number of this node."""
        nodes = self._builder.nodes
        nodes[symbol.node] = replace(nodes[symbol.node], kept=True)

    def input(self, name: str, value: Array) -> Symbol:
        """Adds an input of the program with its value."""
        return Symbol(self, value, self._builder.input(name, value.shape, _kind(value), self.span))

    def row(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Symbol:
        """Adds the row as a node. Raises what the row raises, and TypeError for a row that formulas
        may not call."""
        if self.public and op.name not in TABLE:
            raise TypeError(f"formulas have no `{op.name}`")
        args = [_exact(x) for x in args]
        values = [x.value if isinstance(x, Symbol) else x for x in args]
        value = op.on_arrays(values, keywords)
        places = tuple(x.node if isinstance(x, Symbol) else self._constant(x) for x in args)
        if _kind(value) == "float" and all(self._builder.nodes[i].kind == "bool" for i in places):
            places = (self._number_of(places[0]), *places[1:])
        usual = {n: value for n, value in op.keywords.items() if value is not REQUIRED}
        keywords = {**usual, **keywords}
        if not isinstance(keywords.get("index", ()), tuple):
            keywords["index"] = (keywords["index"],)  # as formulas have it
        known = self._existing_node(op.name, places, keywords, value.shape)
        if known is not None:
            return Symbol(self, value, known)
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

    def _existing_node(
        self, op: str, args: tuple[int, ...], keywords: dict[str, Any], shape: tuple[int, ...]
    ) -> int | None:
        """An existing node with the same numbers: for an array that is broadcast to its own shape,
        for indices whose shape is restored, or for one part of a stack, such as the real parts of
        complex numbers."""
        inner = self._builder.nodes[args[0]] if args else None
        if inner is None or (op == "broadcast_to" and inner.shape == shape):
            return args[0] if args else None
        if op == inner.op == "reshape" and inner.kind == "int":  # numbers may have a new layout
            return inner.args[0] if self._builder.nodes[inner.args[0]].shape == shape else None
        if op != "getitem" or inner.op != "stack":
            return None
        index = keywords["index"]
        if any(not isinstance(part, int) and part != slice(None) for part in index):
            return None
        numbers = [axis for axis, part in enumerate(index) if isinstance(part, int)]
        axis = inner.keywords["axis"] % len(inner.shape)
        return inner.args[index[axis]] if numbers == [axis] else None

    def _number_of(self, mask: int) -> int:
        """The node of a mask as numbers, because formulas cannot compute with masks alone."""
        node = self._builder.nodes[mask]
        symbol = Symbol(self, np.zeros(node.shape, bool), mask)
        return self.row(ROWS["where"], (symbol, 1.0, 0.0), {}).node

    def _shortest(
        self, op: str, args: tuple[int, ...], keywords: dict[str, Any]
    ) -> tuple[str, tuple[int, ...], dict[str, Any]]:
        """The row, or an equivalent one that replaces it and the row of its argument."""
        inner = self._builder.nodes[args[0]] if op == "reshape" else None
        if inner is not None and inner.op == "reshape":
            return op, inner.args, keywords
        if inner is not None and tuple(keywords["shape"]) == self._shape_with_axes(inner):
            return inner.op, inner.args, {**inner.keywords, "keepdims": True}
        if inner is not None and inner.op == "getitem":
            index = _without_axes(inner.keywords["index"], inner.shape, tuple(keywords["shape"]))
            if index is not None:
                return "getitem", inner.args, {"index": index}
        return op, args, keywords

    def _shape_with_axes(self, node: Node) -> tuple[int, ...] | None:
        """The shape of a reduction with its axes kept; None for other rows."""
        if node.keywords.get("keepdims") is not False:
            return None
        shape, axis = self._builder.nodes[node.args[0]].shape, node.keywords["axis"]
        axes = range(len(shape)) if axis is None else np.atleast_1d(axis) % len(shape)
        return tuple(1 if i in axes else size for i, size in enumerate(shape))

    def move_numbers(
        self, move: Callable[[Sequence[Array]], Sequence[Array]], args: Sequence[Value]
    ) -> list[Value]:
        """Adds an operation that only moves numbers. It runs on the places of the numbers: each
        result is taken from all given numbers, joined behind a zero. Indices and masks next to
        floats say where these go; on their own, they are moved. Raises TypeError if a program that
        holds elsewhere would depend on an index or a mask of the run."""
        kinds = "f" if any(_is_of(x, "f") for x in args) else "iu"
        if kinds != "f" and any(isinstance(x, Symbol) and _is_of(x, "b") for x in args):
            kinds = "b"
        moving = [x for x in args if _is_of(x, kinds)]
        if kinds == "f" and len(args) == 1 and math.prod(shape_of(args[0])) >= MANY:
            views = _views(move, args[0])
            if views is not None:
                return views
        zero: Array = np.zeros(1, moving[0].dtype if moving else np.float64)
        parts: list[Value] = [zero]
        places, end = [], 1
        for x in args:
            if kinds == "iu" and not isinstance(x, Symbol) and _is_of(x, kinds):
                raise TypeError("indices beside indices that depend on numbers")
            if _is_of(x, kinds):
                size = math.prod(shape_of(x))
                numbers = np.arange(end, end + size, dtype=np.float64).reshape(shape_of(x))
                places.append(numbers)
                parts.append(x)
                end += size
            elif isinstance(x, Symbol) and not self.public:
                raise TypeError("where numbers go depends on the values of the run")
            else:
                places.append(x.value if isinstance(x, Symbol) else x)
        return [take_from_parts(parts, np.asarray(y)) for y in move(places)]

    def _constant(self, value: Any) -> int:
        """The node of a number, or of an array as a further input."""
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
        """Adds an array as a further input of the program."""
        names = (f"constant{number}" for number in count(len(self.constants) + 1))
        name = next(name for name in names if name not in self._builder.inputs)
        self.constants[name] = array
        return self.input(name, array)

    def program(self, *outputs: Symbol | None) -> Program:
        """The program of everything that the outputs need. Constants that nothing reads are
        dropped."""
        nodes = [None if y is None else y.node for y in outputs]
        program = self._builder.program(nodes, "", self.constants)
        self.constants = {n: x for n, x in self.constants.items() if n in program.inputs}
        return program


def _exact(x: Value) -> Value:
    """Balls that a kernel made from integers or a mask, as the original numbers."""
    from reference_engine.arithmetic.balls import Ball, midpoints

    return midpoints(x) if isinstance(x, Ball) else x


def _is_of(x: Value, kinds: str) -> bool:
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype.kind in kinds


def _kind(value: Array) -> str:
    """The kind of the value. Raises TypeError for numbers that formulas cannot hold."""
    kind = KINDS.get(value.dtype.kind)
    if kind is None:
        raise TypeError(f"formulas do not support {value.dtype}")
    return kind


def take_from_parts(parts: Sequence[Value], places: Array) -> Value:
    """An array of the shape of `places`. Each place is an index into all `parts`, joined; the first
    part is the value for positions that nothing was moved to. Uses the rows that a person would
    write, if possible: reshape, transpose, slices, broadcast_to, concatenate, stack; otherwise
    indices."""
    ends = np.cumsum([math.prod(shape_of(part)) for part in parts])
    used = _met(np.searchsorted(ends, places.ravel(), side="right"))
    inside = places.astype(np.int64)
    if not len(used):
        return np.zeros(places.shape)
    if len(used) == 1:
        (which,) = used
        return _from_one(parts[which], inside - (ends[which - 1] if which else 0))
    joined = _joined([parts[i] for i in used], inside, [ends[i - 1] if i else 0 for i in used])
    if joined is not None:
        return joined
    flat = [ROWS["reshape"](part, shape=(-1,)) for part in parts]
    return _indexed(ROWS["concatenate"](*flat, axis=0), inside)


def _views(move: Callable[[Sequence[Array]], Sequence[Array]], x: Value) -> list[Value] | None:
    """The results of an operation that moves numbers of a large array, if they are views: where
    they start and their strides tell where the numbers went. None if they are not."""
    memory = np.empty(shape_of(x))
    found = [_view(x, memory, np.asarray(y)) for y in move([memory])]
    views = [y for y in found if y is not None]
    return views if len(views) == len(found) else None


def _view(x: Value, memory: Array, moved: Array) -> Value | None:
    if not np.may_share_memory(memory, moved):
        return None
    if memory.size == moved.size and is_same_view(memory.reshape(moved.shape), moved):
        return x if memory.shape == moved.shape else ROWS["reshape"](x, shape=moved.shape)
    for order in _orders(memory.ndim, memory.shape, moved.shape):
        if is_same_view(memory.transpose(order), moved):
            return _transposed(x, order)
    index = _slices(memory, moved)
    if index is not None and is_same_view(memory[index], moved):
        return ROWS["getitem"](x, index=index)
    return None


def _slices(memory: Array, moved: Array) -> tuple[int | slice, ...] | None:
    """The slice of each axis, if `moved` is a slice of the memory; None if it has other axes."""
    if memory.ndim != moved.ndim:
        return None
    start, there = (array.__array_interface__["data"][0] for array in (memory, moved))
    offset, parts = there - start, list[int | slice]()
    for axis, (size, stride) in enumerate(zip(memory.shape, memory.strides, strict=True)):
        length, step = moved.shape[axis], max(moved.strides[axis] // stride, 1)
        first, offset = divmod(offset, stride)
        stretch = slice(first, first + (length - 1) * step + 1, step if step > 1 else None)
        parts.append(slice(None) if length == size else stretch)
    return _index_from(parts[::-1])


def _transposed(x: Value, order: tuple[int, ...]) -> Value:
    return ROWS["transpose"](x, axes=None if order == tuple(range(len(order)))[::-1] else order)


def _from_one(x: Value, places: Array) -> Value:
    """Numbers taken from a single array."""
    shape = shape_of(x)
    own = np.arange(math.prod(shape)).reshape(shape)
    if own.size == places.size and np.array_equal(own.ravel(), places.ravel()):
        return x if shape == places.shape else ROWS["reshape"](x, shape=places.shape)
    for order in _orders(len(shape), shape, places.shape):
        if np.array_equal(own.transpose(order), places):
            return _transposed(x, order)
    if broadcasts(shape, places.shape) and np.array_equal(
        np.broadcast_to(own, places.shape), places
    ):
        return ROWS["broadcast_to"](x, shape=places.shape)
    index = _index(shape, places)
    if index is not None and np.array_equal(own[index].ravel(), places.ravel()):
        part = ROWS["getitem"](x, index=index)
        same = shape_of(part) == places.shape
        return part if same else ROWS["reshape"](part, shape=places.shape)
    return _indexed(ROWS["reshape"](x, shape=(-1,)), places)


def _indexed(flat: Value, places: Array) -> Value:
    found = ROWS["take"](flat, places.reshape(-1), axis=0)
    return found if places.ndim == 1 else ROWS["reshape"](found, shape=places.shape)


def _orders(
    axes: int, shape: tuple[int, ...], wanted: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    if axes <= _MOST_AXES and sorted(shape) == sorted(wanted):
        for order in permutations(range(axes)):
            if tuple(shape[i] for i in order) == wanted:
                yield order


def _met(numbers: Array) -> Array:
    """The small whole numbers that occur, in order. `np.unique` sorts all of them."""
    return np.flatnonzero(np.bincount(numbers))


def _index(shape: tuple[int, ...], places: Array) -> tuple[int | slice, ...] | None:
    """The slice of each axis, with its step, or the index on an axis that the result lacks; None if
    steps differ."""
    parts: list[int | slice] = []
    left = list(places.shape)  # of the result's axes: the last ones are those that are kept
    for size, met in reversed([*zip(shape, np.unravel_index(places.ravel(), shape), strict=True)]):
        one = _met(met)
        steps = np.unique(np.diff(one))
        if len(steps) > 1:
            return None
        if len(one) == 1 and left[-1:] != [1]:
            parts.append(int(one[0]))
            continue
        left = left[:-1]
        step = int(steps[0]) if len(steps) else 1
        stretch = slice(int(one[0]), int(one[-1]) + 1, step if step > 1 else None)
        parts.append(slice(None) if len(one) == size else stretch)
    return _index_from(parts)


def _without_axes(
    index: tuple[Any, ...], shape: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[Any, ...] | None:
    """The index that gives the result of another index, which has this shape, without some of its
    axes of length one; None if the wanted shape is a different one."""
    if not all(isinstance(part, int | slice) for part in index):
        return None
    slices = sum(isinstance(part, slice) for part in index)
    full = [*index, *[slice(None)] * (len(shape) - slices)]
    left, lengths = list(wanted), list(shape)
    kept: list[int | slice] = []
    for part in reversed(full):
        length = lengths.pop() if isinstance(part, slice) else 0
        if length == 1 and left[-1:] != [1]:
            kept.append(part.start or 0)
            continue
        if length and (not left or left.pop() != length):
            return None
        kept.append(part)
    return None if left else _index_from(kept)


def _index_from(reversed_index: list[int | slice]) -> tuple[int | slice, ...]:
    """The index without full slices at its end."""
    while reversed_index and reversed_index[0] == slice(None):
        reversed_index.pop(0)
    return tuple(reversed(reversed_index))


def _joined(parts: Sequence[Value], places: Array, starts: Sequence[Any]) -> Value | None:
    """The parts as wholes, joined along an existing axis or a new one; None if that is not the
    result."""
    shapes = [shape_of(part) for part in parts]
    own = [
        np.arange(start, start + math.prod(shape)).reshape(shape)
        for start, shape in zip(starts, shapes, strict=True)
    ]
    if len({len(shape) for shape in shapes}) > 1:
        return None
    for axis in range(len(shapes[0])):
        rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
        if len(rest) == 1 and np.array_equal(np.concatenate(own, axis), places):
            return ROWS["concatenate"](*parts, axis=axis)
    if len(set(shapes)) == 1:
        for axis in range(len(shapes[0]) + 1):
            if np.array_equal(np.stack(own, axis), places):
                return ROWS["stack"](*parts, axis=axis)
    return None
