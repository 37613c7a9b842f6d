"""Run a program at many points at once: every array has one more axis in front, of N points.

`Batch` takes a program and N, and makes the program for (N, *shape) arrays, which any engine can
run. A call of NumPy, or a step of a tape, takes as long for eight numbers as for one. A program
with an operation that has no rule here cannot be batched; its points are run one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from string import ascii_letters
from typing import Any

import numpy as np

from gradcheck_cli.domain.program import CONSTANT, INPUT, Node, Program
from gradcheck_cli.domain.program_cache import cached_by_program

_ALONG_AXES = frozenset(("reductions", "neural", "statistics", "norms", "cumulative", "ordering"))
_STACKED = frozenset(("inv", "det", "slogdet_sign", "slogdet_logabs", "logdet", "cholesky"))
"""Rows that accept a stack of matrices."""

_TERMS = frozenset(("bce_terms", "logistic_terms", "kl_terms"))
"""Rows of losses that work elementwise."""
_OF_ONE_NUMBER = frozenset(("sum", "mean", "prod", "max", "min", "logsumexp"))
"""Reductions that return a number unchanged."""


class NotBatched(Exception):
    """The program cannot be batched. The message names the operation."""


class Batch:
    """A batched program, and `places`, the place in it of each node of the program for one point.
    The inputs `names` have the new axis: the floating ones by default. Raises NotBatched."""

    def __init__(self, program: Program, count: int, names: Collection[str] | None = None) -> None:
        batching = _Batching(program, count, names)
        self.program = batching.run()
        self.places = batching.places


def batched(program: Program, count: int) -> Program:
    """The program of `count` points, as in `Batch`. Raises NotBatched."""
    return Batch(program, count).program


@cached_by_program
def batch_of_few(
    program: Program, count: int, most: int, names: tuple[str, ...] | None = None
) -> Batch | None:
    """A Batch; None if an operation cannot be batched, or nodes have more than `most` numbers on
    average."""
    numbers = [math.prod(node.shape) for node in program.nodes]
    if sum(numbers) > most * len(numbers):
        return None
    try:
        return Batch(program, count, names)
    except NotBatched:
        return None


class _Batching:
    def __init__(self, program: Program, count: int, names: Collection[str] | None) -> None:
        from reference_engine.traced import ROWS

        self._rows = ROWS
        self._program = program
        self._count = count
        self._given = {
            index
            for name, index in program.inputs.items()
            if (program.nodes[index].kind == "float" if names is None else name in names)
        }
        self._nodes: list[Node] = []
        self.places: list[int] = []  # by old index, the new one
        self._has_axis: list[bool] = []  # by old index

    def run(self) -> Program:
        for index, node in enumerate(self._program.nodes):
            self._node(index, node)
        inputs = {name: self.places[i] for name, i in self._program.inputs.items()}
        outputs = tuple(None if i is None else self._spread(i) for i in self._program.outputs)
        return Program(tuple(self._nodes), inputs, outputs, self._program.text)

    def _node(self, index: int, node: Node) -> None:
        if index in self._given:
            made, moves = replace(node, shape=(self._count, *node.shape)), True
        elif node.op in (INPUT, CONSTANT) or not any(self._has_axis[i] for i in node.args):
            made, moves = replace(node, args=tuple(self.places[i] for i in node.args)), False
        else:
            made, moves = self._batched_node(node), True
        self._append(made)
        self.places.append(len(self._nodes) - 1)
        self._has_axis.append(moves)

    def _append(self, node: Node) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _batched_node(self, node: Node) -> Node:
        """The node for all points."""
        row = self._rows.get(node.op)
        if row is None or node.custom is not None:
            raise NotBatched(node.op)
        if row.elementwise or node.op in _TERMS:
            return self._like(node, [self._aligned(i, len(node.shape)) for i in node.args])
        if node.op in _OF_ONE_NUMBER and not self._ranks(node)[0]:
            whole = (self._count, *node.shape)
            return self._arranged("reshape", self.places[node.args[0]], whole, node)
        rule = _RULES.get(node.op)
        if rule is not None:
            return rule(self, node)
        if row.family in _ALONG_AXES and "axis" in node.keywords:
            return self._of_one(node, {**node.keywords, "axis": self._axes(node)})
        raise NotBatched(node.op)

    def _like(
        self, node: Node, args: Sequence[int], keywords: Mapping[str, Any] | None = None
    ) -> Node:
        """The same row, applied to arguments that have the new axis, with other keywords if
        given."""
        keywords = node.keywords if keywords is None else keywords
        return replace(node, args=tuple(args), keywords=keywords, shape=(self._count, *node.shape))

    def _of_one(self, node: Node, keywords: Mapping[str, Any]) -> Node:
        """A row of one array, with these keywords."""
        if len(node.args) != 1:
            raise NotBatched(node.op)
        return self._like(node, [self.places[node.args[0]]], keywords)

    def _ranks(self, node: Node) -> tuple[int, ...]:
        """The ranks of the arguments for one point."""
        return tuple(len(self._program.nodes[i].shape) for i in node.args)

    # Rows of several arrays.

    def _along_axis(self, node: Node) -> Node:
        """A row of arrays of one rank along an axis, of which a stack has one more."""
        rank = self._ranks(node)[0] + (node.op == "stack")
        axis = {**node.keywords, "axis": node.keywords["axis"] % rank + 1}
        return self._like(node, [self._spread(i) for i in node.args], axis)

    def _batched_take(self, node: Node) -> Node:
        """`take` with indices that are the same for every point."""
        if self._has_axis[node.args[1]]:
            raise NotBatched(node.op)
        axis = {"axis": (node.keywords["axis"] or 0) % self._ranks(node)[0] + 1}
        return self._like(node, [self.places[i] for i in node.args], axis)

    def _einsum(self, node: Node) -> Node:
        keywords = _with_axis(node.keywords["subscripts"], self._ranks(node))
        return self._like(node, [self._spread(i) for i in node.args], keywords)

    def _outer(self, node: Node) -> Node:
        first, second = (self._spread(i) for i in node.args)
        rows = self._append_arranged("reshape", first, (self._count, node.shape[0], 1), node)
        columns = self._append_arranged("reshape", second, (self._count, 1, node.shape[1]), node)
        return self._like(replace(node, op="multiply"), [rows, columns])

    def _dot(self, node: Node) -> Node:
        """`dot`, which scales by a number or multiplies matrices; other arrays have no rule."""
        ranks = [len(self._program.nodes[i].shape) for i in node.args]
        if min(ranks) == 0:
            return self._batched_node(replace(node, op="multiply"))
        if max(ranks) > 2:
            raise NotBatched(node.op)
        return self._product(replace(node, op="matmul"))

    def _product(self, node: Node) -> Node:
        """A product of matrices; a vector is a matrix of one row or one column. Stacks of matrices
        are broadcast behind the new axis as they are without it."""
        first, second = shapes = [self._program.nodes[i].shape for i in node.args]
        left = first if len(first) > 1 else (1, *first)
        right = second if len(second) > 1 else (*second, 1)
        rank = max(len(left), len(right))
        args = []
        for index, own in zip(node.args, (left, right), strict=True):
            place, padded = self._spread(index), (self._count, *(1,) * (rank - len(own)), *own)
            same = self._nodes[place].shape == padded
            args.append(place if same else self._append_arranged("reshape", place, padded, node))
        whole = (self._count, *node.shape)
        if [left, right] == shapes:
            return replace(node, args=tuple(args), shape=whole)
        stack = np.broadcast_shapes(left[:-2], right[:-2])
        product = (self._count, *stack, left[-2], right[-1])
        made = self._append(replace(node, args=tuple(args), shape=product))
        return self._arranged("reshape", made, whole, node)

    def _solved(self, node: Node) -> Node:
        """Linear equations with a matrix; a vector is a matrix of one column."""
        ranks = self._ranks(node)
        if ranks[0] != 2 or ranks[1] > 2:
            raise NotBatched(node.op)
        a, b = (self._spread(i) for i in node.args)
        if ranks[1] == 2:
            return self._like(node, [a, b])
        b = self._append_arranged("reshape", b, (self._count, *node.shape, 1), node)
        made = replace(node, args=(a, b), shape=(self._count, *node.shape, 1))
        return self._arranged("reshape", self._append(made), (self._count, *node.shape), node)

    # Rows of one array.

    def _norm(self, node: Node) -> Node:
        """`norm`; without an axis, all elements are put in one row."""
        (rank,) = self._ranks(node)
        if node.keywords.get("axis") is not None or rank < 2 or node.shape:
            return self._of_one(node, {**node.keywords, "axis": self._axes(node)})
        x = self._program.nodes[node.args[0]]
        place = self.places[node.args[0]]
        row = self._append_arranged("reshape", place, (self._count, math.prod(x.shape)), node)
        return self._like(node, [row], {**node.keywords, "axis": 1})

    def _broadcast(self, node: Node) -> Node:
        shape = {"shape": (self._count, *node.shape)}
        return self._like(node, [self._aligned(node.args[0], len(node.shape))], shape)

    def _reshaped(self, node: Node) -> Node:
        return self._of_one(node, {"shape": (self._count, *node.shape)})

    def _item(self, node: Node) -> Node:
        index = node.keywords["index"]
        index = index if isinstance(index, tuple) else (index,)
        return self._of_one(node, {"index": (slice(None), *index)})

    def _transposed(self, node: Node) -> Node:
        (rank,) = self._ranks(node)
        axes = node.keywords["axes"] or tuple(reversed(range(rank)))
        return self._of_one(node, {"axes": (0, *_behind(axes, rank))})

    def _expanded(self, node: Node) -> Node:
        (rank,) = self._ranks(node)
        return self._of_one(node, {"axis": node.keywords["axis"] % (rank + 1) + 1})

    def _squeezed(self, node: Node) -> Node:
        shape, axis = self._program.nodes[node.args[0]].shape, node.keywords["axis"]
        ones = tuple(i for i, n in enumerate(shape) if n == 1)
        return self._of_one(node, {"axis": _behind(ones if axis is None else axis, len(shape))})

    def _batched_moveaxis(self, node: Node) -> Node:
        (rank,) = self._ranks(node)
        return self._of_one(node, {name: _behind(at, rank) for name, at in node.keywords.items()})

    def _flipped(self, node: Node) -> Node:
        return self._of_one(node, {"axis": self._axes(node)})

    def _stacked(self, node: Node) -> Node:
        return self._of_one(node, node.keywords)

    def _axes(self, node: Node) -> int | tuple[int, ...]:
        """The axes of the node, with the new axis counted."""
        axis, rank = node.keywords.get("axis"), self._ranks(node)[0]
        if axis is None:
            if (node.op in ("norm", "argmax", "argmin") and rank != 1) or not rank:
                raise NotBatched(node.op)
            return tuple(range(1, rank + 1)) if rank > 1 else 1
        if isinstance(axis, tuple):
            return tuple(a % rank + 1 for a in axis)
        return int(axis) % rank + 1

    def _aligned(self, index: int, rank: int) -> int:
        """The argument with axes of length 1 after the new one, up to this rank."""
        node, place = self._program.nodes[index], self.places[index]
        if not self._has_axis[index] or len(node.shape) == rank:
            return place
        shape = (self._count, *(1,) * (rank - len(node.shape)), *node.shape)
        return self._append_arranged("reshape", place, shape, node)

    def _spread(self, index: int) -> int:
        """The argument with the new axis; an argument that does not move is repeated for each
        point."""
        if self._has_axis[index]:
            return self.places[index]
        node = self._program.nodes[index]
        return self._append_arranged(
            "broadcast_to", self.places[index], (self._count, *node.shape), node
        )

    def _append_arranged(self, op: str, place: int, shape: tuple[int, ...], like: Node) -> int:
        return self._append(self._arranged(op, place, shape, like))

    def _arranged(self, op: str, place: int, shape: tuple[int, ...], like: Node) -> Node:
        """A node that gives the numbers of another one this shape."""
        kind = self._nodes[place].kind
        made = Node(op, (place,), {"shape": shape}, like.span, like.text, shape=shape, kind=kind)
        return replace(made, wants=(kind,))


_RULES: dict[str, Callable[[_Batching, Node], Node]] = {
    "matmul": _Batching._product,
    "dot": _Batching._dot,
    "einsum": _Batching._einsum,
    "outer": _Batching._outer,
    "norm": _Batching._norm,
    "solve": _Batching._solved,
    "soft_nll": _Batching._along_axis,
    "take_along_axis": _Batching._along_axis,
    "scatter_add": _Batching._along_axis,
    "take": _Batching._batched_take,
    "concatenate": _Batching._along_axis,
    "stack": _Batching._along_axis,
    "broadcast_to": _Batching._broadcast,
    "reshape": _Batching._reshaped,
    "getitem": _Batching._item,
    "transpose": _Batching._transposed,
    "expand_dims": _Batching._expanded,
    "squeeze": _Batching._squeezed,
    "moveaxis": _Batching._batched_moveaxis,
    "flip": _Batching._flipped,
    **dict.fromkeys(_STACKED, _Batching._stacked),
}
"""By row. A reduction or similar row along axes without a rule here has the rule of its family."""


def _behind(axes: int | tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The axes of an array of this rank, counted with a new axis in front."""
    return tuple(axis % rank + 1 for axis in (axes if isinstance(axes, tuple) else (axes,)))


def _with_axis(subscripts: str, ranks: tuple[int, ...]) -> Mapping[str, Any]:
    """The keywords of an einsum whose arrays all have one more axis in front."""
    from reference_engine.ops.linalg import explicit

    given, result = explicit(subscripts, ranks)
    new = next(letter for letter in ascii_letters if letter not in "".join(given))
    return {"subscripts": f"{','.join(new + part for part in given)}->{new}{result}"}


def tiled(values: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Floating arrays of one point, repeated for `count` points; other arrays unchanged."""
    return {
        name: np.broadcast_to(array, (count, *np.shape(array))).copy()
        if np.asarray(array).dtype.kind == "f"
        else array
        for name, array in values.items()
    }
