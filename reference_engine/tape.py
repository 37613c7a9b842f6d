"""Reverse mode: tensors that record what made them, and the walk back.

A recorded value consists of a Node, which the program holds, and its Record in the graph. Records
refer to the records of the arguments and to the arrays that the rule will read, never to nodes, so
that an array which no rule reads is freed as soon as the program lets go of it. The walk visits
the records from the youngest to the oldest, each after everything that used it, so it needs no
recursion; its time is linear in the number of recorded operations, but for the heap in which some
of them wait. (Griewank and Walther, Evaluating Derivatives, section 3.2.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from reference_engine.errors import GraphFreed, ShapeError
from reference_engine.floats import Array
from reference_engine.traced import (
    CONSTANT_LEVEL,
    ROWS,
    USER_LEVEL,
    Traced,
    Use,
    Value,
    new_level,
    recording_floor,
    shape_of,
    to_array,
)

if TYPE_CHECKING:
    from reference_engine.op import Op

_serials = count()


class Record:
    """What the graph knows of a value: the operation that made it, and from what.

    op, keywords    the operation; op is None for a leaf
    wanted          positions of the arguments that were recorded on the same level
    parents         their records, in that order
    xs              the arguments one level down; None once the reverse pass freed them. On a level
                    other than the user's, what the rule does not read is replaced by the parent's
                    record, which has its shape and dtype
    value           the result one level down; None where the rule does not read it
    """

    __slots__ = (
        "dtype",
        "keywords",
        "op",
        "parents",
        "serial",
        "shape",
        "value",
        "wanted",
        "xs",
    )
    __array_ufunc__ = None  # computing with a record in an array's place is a TypeError

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        op: Op | None = None,
        keywords: dict[str, Any] | None = None,
        wanted: Sequence[int] = (),
        parents: Sequence[Record] = (),
        xs: Sequence[Value] | None = None,
        value: Value = None,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.op = op
        self.keywords = keywords
        self.wanted = wanted
        self.parents = parents
        self.xs = xs
        self.value = value
        self.serial = next(_serials)


class Leaf(Record):
    """The record of a variable; `grad`, where it has been given one, is as in Tensor."""

    __slots__ = ("grad",)

    grad: Any


class Node(Traced):
    """A recorded value, as a program holds it; `record` is None for a constant."""

    __slots__ = ("record",)

    record: Any  # a Record, but for constants, which no walk meets

    def __init__(self, level: int, value: Value, record: Record | None = None) -> None:
        self.level = level
        self.value = value
        if record is None and level != CONSTANT_LEVEL:
            record = Leaf(value.shape, value.dtype)
        self.record = record

    @property
    def op(self) -> Op | None:
        """The operation that made this value; None for a constant and a leaf."""
        return None if self.record is None else self.record.op

    def apply(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Value:
        """Compute one level down, and record unless nothing is to be differentiated."""
        level = self.level
        if len(args) == 1:
            xs, parents, mask = [self.value], [self.record], 1
            plain = not isinstance(self.value, Traced)
        else:
            xs, parents, mask, plain = self._lowered(args)
        value = op.on_arrays(xs, keywords) if plain else op(*xs, **keywords)
        if op.rule is not None and level > recording_floor():
            wanted, active, keeps_result, unread = op.recordings[mask]
            if active:
                kept = value
                if level != USER_LEVEL:  # the user's tape can be looked at and differentiated again
                    if not keeps_result:
                        kept = None
                    for i, k in unread:
                        xs[i] = parents[k]
                made = Record(value.shape, value.dtype, op, keywords, wanted, parents, xs, kept)
                return type(self)(level, value, made)
        if level <= USER_LEVEL and not isinstance(value, Traced):
            return type(self)(CONSTANT_LEVEL, value)
        return value

    def _lowered(self, args: Sequence[Value]) -> tuple[list[Value], list[Record], int, bool]:
        """The arguments one level down; the records of those on this level, with their positions as
        bits; whether none of the lower ones is traced."""
        level = self.level
        xs = list(args)
        parents = []
        mask = 0
        plain = True
        for i, a in enumerate(args):
            if isinstance(a, Traced):
                if a.level == level:
                    mask |= 1 << i
                    parents.append(a.record)  # type: ignore[attr-defined]
                    xs[i] = a = a.value
                elif a.level == CONSTANT_LEVEL:
                    xs[i] = a = a.value
                if plain and isinstance(a, Traced):
                    plain = False
        return xs, parents, mask, plain


class Frontier(dict[Record, Value]):
    """The records that the walk has yet to visit, with what has arrived at each so far.

    A plain cotangent that is constant along an axis, as that of a sum is, may have length 1 there.
    """

    def __init__(self) -> None:
        self.by_age: list[tuple[int, Record]] = []  # a heap, the youngest first
        self._sums: set[Record] = set()  # whose array was made here, so that nobody else has it

    def add(self, record: Record, bar: Value) -> None:
        """Add what one use of the value contributes."""
        if bar.shape != record.shape or bar.dtype is not record.dtype:
            bar = fit_cotangent(bar, record)
        old = self.get(record)
        if old is None:
            self[record] = bar
            heappush(self.by_age, (-record.serial, record))
        elif record in self._sums and old.shape == record.shape and not isinstance(bar, Traced):
            np.add(old, bar, out=old)
        else:
            self._put_sum(record, ROWS["add"](old, bar))

    def add_part(self, record: Record, y_bar: Value, op: Op, keywords: Any) -> None:
        """Add a cotangent that is zero but for a part, without an array of zeros for each."""
        assert op.add_to is not None
        assert op.rule is not None
        old = self.get(record)
        if isinstance(y_bar, Traced) or isinstance(old, Traced):
            self.add(record, op.rule.reverse(Use(op, [record], None, keywords), y_bar, [0])[0])
            return
        if old is None:
            old = np.zeros(record.shape, record.dtype)
            heappush(self.by_age, (-record.serial, record))
        elif record not in self._sums or old.shape != record.shape:
            old = np.array(np.broadcast_to(old, record.shape))
        self._put_sum(record, old)
        op.add_to(old, y_bar, **keywords)

    def _put_sum(self, record: Record, bar: Value) -> None:
        self[record] = bar
        if type(bar) is np.ndarray:
            self._sums.add(record)
        else:
            self._sums.discard(record)


def pull_back(
    seeds: Sequence[tuple[Node, Value]],
    targets: Sequence[Node] = (),
    *,
    create_graph: bool = False,
    free: bool = False,
    observe: Callable[[Record, Value], None] | None = None,
) -> dict[Record, Value]:
    """Carry the cotangents of the seeds back to the leaves, or to the targets where there are any.

    Returns the cotangents of the leaves and targets that were reached, by their records. With
    create_graph the walk itself is recorded, on the user's tape, which the seeds must be on. With
    `free`, every record lets go of what it kept as soon as the walk has passed it. `observe` sees
    every record that an operation made, and its complete cotangent.
    """
    stop = {target.record for target in targets if target.record.op is not None}
    bars = Frontier()
    for node, bar in seeds:
        bars.add(node.record, bar)
    reached: dict[Record, Value] = {}
    while bars:
        record = heappop(bars.by_age)[1]
        y_bar = bars.pop(record)
        op = record.op
        if y_bar.shape != record.shape and not _takes_repeated(record, stop, observe):
            y_bar = ROWS["broadcast_to"](y_bar, shape=record.shape)
        if op is None or (stop and record in stop):
            reached[record] = y_bar
            continue
        if record.xs is None:
            raise GraphFreed
        if observe is not None:
            observe(record, y_bar)
        if op.add_to is not None and not create_graph:
            bars.add_part(record.parents[0], y_bar, op, record.keywords)
        else:
            y, xs = _as_nodes(record, seeds[0][0]) if create_graph else (record.value, record.xs)
            _reverse(bars, record, y_bar, y, xs)
        if free:
            record.xs = record.value = None
            record.parents = ()
    return reached


def _takes_repeated(record: Record, stop: set[Record], observe: Any) -> bool:
    """Whether everybody who is to see the cotangent of a record can do with a repeated axis."""
    return (
        record.op is not None
        and record.op.takes_repeated
        and record not in stop
        and observe is None
        and all(parent.shape == record.shape for parent in record.parents)
    )


def _reverse(bars: Frontier, record: Record, y_bar: Value, y: Value, xs: Any) -> None:
    """Hand the cotangent of a record on to its parents; no array outlives this call needlessly."""
    op: Any = record.op
    keywords: Any = record.keywords
    x_bars = op.rule.reverse(Use(op, xs, y, keywords), y_bar, record.wanted)
    parents = record.parents
    for k, x_bar in enumerate(x_bars):
        if x_bar is not None:
            bars.add(parents[k], x_bar)


def _as_nodes(record: Record, like: Node) -> tuple[Node, list[Value]]:
    """The result and the arguments of a record of the user's tape as it was called with them."""
    kind, level = type(like), like.level
    xs: list[Value] = list(record.xs or ())
    for i, parent in zip(record.wanted, record.parents, strict=True):
        xs[i] = kind(level, xs[i], parent)
    return kind(level, record.value, record), xs


def fit_cotangent(x_bar: Value, x: Any) -> Value:
    """Undo broadcasting and promotion: the cotangent in the shape and dtype of x.

    This is the one place where that is done. An argument that was stretched along an axis was used
    many times there, so its cotangents are summed along it. A plain cotangent that is itself to be
    stretched is left as it is, see Frontier.
    """
    shape = x.shape
    given = x_bar.shape
    if given != shape:
        extra = len(given) - len(shape)
        if extra > 0 and given[extra:] == shape:
            x_bar = ROWS["sum"](x_bar, axis=tuple(range(extra)))
        elif extra == 0 and all(m in (n, 1) for m, n in zip(given, shape, strict=True)):
            if isinstance(x_bar, Traced):
                x_bar = ROWS["broadcast_to"](x_bar, shape=shape)
        else:
            axes = [i for i, n in enumerate(given) if i < extra or (shape[i - extra] == 1 != n)]
            x_bar = ROWS["sum"](x_bar, axis=tuple(axes)).reshape(shape)
    if x_bar.dtype != x.dtype:
        x_bar = ROWS["astype"](x_bar, dtype=x.dtype)
    return x_bar


def transposed(
    linear: Callable[[Value], Sequence[Value]], at: Value, cotangents: Sequence[Value]
) -> Value:
    """The transpose of a linear function, applied to cotangents (None: zero) of its outputs.

    `linear` takes one value like `at` and returns a sequence (None: nothing). It is recorded once,
    at zero, and walked back; a linear function has the same derivative everywhere.
    """
    variable = Node(new_level(), np.zeros(shape_of(at), at.dtype))
    outputs = linear(variable)
    seeds = [
        (y, y_bar)
        for y, y_bar in zip(outputs, cotangents, strict=True)
        if y_bar is not None and isinstance(y, Node) and y.level == variable.level
    ]
    found = pull_back(seeds, [variable], free=True).get(variable.record)
    return np.zeros(variable.shape, variable.dtype) if found is None else found


def check_cotangent(y_bar: Value, y: Value, name: str) -> Value:
    """The cotangent of y: ones if None was given for a scalar, else in y's shape and dtype."""
    if y_bar is None:
        if y.shape != ():
            raise ShapeError(name, (y.shape,), "an output that is not a scalar needs a cotangent")
        return np.array(1, y.dtype)
    if not isinstance(y_bar, Traced):
        y_bar = np.asarray(y_bar)
    if y_bar.shape != y.shape:
        raise ShapeError(name, (y.shape, y_bar.shape), "the cotangent must have the output's shape")
    return y_bar if y_bar.dtype == y.dtype else ROWS["astype"](y_bar, dtype=y.dtype)


def sensitivities(output: Node, cotangent: Value = None) -> list[tuple[Op, Array, Array]]:
    """How <cotangent, output> reacts to a change of every recorded intermediate result.

    One entry (op, value, d<cotangent, output>/d value) for every operation on the user's tape that
    the output depends on, the output's own included and leaves left out, oldest first; value and
    derivative have the same shape. The tape may span a reverse pass that was recorded with
    create_graph. The tape is kept. Without a cotangent the output must be a scalar, or ShapeError
    is raised; TypeError if the output was not recorded on the user's tape.
    """
    if not isinstance(output, Node) or output.op is None or output.level != USER_LEVEL:
        raise TypeError("sensitivities needs a tensor that was recorded on the user's tape")
    records: list[tuple[Op, Array, Array]] = []

    def observe(record: Record, y_bar: Value) -> None:
        assert record.op is not None
        records.append((record.op, to_array(record.value), to_array(y_bar)))

    with np.errstate(all="ignore"):
        pull_back([(output, check_cotangent(cotangent, output, "sensitivities"))], observe=observe)
    records.reverse()
    return records
