"""Facts that the rule of a single row cannot know, because they depend on how its arguments are
related.

    x_i - max(x) is the least x_i - x_j, and 0 for the largest;  x - logsumexp(x) <= 0
    x_i = max(x) is known where x_i is apart from all others; so it is for the least
    the number of elements that are equal to the largest is at least 1, also as computed
    sum(exp(x - max(x))) is at least 1
    sum(g softmax(x)) lies between the least and the largest g
    1 - sigmoid(x) and 1 - tanh(x)^2 are above 0

`facts_of` finds them in a program; each narrows the exact range of a node. `merged` merges nodes
with the same computed number, so that a product of equal factors is seen to be a square, and writes
x = maximum(x, y) as x >= y. `signed` marks roots whose computed argument is not below 0, either:
squares, and sums, quotients and products of them, are not, however they are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.program import CONSTANT, Node, Program, ProgramCopy
from gradcheck_cli.search.enclosures.array_rules import as_enclosed
from gradcheck_cli.search.enclosures.enclosed import Bounds, Enclosed, Mask, up
from gradcheck_cli.search.enclosures.faithful import identity
from reference_engine.rules import axes_of
from reference_engine.traced import ROWS

_ROUNDED = 2.0**-50  # relative: the rounding of a difference in float64
_KEPT = 1e-30
"""Larger numbers are flushed by no engine, in a dtype of which it flushes numbers."""
_MOST_PAIRED = 32
_SLOP = 2.0**-40  # relative: of functions in float64, for arguments up to 1000
_SPREADS = ("reshape", "broadcast_to", "expand_dims")
Fact = Callable[[Any, list[Any]], Any]
"""The enclosure of a node, or its mask, narrowed; it is given the enclosures of all nodes before
it."""


def merged(program: Program) -> Program:
    """The program with nodes merged that apply the same kernel to the same arguments. Two kernels
    may round differently, and so may one kernel on copies with different layouts."""
    copy = ProgramCopy(program)
    known: dict[Any, int] = {}
    for index, old in enumerate(program.nodes):
        node = _ordered(copy.copied(old), copy.nodes)
        kernel = identity(node)
        keywords = repr(sorted(node.keywords.items()))
        key = (node.op, node.args, keywords, repr(node.value), node.kind, kernel, node.kept)
        alone = node.custom is not None or kernel is None
        if alone or not (node.args or node.value is not None):
            key = (str(len(copy.nodes)), (), "", "", "", "", False)
        if key not in known:
            known[key] = copy.add(node)
        copy.place[index] = known[key]
    return copy.finished()


def _ordered(node: Node, nodes: list[Node]) -> Node:
    """The node; x = maximum(x, y) becomes x >= y, and a minimum x <= y."""
    if node.op == "equal":
        for one, other in (node.args, node.args[::-1]):
            extreme = nodes[other]
            if extreme.op in _ORDERS and one in extreme.args:
                first, second = extreme.args
                return replace(
                    node, op=_ORDERS[extreme.op], args=(one, second if one == first else first)
                )
    return node


_ORDERS = {"maximum": "greater_equal", "minimum": "less_equal"}


def signed(program: Program) -> Program:
    """The program, with a mark at each `sqrt` of a number that is never computed below 0."""
    above: set[int] = set()
    nodes = []
    for index, node in enumerate(program.nodes):
        if _stays_above(node, program.nodes, above):
            above.add(index)
        if node.op == "sqrt" and node.args[0] in above:
            node = replace(node, keywords=_SIGNED)
        nodes.append(node)
    return replace(program, nodes=tuple(nodes))


_SIGNED = {"not_below_0": True}


def keywords_of(node: Node) -> Mapping[str, Any]:
    """The keywords that the row of the table takes."""
    return {} if node.keywords is _SIGNED else node.keywords


_ABOVE = frozenset(("square", "abs", "exp", "sqrt", "var", "relu"))
_STAYS_ABOVE = frozenset(("add", "multiply", "divide", "sum", "mean", "minimum", "concatenate"))
_MOVED = frozenset(("reshape", "broadcast_to", "expand_dims", "squeeze", "transpose", "getitem"))


def _stays_above(node: Node, nodes: Sequence[Node], above: set[int]) -> bool:
    """Whether a computed number is nan or at least 0; `above` are such nodes before it."""
    if node.op == CONSTANT:
        return isinstance(node.value, float | int) and node.value >= 0
    if node.op == "multiply" and node.args[0] == node.args[1]:
        return True
    if node.op == "power":
        exponent = nodes[node.args[1]].value
        return isinstance(exponent, float | int) and exponent % 2 == 0
    if node.op in _STAYS_ABOVE or node.op in _MOVED:
        return all(i in above for i in node.args)
    if node.op == "maximum":
        return any(i in above for i in node.args)
    return node.op in _ABOVE


def facts_of(program: Program, again: bool = False) -> dict[int, Fact]:
    """The facts by node, for an engine that may compute a number `again` for each use."""
    finder = _Finder(program, again)
    found = {}
    for index, node in enumerate(program.nodes):
        fact = finder.fact(node)
        if fact is not None:
            found[index] = fact
    return found


class _Finder:
    def __init__(self, program: Program, again: bool) -> None:
        self._nodes = program.nodes
        self._again = again

    def fact(self, node: Node) -> Fact | None:
        if node.op == "subtract":
            first, second = node.args
            for row in ("max", "logsumexp"):
                groups = self._groups(second, (row,), first)
                if groups is not None and np.array_equal(*groups):
                    return _below_largest(first, groups[0]) if row == "max" else _not_positive
            return self._of_complement(first, second)
        if node.op == "equal":
            return self._of_match(node)
        if node.op == "sum":
            return self._of_sum(node)
        if node.op == "divide":
            one = self._counted_extremes(self._nodes[self._behind_spreads(node.args[1])])
            if one is not None:
                return _by_count(node.args[0], one, self._again and not self._nodes[one].kept)
        return None

    def _of_match(self, node: Node) -> Fact | None:
        """Whether an element is the largest, or the least, of its array."""
        for one, other in (node.args, node.args[::-1]):
            for row, sign in (("max", 1), ("min", -1)):
                groups = self._groups(other, (row,), one)
                if groups is not None and np.array_equal(*groups):
                    return _is_extreme(
                        one, groups[0], sign, self._again and not self._nodes[one].kept
                    )
        return None

    def _of_complement(self, first: int, second: int) -> Fact | None:
        """1 - sigmoid(x) is sigmoid(-x), and 1 - tanh(x)^2 decreases with |x|. Both are above 0,
        even where float64 subtraction leaves no digits."""
        node = self._nodes[second]
        if self._nodes[first].op != CONSTANT or self._nodes[first].value != 1:
            return None
        if node.op == "sigmoid":
            return _between_functions(
                node.args[0], lambda x: (1 / (1 + np.exp(t)) for t in (x.hi, x.lo))
            )
        if node.op == "multiply" and node.args[0] == node.args[1]:
            node = self._nodes[node.args[0]]
            if node.op == "tanh":
                return _between_functions(
                    node.args[0], lambda x: (np.cosh(t) ** -2 for t in (x.most, x.least))
                )
        return None

    def _groups(self, index: int, rows: tuple[str, ...], of: int) -> tuple[Any, Any] | None:
        """For the numbers of the node `of`: the group that each is reduced with by one of `rows`,
        and the group whose reduction stands beside it in the node `index`, which broadcasts these
        reductions. None if that node is something else."""
        moves = []
        index = self._same_number(index)
        while self._nodes[index].op in _SPREADS:
            moves.append(self._nodes[index])
            index = self._same_number(self._nodes[index].args[0])
        node, shape = self._nodes[index], self._nodes[of].shape
        if node.op not in rows or node.args[0] != of:
            return None
        axes = axes_of(node.keywords.get("axis"), len(shape))
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        labels = np.arange(math.prod(kept))
        beside = labels.reshape(node.shape)
        for move in reversed(moves):
            beside = ROWS[move.op].raw(beside, **move.keywords)
        if np.broadcast_shapes(beside.shape, shape) != shape:
            return None
        return np.broadcast_to(labels.reshape(kept), shape), np.broadcast_to(beside, shape)

    def _same_number(self, index: int) -> int:
        """The node with the same exact number, through where(x = x, x, y) and stopped gradients."""
        node = self._nodes[index]
        while True:
            if node.op == "where":
                mask, other = self._nodes[node.args[0]], node.args[1]
                kept = node.shape == self._nodes[other].shape
                if mask.op != "equal" or set(mask.args) != {other} or not kept:
                    return index
                index = other
            elif node.op == "stop_gradient":
                index = node.args[0]
            else:
                return index
            node = self._nodes[index]

    def _behind_spreads(self, index: int) -> int:
        while self._nodes[index].op in _SPREADS:
            index = self._nodes[index].args[0]
        return index

    def _counted_extremes(self, node: Node) -> int | None:
        """The node of the numbers of which a sum counts those that are the largest, or the least,
        of their array; None if it counts something else."""
        if node.op != "sum":
            return None
        inner = self._nodes[self._counted(node.args[0])]
        for one, other in (inner.args, inner.args[::-1]) if inner.op == "equal" else ():
            groups = self._groups(other, ("max", "min"), one)
            if groups is not None and _sums_whole_groups(*groups, node.keywords.get("axis")):
                return one
        return None

    def _of_sum(self, node: Node) -> Fact | None:
        inner = self._nodes[self._counted(node.args[0])]
        if self._counted_extremes(node) is not None:
            return _at_least_one
        if inner.op == "exp" and self._nodes[inner.args[0]].op == "subtract":
            one, other = self._nodes[inner.args[0]].args
            groups = self._groups(other, ("max",), one)
            if groups is not None and _sums_whole_groups(*groups, node.keywords.get("axis")):
                return _at_least_one
        if inner.op == "multiply":
            for one, other in (inner.args, inner.args[::-1]):
                shares = self._nodes[one]
                alike = self._nodes[other].shape == shares.shape
                if shares.op == "softmax" and alike and self._same_axis(node, shares):
                    return _between_extremes(other, node.keywords)
        return None

    def _counted(self, index: int) -> int:
        """The mask of where(mask, 1, 0); else the node itself."""
        node = self._nodes[index]
        if node.op == "where" and [self._nodes[i].value for i in node.args[1:]] == [1.0, 0.0]:
            return node.args[0]
        return index

    def _same_axis(self, node: Node, shares: Node) -> bool:
        rank = len(shares.shape)
        axes = axes_of(node.keywords.get("axis"), rank)
        return len(axes) == 1 and axes == axes_of(shares.keywords["axis"], rank)


def _sums_whole_groups(groups: Any, beside: Any, axis: Any) -> bool:
    """Whether each sum along the axes adds up a whole group, each number beside its own extreme."""
    summed = axes_of(axis, groups.ndim)
    rows = np.moveaxis(groups, summed, range(-len(summed), 0))
    rows = rows.reshape(-1, math.prod(groups.shape[i] for i in summed))
    held = (np.sum(row == row[0]) == np.sum(groups == row[0]) for row in rows)
    return np.array_equal(groups, beside) and all(held)


def _narrowed(x: Enclosed, lo: Any, hi: Any) -> Enclosed:
    return replace(x, lo=np.maximum(x.lo, lo), hi=np.minimum(x.hi, hi))


def _not_positive(x: Enclosed, _: list[Any]) -> Enclosed:
    return _narrowed(x, -np.inf, 0.0)


def _below_largest(index: int, groups: Bounds) -> Fact:
    """The least of all distances from others of its group."""
    others = _share_group(groups)

    def fact(x: Enclosed, values: list[Any]) -> Enclosed:
        flat = _flat(values[index], groups)
        if flat is None:
            return _not_positive(x, values)
        lo, hi = (
            np.min(np.where(others, own[:, :, None] - far[:, None, :], 0.0), axis=2)
            for own, far in ((flat.lo, flat.hi), (flat.hi, flat.lo))
        )
        lo = np.where(lo < 0, lo - np.abs(lo) * _ROUNDED, 0.0)
        hi = np.where(hi < 0, hi + np.abs(hi) * _ROUNDED, 0.0)
        return _narrowed(x, lo.reshape(x.lo.shape), hi.reshape(x.lo.shape))

    return fact


def _is_extreme(index: int, groups: Bounds, sign: int, again: bool) -> Fact:
    """The mask, decided where the computed numbers are apart, too. Of two such numbers, one is not
    flushed. A number that may be computed `again`, with other roundings, need not equal itself."""
    others = _share_group(groups)

    def fact(found: Any, values: list[Any]) -> Any:
        flat = _flat(values[index], groups)
        if flat is None or not isinstance(found, Mask):
            return found
        e = np.where(flat.bad, np.inf, flat.error)
        low, high = flat.lo - e, flat.hi + e
        low, high = (low, high) if sign > 0 else (-high, -low)
        kept = (low > _KEPT) | (high < -_KEPT)
        ahead = (low[:, :, None] > high[:, None, :]) & (kept[:, :, None] | kept[:, None, :])
        same = (e == 0) | (not again)
        first = (np.all(ahead | ~others, axis=2) & same).reshape(found.true.shape)
        not_first = np.any(ahead & others, axis=1).reshape(found.true.shape)
        known = first | not_first
        return replace(
            found,
            true=np.where(known, first, found.true),
            false=np.where(known, not_first, found.false),
            computed_true=np.where(known, first, found.computed_true),
            computed_false=np.where(known, not_first, found.computed_false),
            agree=found.agree | known,
            tie=found.tie & ~known,
        )

    return fact


def _share_group(groups: Bounds) -> Bounds:
    """Mark the pairs of different numbers in one group."""
    flat = groups.ravel()
    return np.asarray((flat[:, None] == flat[None, :]) & ~np.eye(len(flat), dtype=np.bool_))


def _flat(x: Any, groups: Bounds) -> Enclosed | None:
    """The numbers of each box in one row; None if they are too many for pairs, or unknown."""
    if not isinstance(x, Enclosed) or groups.size > _MOST_PAIRED:
        return None
    if x.lo.shape[1:] != groups.shape:
        return None
    return x.map(lambda part: part.reshape(len(part), -1))


def _at_least_one(x: Enclosed, _: list[Any]) -> Enclosed:
    """One of the terms is exactly 1."""
    return _narrowed(x, 1.0, np.inf)


def _by_count(numerator: int, one: int, again: bool) -> Fact:
    """A quotient by the number of elements that are equal to the largest. This is at least 1 as
    computed, too: an engine that flushes has one of the numbers, or 0 for it, and compares it with
    all of them as it has them. So the quotient is not larger than its numerator. A number that may
    be computed `again` need not equal itself."""

    def fact(x: Enclosed, values: list[Any]) -> Enclosed:
        top, compared = as_enclosed(values[numerator]), as_enclosed(values[one])
        if compared.lo.shape[:1] != x.lo.shape[:1]:
            return x
        unknown = compared.bad | (again & (compared.error > 0))
        known = ~np.any(unknown.reshape(len(unknown), -1), axis=1)
        better = known.reshape(-1, *(1 for _ in x.lo.shape[1:])) & x.bad & ~top.bad
        a = np.where(better, up(2 * top.most + top.error), x.a)
        flushed, gap = (np.where(better, 0.0, part) for part in (x.flushed, x.gap))
        floor, firm = (np.where(better, np.inf, part) for part in (x.floor, x.firm))
        parts = {"flushed": flushed, "gap": gap, "floor": floor, "firm": firm}
        return replace(x, d=np.where(better, 0.0, x.d), a=a, bad=x.bad & ~better, **parts)

    return fact


def _between_extremes(index: int, keywords: Any) -> Fact:
    def fact(x: Enclosed, values: list[Any]) -> Enclosed:
        g = values[index]
        if not isinstance(g, Enclosed):
            return x
        rank = g.lo.ndim
        axis, kept = keywords.get("axis"), keywords.get("keepdims", False)
        along = rank - 1 if axis is None else _behind(axis, rank)
        lo, hi = np.min(g.lo, axis=along, keepdims=kept), np.max(g.hi, axis=along, keepdims=kept)
        slop = 1e-13 * np.maximum(np.abs(lo), np.abs(hi))
        return _narrowed(x, lo - slop, hi + slop)

    return fact


def _between_functions(index: int, ends: Callable[[Enclosed], Iterable[Bounds]]) -> Fact:
    """The node lies between two functions of another node, computed in float64."""

    def fact(x: Enclosed, values: list[Any]) -> Enclosed:
        if not isinstance(values[index], Enclosed):
            return x
        lo, hi = ends(values[index])
        return _narrowed(x, lo * (1 - _SLOP), hi * (1 + _SLOP) + _SLOP * 1e-290)

    return fact


def _behind(axis: Any, rank: int) -> int:
    """The axis of a batch (rank axes) that corresponds to this axis of one point."""
    one = axis[0] if isinstance(axis, tuple) else axis
    return int(one) % (rank - 1) + 1
