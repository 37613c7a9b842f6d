"""Programs that run at several points at once: the arrays of all points lie side by side along a
new first axis. A call of NumPy, or a step of a tape, takes as long for eight numbers as for one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gradcheck_cli.domain.kept import kept
from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT, Node, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.truth.plain import elementwise

ALONG_AXES = frozenset(("sum", "mean", "var", "std"))
"""Rows that have keywords `axis` and `keepdims`."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """How a program runs at several points. Arrays have as many axes behind the first as the
    largest of them, so that they meet as they do at one point; what is the same at all points has
    no such axis. `keywords` has those of the nodes whose axes are counted from the end; `each` is
    how many numbers a node has on average."""

    axes: int
    keywords: Mapping[int, dict[str, Any]]
    each: float

    def shape(self, count: int, own: tuple[int, ...]) -> tuple[int, ...]:
        """That of an array at so many points."""
        return (count, *(1,) * (self.axes - len(own)), *own)


@kept
def side_by_side(program: Program) -> SideBySide | None:
    """None where an operation gives other numbers, or none, for arrays with more axes."""
    keywords: dict[int, dict[str, Any]] = {}
    for index, node in enumerate(program.nodes):
        shapes = [program.nodes[i].shape for i in node.args]
        if node.op in ALONG_AXES and _axes(node) and node.keywords.get("keepdims"):
            axes = tuple(axis - len(shapes[0]) if axis >= 0 else axis for axis in _axes(node))
            keywords[index] = {**node.keywords, "axis": axes}
        elif node.op == CUSTOM or not (
            node.op in (INPUT, CONSTANT)
            or elementwise(node.op)
            or (node.op == "matmul" and min(map(len, shapes)) >= 2)
        ):
            return None
    numbers = [math.prod(node.shape) for node in program.nodes]
    most = max((len(node.shape) for node in program.nodes), default=0)
    return SideBySide(most, keywords, sum(numbers) / max(len(numbers), 1))


def _axes(node: Node) -> tuple[int, ...]:
    """The axes of a reduction; none where it is along all."""
    axis = node.keywords.get("axis")
    if axis is None:
        return ()
    return (axis,) if isinstance(axis, int) else tuple(axis)
