"""A user's layer: the arrays that it depends on, the request to check it, and the answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.program import Node, Program
from gradcheck_cli.domain.records import dataclass

if TYPE_CHECKING:
    from gradcheck_cli.domain.curve import Curve
    from gradcheck_cli.domain.dtypes import Array, FloatFormat
    from gradcheck_cli.domain.evaluation import Failure, Mode, Trace
    from gradcheck_cli.domain.graph import Graph
    from gradcheck_cli.domain.report import Check, Finding, Reading
    from gradcheck_cli.domain.spec import Input, Spec

LAYER = "layer"
"""The `op` of the single node that represents a whole layer (`as_program`)."""

LARGE = 2**21
"""Entries of leaves from which on copies are too costly: a float64 array of them has 16 MB."""

MANY = 2**16
"""Entries of one array from which on copies of many such arrays are too costly."""

POWER = 0.999
"""The default probability of finding an error."""

Role = Literal["input", "parameter", "buffer", "captured"]


@dataclass(frozen=True, slots=True)
class Meant:
    """The match of one `ByDesign` in one run of a layer: the number of `calls` and their `places`.
    `index` is its place in the spec. `stops_tangents`: forward mode is stopped there, too. If
    nothing matched, `similar` is the name of a function of the layer that the user may have
    meant."""

    index: int
    calls: int
    places: tuple[str, ...] = ()
    similar: str = ""
    stops_tangents: bool = True


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array that a layer's output depends on: a given input, a parameter or buffer, or an array
    that a closure captured. Its numbers are `kept` in float64 (or int64, bool), or in float32 if
    they are many (`compact`). `differentiable`: its derivative is checked. Its domain is `low` to
    `high`. `is_complex`: the layer's array is complex, and the leaf has the parts along its last
    axis."""

    name: str
    role: Role
    kept: Array
    differentiable: bool
    low: float = -np.inf
    high: float = np.inf
    is_complex: bool = False

    @property
    def value(self) -> Array:
        """The numbers in float64 (or int64, bool). Made at every call if they are `kept` in
        float32."""
        return self.kept.astype(np.float64) if self.kept.dtype == np.float32 else self.kept

    @property
    def size(self) -> int:
        return int(self.kept.size)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.kept.shape

    @property
    def rank(self) -> int:
        """The number of axes of the layer's array, without the axis of the parts of complex
        numbers."""
        return self.kept.ndim - self.is_complex

    @property
    def is_floating(self) -> bool:
        return self.kept.dtype.kind == "f"

    @property
    def is_bounded(self) -> bool:
        return self.low != -np.inf or self.high != np.inf

    def holds(self, values: Array) -> bool:
        """Check whether these values lie inside the domain; nan does."""
        if not self.is_bounded:
            return True
        return not np.any((values < self.low) | (values > self.high))

    def inside(self, values: Array) -> Array:
        """The values, with each move that leaves the domain taken the other way. A value that is
        outside then, too, stays outside."""
        if self.holds(values):
            return values
        back = 2 * self.kept - values
        out, still_out = ((v < self.low) | (v > self.high) for v in (values, back))
        return np.where(out & ~still_out, back, values)


class LeafValues(Mapping[str, "Array"]):
    """The numbers of leaves in float64 by name. They may be many, so they are made on access."""

    def __init__(self, leaves: Iterable[Leaf]) -> None:
        self._leaves = {leaf.name: leaf for leaf in leaves}

    def __getitem__(self, name: str) -> Array:
        return self._leaves[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._leaves)

    def __len__(self) -> int:
        return len(self._leaves)


def compact(values: Array) -> Array:
    """The same numbers, in float32 if they are many and float32 holds them all."""
    if values.size < MANY or values.dtype != np.float64:
        return values
    with np.errstate(all="ignore"):
        narrow = values.astype(np.float32)
    return narrow if np.array_equal(narrow, values, equal_nan=True) else values


def rounded(values: Array, fmt: FloatFormat) -> Array:
    """The numbers of an array rounded to this format, `compact`; integers unchanged."""
    if values.dtype.kind != "f" or (values.dtype == np.float32 and fmt.bits >= 24):
        return values
    return compact(fmt.round(values))


@dataclass(frozen=True, slots=True)
class LayerProblem:
    """Requests a check of the gradients of one layer at one point in one dtype.

    `behaviour` requests the checks of behaviour instead of the gradients' entries. `power` is the
    required probability of finding an error in any single entry if not all entries are checked.
    `named`, `named_modes` and `named_dtype` say which of these the user requested by name.
    `illustrated` also requests the graph of the layer and its curve of difference quotients, if the
    layer can be lifted.
    """

    spec: Spec
    implementation: Implementation
    point: int
    dtype: str
    modes: tuple[Mode, ...]
    named: bool = False
    named_modes: bool = False
    named_dtype: bool = False
    behaviour: bool = False
    power: float = POWER
    seed: int = 0
    device: str = "cpu"
    illustrated: bool = False

    @property
    def inputs(self) -> Mapping[str, Input]:
        """The inputs of the spec at the point."""
        return self.spec.points[self.point]

    @property
    def point_number(self) -> int | None:
        """The number of the point in the spec; None if the spec has no list of points."""
        return self.point if self.spec.pointed else None


@dataclass(frozen=True, slots=True)
class LayerAnswer:
    """The answer to a LayerProblem. It is small, however large the layer: right entries stay in the
    worker. `compile_s` of its `duration_s` were spent on compiling.

    `nondeterministic`: the layer returns another result at every call, so its numbers cannot be
    judged.
    """

    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()
    readings: tuple[Reading, ...] = ()
    notes: tuple[str, ...] = ()
    failure: Failure | None = None
    nondeterministic: bool = False
    duration_s: float = 0.0
    compile_s: float = 0.0
    by_design: tuple[Meant, ...] = ()
    graphs: tuple[Graph, ...] = ()
    curve: Curve | None = None


@dataclass(frozen=True, slots=True)
class LayerProgress:
    """The progress of the examination of a large layer: `what` is being computed, and how many
    forward passes of the `expected` number are `done`. A backward pass counts as two. The number is
    expected if the layer is right."""

    what: str
    done: int
    expected: int


@dataclass(frozen=True, slots=True)
class LiftRequest:
    """Requests the operations of a layer at the point of a problem."""

    problem: LayerProblem


@dataclass(frozen=True, slots=True)
class LiftedRun:
    """The answer to a LiftRequest. `parameters` are the layer's own arrays. `program` is its
    forward, and `trace` has the value of every node, computed without rounding if `exact`. Without
    these, `reason` says why the layer is not lifted."""

    parameters: Mapping[str, Array]
    program: Program | None = None
    trace: Trace | None = None
    exact: bool = False
    reason: str = ""


@cache
def word_of(name: str) -> str:
    """The name of a leaf in a formula: characters that names cannot have, such as dots, become
    underscores."""
    word = re.sub(r"\W", "_", name)
    return f"_{word}" if word[:1].isdigit() else word


def as_program(
    implementation: Implementation, leaves: Mapping[str, tuple[int, ...]], shape: tuple[int, ...]
) -> Program:
    """The layer as a program of one opaque operation, for judges and reports.

    `leaves` has the shape of every array that it depends on, `shape` is the shape of its output.
    """
    span, target = implementation.span, implementation.target
    nodes = [Node("input", (), {}, span, name, name=name, shape=s) for name, s in leaves.items()]
    count = len(nodes)
    nodes.append(Node(LAYER, tuple(range(count)), {}, span, target, shape=shape))
    inputs = {name: i for i, name in enumerate(leaves)}
    return Program(tuple(nodes), inputs, (count,), target)
