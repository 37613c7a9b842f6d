"""Programs that run at several points at once: the arrays of all points lie side by side along a
new first axis. A call of NumPy, or a step of a tape, takes as long for eight numbers as for one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.kept import kept
from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT, Node, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.truth.plain import elementwise

REDUCTIONS = frozenset(("sum", "mean", "var", "std", "max", "min", "prod", "all", "any"))
"""Rows that have keywords `axis` and `keepdims`."""

ALONG_AN_AXIS = frozenset(("softmax", "log_softmax", "flip"))
"""Rows with a keyword `axis` whose result has the shape of the argument."""

JOINING = frozenset(("concatenate", "stack"))

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """How a program runs at several points. Arrays have as many axes behind the first as the
    largest of them, so that they meet as they do at one point; the first has length 1 for what is
    the same at all points. Numbers of the code, and whole numbers, have no axes. `keywords` has
    those of the nodes whose axes are counted from the end or in full; `reshaped`, the shapes of
    results that lose or gain axes; `joining`, the nodes whose arguments need as many points; `each`
    is how many numbers a node has on average."""

    axes: int
    keywords: Mapping[int, dict[str, Any]]
    reshaped: Mapping[int, Shape]
    joining: frozenset[int]
    each: float

    def shape(self, count: int, own: Shape) -> Shape:
        """That of an array at so many points."""
        return (count, *(1,) * (self.axes - len(own)), *own)

    def same(self, value: Any, is_input: bool = False) -> Any:
        """What is the same at all points: an array with its axes, a number as it is."""
        array = np.asarray(value)
        has_axes = array.ndim or (is_input and array.dtype.kind == "f")
        return array.reshape(self.shape(1, array.shape)) if has_axes else value

    def call(
        self,
        index: int,
        function: Callable[..., Any],
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        row: Callable[[str], Callable[..., Any]],
    ) -> Any:
        """A node, whose `function` is called with all points; `row` gives that of an operation."""
        if index in self.joining:
            count = max(len(x) for x in args)
            args = [
                x if len(x) == count else row("broadcast_to")(x, shape=(count, *x.shape[1:]))
                for x in args
            ]
        found = function(*args, **self.keywords.get(index, keywords))
        shape = self.reshaped.get(index)
        return found if shape is None else row("reshape")(found, shape=shape)


@kept
def side_by_side(program: Program) -> SideBySide | None:
    """None where an operation gives other numbers, or none, for arrays with more axes."""
    nodes = program.nodes
    most = max((len(node.shape) for node in nodes), default=0)
    numbers = [math.prod(node.shape) for node in nodes]
    keywords: dict[int, dict[str, Any]] = {}
    reshaped: dict[int, Shape] = {}
    joining: set[int] = set()
    numbers_of_the_code: set[int] = set()
    for index, node in enumerate(nodes):
        if node.op == INPUT:
            if not node.shape and node.kind != "float":
                numbers_of_the_code.add(index)
            continue
        plain = numbers_of_the_code.issuperset(node.args) and not node.shape
        if node.op == CONSTANT or elementwise(node.op):
            if plain:
                numbers_of_the_code.add(index)
            continue
        own = [nodes[i].shape for i in node.args]
        if node.op == CUSTOM or not most or numbers_of_the_code.intersection(node.args):
            return None
        if node.op == "matmul" and min(map(len, own)) >= 2:
            continue
        stated = _counted_from_the_end(node, own[0], most) if own and all(numbers) else None
        if stated is None:
            return None
        keywords[index] = {**node.keywords, **stated}
        if node.op in JOINING:
            joining.add(index)
        if node.op not in ALONG_AN_AXIS and node.op != "concatenate":
            reshaped[index] = (-1, *(1,) * (most - len(node.shape)), *node.shape)
    each = sum(numbers) / max(len(numbers), 1)
    return SideBySide(most, keywords, reshaped, frozenset(joining), each)


def _counted_from_the_end(node: Node, own: Shape, most: int) -> dict[str, Any] | None:
    """The keywords of a node where more axes come before those of its argument, `own`; None where
    there are none."""
    op, stated, before = node.op, node.keywords, 1 + most - len(own)
    axis = stated.get("axis")
    if op in REDUCTIONS:
        axes = _axes(axis, len(own)) if own else (-1,)  # a number has an axis of length 1
        several = len(axes) > 1 and op not in ("sum", "mean", "var", "std")
        return None if several else {"axis": axes[0] if len(axes) == 1 else axes, "keepdims": True}
    if op in ALONG_AN_AXIS or op == "concatenate":
        return {"axis": _axes(axis, len(own))[0]} if isinstance(axis, int) else None
    if op in ("stack", "expand_dims"):
        (place,) = _axes(axis, len(node.shape))
        return {"axis": place}
    if op == "squeeze":
        gone = tuple(i for i, n in enumerate(own) if n == 1) if axis is None else axis
        return {"axis": _axes(gone, len(own))}
    if op == "reshape":
        return {"shape": (-1, *(1,) * (most - len(node.shape)), *node.shape)}
    if op == "transpose":
        order = stated["axes"] or tuple(reversed(range(len(own))))
        return {"axes": (*range(before), *(before + axis % len(own) for axis in order))}
    if op == "moveaxis":
        return {key: _axes(stated[key], len(own)) for key in ("source", "destination")}
    if op == "getitem":
        index = stated["index"] if isinstance(stated["index"], tuple) else (stated["index"],)
        basic = all(i is None or i is Ellipsis or isinstance(i, int | slice) for i in index)
        return {"index": (*(slice(None),) * before, *index)} if basic else None
    return None


def _axes(axis: Any, count: int) -> tuple[int, ...]:
    """Axes of so many, counted from the end; all of them for None."""
    if axis is None:
        return tuple(range(-count, 0))
    several = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(one - count if one >= 0 else one for one in several)
