"""Reverse mode: tensors that record what made them, and the walk back.

A tensor keeps the operation, its arguments and keywords. The walk visits the recorded tensors from
the youngest to the oldest, each after everything that used it, so it needs no recursion; its time
is linear in the number of recorded operations, but for sorting their serial numbers. (Griewank and
Walther, Evaluating Derivatives, section 3.2.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from reference_engine.arithmetic.floats import Array
from reference_engine.errors import GraphFreed, ShapeError
from reference_engine.traced import (
    CONSTANT_LEVEL,
    ROWS,
    USER_LEVEL,
    Traced,
    Value,
    new_level,
    records,
    shape_of,
    to_array,
)

if TYPE_CHECKING:
    from reference_engine.op import Op

_serials = count()
_by_age = attrgetter("serial")


class Node(Traced):
    """A recorded value. `op` is None for a leaf; `args` is None once the reverse pass freed it."""

    __slots__ = ("args", "grad", "keywords", "op", "serial")

    op: Op | None
    args: Sequence[Value] | None
    grad: Any

    def __init__(
        self,
        level: int,
        value: Value,
        op: Op | None = None,
        args: Sequence[Value] | None = (),
        keywords: dict[str, Any] | None = None,
    ) -> None:
        self.level = level
        self.value = value
        self.op = op
        self.args = args
        self.keywords = keywords
        self.serial = next(_serials)
        self.grad = None

    def apply(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Value:
        """Compute one level down, and record unless nothing is to be differentiated."""
        level = self.level
        cls = type(self)
        lower = self.lower(args)
        value = op(*lower, **keywords)
        if (
            op.rule is not None
            and level != CONSTANT_LEVEL
            and records(level)
            and not (op.passive and self._only_passive(op, args))
        ):
            return cls(level, value, op, args, keywords)
        if level <= USER_LEVEL and not isinstance(value, Traced):
            return cls(CONSTANT_LEVEL, value)
        return value

    def _only_passive(self, op: Op, args: Sequence[Value]) -> bool:
        active = (a for i, a in enumerate(args) if i not in op.passive)
        return not any(isinstance(a, Traced) and a.level == self.level for a in active)


def ordered(roots: Iterable[Node], stop: frozenset[int] | set[int]) -> list[Node]:
    """Every recorded node that the roots depend on, youngest first; not past the ids in `stop`.

    Raises GraphFreed where the record was freed.
    """
    seen: dict[int, Node] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        if node.op is None or id(node) in stop:
            continue
        if node.args is None:
            raise GraphFreed
        for arg in node.args:
            if isinstance(arg, Node) and arg.level == node.level and id(arg) not in seen:
                stack.append(arg)
    return sorted(seen.values(), key=_by_age, reverse=True)


def pull_back(
    seeds: Sequence[tuple[Node, Value]],
    targets: Sequence[Node] = (),
    *,
    create_graph: bool = False,
    free: bool = False,
    observe: Callable[[Node, Value], None] | None = None,
) -> dict[int, tuple[Node, Value]]:
    """Carry the cotangents of the seeds back to the leaves, or to the targets where there are any.

    Returns the leaves and targets that were reached, by id, with their cotangents. With
    create_graph the walk itself is recorded, on the level of the seeds. With `free`, every node
    lets go of what it kept. `observe` sees every node that an operation made, and its complete
    cotangent.
    """
    stop = {id(t) for t in targets}
    bars: dict[int, Value] = {}
    for node, bar in seeds:
        _accumulate(bars, node, bar)
    reached: dict[int, tuple[Node, Value]] = {}
    for node in ordered((node for node, _ in seeds), stop):
        y_bar = bars.pop(id(node), None)
        op, args = node.op, node.args
        if y_bar is None:
            continue
        if op is None or args is None or id(node) in stop:
            reached[id(node)] = (node, y_bar)
            continue
        if observe is not None:
            observe(node, y_bar)
        assert op.rule is not None  # or it would not have been recorded
        level = node.level
        wanted = [i for i, a in enumerate(args) if isinstance(a, Node) and a.level == level]
        y, xs = (node, args) if create_graph else (node.value, node.lower(args))
        x_bars = op.rule.reverse(op, y_bar, y, xs, wanted, node.keywords)
        for i, x_bar in zip(wanted, x_bars, strict=True):
            if x_bar is not None:
                _accumulate(bars, args[i], x_bar)
        if free:
            node.args = None
    return reached


def _accumulate(bars: dict[int, Value], x: Node, x_bar: Value) -> None:
    x_bar = fit_cotangent(x_bar, x)
    old = bars.get(id(x))
    bars[id(x)] = x_bar if old is None else ROWS["add"](old, x_bar)


def fit_cotangent(x_bar: Value, x: Value) -> Value:
    """Undo broadcasting and promotion: the cotangent in the shape and dtype of x.

    This is the one place where that is done. An argument that was stretched along an axis was used
    many times there, so its cotangents are summed along it.
    """
    shape = x.shape
    given = shape_of(x_bar)
    if given != shape:
        extra = len(given) - len(shape)
        axes = tuple(
            i for i, n in enumerate(given) if i < extra or (shape[i - extra] == 1 and n != 1)
        )
        x_bar = ROWS["reshape"](ROWS["sum"](x_bar, axis=axes), shape=shape)
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
    found = pull_back(seeds, [variable]).get(id(variable))
    return np.zeros(variable.shape, variable.dtype) if found is None else found[1]


def check_cotangent(y_bar: Value, y: Value, name: str) -> Value:
    """The cotangent of y: ones if None was given for a scalar, else in y's shape and dtype."""
    if y_bar is None:
        if y.shape != ():
            raise ShapeError(name, (y.shape,), "an output that is not a scalar needs a cotangent")
        return np.ones((), y.dtype)
    if not isinstance(y_bar, Traced):
        y_bar = np.asarray(y_bar)
    if y_bar.shape != y.shape:
        raise ShapeError(name, (y.shape, y_bar.shape), "the cotangent must have the output's shape")
    return y_bar if y_bar.dtype == y.dtype else ROWS["astype"](y_bar, dtype=y.dtype)


def sensitivities(output: Node, cotangent: Value = None) -> list[tuple[Op, Array, Array]]:
    """How <cotangent, output> reacts to a change of every recorded intermediate result.

    One entry (op, value, d<cotangent, output>/d value) for every operation on the tape that the
    output depends on, the output's own included and leaves left out, oldest first; value and
    derivative have the same shape. The tape may span a reverse pass that was recorded with
    create_graph. The tape is kept. Without a cotangent the output must be a scalar, or ShapeError
    is raised; TypeError if the output was not recorded.
    """
    if not isinstance(output, Node) or output.op is None:
        raise TypeError("sensitivities needs a tensor that was recorded on a tape")
    found: list[tuple[Op, Array, Array]] = []

    def observe(node: Node, y_bar: Value) -> None:
        assert node.op is not None
        found.append((node.op, to_array(node), to_array(y_bar)))

    with np.errstate(all="ignore"):
        pull_back([(output, check_cotangent(cotangent, output, "sensitivities"))], observe=observe)
    found.reverse()
    return found
