"""A user's layer: the arrays that it depends on, the question about it, the answer."""

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
"""The `op` of the one node that stands for a whole layer (`as_program`)."""

LARGE = 2**21
"""Entries of leaves, of which a float64 array has 16 MB: what is as large is felt."""

MANY = 2**16
"""Entries of one array, of which copies are felt where there are many such arrays."""

POWER = 0.999
"""The probability with which an error is to be found, unless another is requested."""

Role = Literal["input", "parameter", "buffer", "captured"]


@dataclass(frozen=True, slots=True)
class Meant:
    """What one `ByDesign` matched in one run of a layer: the `places` of its `calls`. `index` is
    its place in the spec. `stops_tangents`: forward mode, too, is stopped there. `similar` is the
    name of a function of the layer that may have been meant where nothing matched."""

    index: int
    calls: int
    places: tuple[str, ...] = ()
    similar: str = ""
    stops_tangents: bool = True


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array that a layer's output depends on: a given input, a parameter or buffer, or what a
    closure captured. Its numbers are `kept` in float64 (or int64, bool), or in float32 if they are
    many (`compact`); `differentiable` where its derivative is checked. No number of it may be below
    `low` or above `high`: that is its domain. `is_complex`: the layer has complex numbers there,
    and the leaf their parts along its last axis."""

    name: str
    role: Role
    kept: Array
    differentiable: bool
    low: float = -np.inf
    high: float = np.inf
    is_complex: bool = False

    @property
    def value(self) -> Array:
        """The numbers in float64 (or int64, bool): made at every call where they are `kept` in
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
        """Axes that the layer's array has: not that of the parts of complex numbers."""
        return self.kept.ndim - self.is_complex

    @property
    def is_floating(self) -> bool:
        return self.kept.dtype.kind == "f"

    @property
    def is_bounded(self) -> bool:
        return self.low != -np.inf or self.high != np.inf

    def holds(self, values: Array) -> bool:
        """Whether these values of it are inside its domain; nan is."""
        if not self.is_bounded:
            return True
        return not np.any((values < self.low) | (values > self.high))

    def inside(self, values: Array) -> Array:
        """The values, with those moves that leave the domain taken the other way. A value that is
        outside then, too, stays outside."""
        if self.holds(values):
            return values
        back = 2 * self.kept - values
        out, still_out = ((v < self.low) | (v > self.high) for v in (values, back))
        return np.where(out & ~still_out, back, values)


class LeafValues(Mapping[str, "Array"]):
    """The numbers of leaves in float64 by name, made when they are looked at: they may be many."""

    def __init__(self, leaves: Iterable[Leaf]) -> None:
        self._leaves = {leaf.name: leaf for leaf in leaves}

    def __getitem__(self, name: str) -> Array:
        return self._leaves[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._leaves)

    def __len__(self) -> int:
        return len(self._leaves)


def compact(values: Array) -> Array:
    """The same numbers in float32, if they are many and it holds them all."""
    if values.size < MANY or values.dtype != np.float64:
        return values
    with np.errstate(all="ignore"):
        narrow = values.astype(np.float32)
    return narrow if np.array_equal(narrow, values, equal_nan=True) else values


def rounded(values: Array, fmt: FloatFormat) -> Array:
    """The numbers of an array in this format, `compact`; whole numbers as they are."""
    if values.dtype.kind != "f" or (values.dtype == np.float32 and fmt.bits >= 24):
        return values
    return compact(fmt.round(values))


@dataclass(frozen=True, slots=True)
class LayerProblem:
    """Check the gradients of one layer at one point in one dtype.

    `behaviour` asks for the checks of behaviour in place of the gradients' entries. `power` is the
    probability with which an error of any single entry is to be found where not all are taken.
    `named`, `named_modes` and `named_dtype` say what was requested by name. `illustrated`: with the
    graph of the layer and its curve of difference quotients, where it is lifted.
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
        """Those of the spec, at the point."""
        return self.spec.points[self.point]

    @property
    def point_number(self) -> int | None:
        """The place of the point in the spec; None where that has only one."""
        return self.point if self.spec.pointed else None


@dataclass(frozen=True, slots=True)
class LayerAnswer:
    """What was found. Small, however large the layer: entries that are right stay in the worker.
    `compile_s` of its `duration_s` were spent on compiling.

    `nondeterministic`: the layer gives another result at every call, so that no judgement of its
    numbers means anything.
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
    """How far the examination of a large layer is: `what` is asked, and how many forward passes are
    done of about so many that are `expected` where all is well. A backward pass counts as two."""

    what: str
    done: int
    expected: int


@dataclass(frozen=True, slots=True)
class LiftRequest:
    """Asks what a layer computes, operation by operation, at the point of a problem."""

    problem: LayerProblem


@dataclass(frozen=True, slots=True)
class LiftedRun:
    """The answer to a LiftRequest. `parameters` are the arrays that the layer brings with it.
    `program` is its forward and `trace` has the value of every node, where it is `exact` without
    rounding; without them, `reason` says why it is not lifted."""

    parameters: Mapping[str, Array]
    program: Program | None = None
    trace: Trace | None = None
    exact: bool = False
    reason: str = ""


@cache
def word_of(name: str) -> str:
    """What a formula calls a leaf: dots, and whatever else is in no name, become underscores."""
    word = re.sub(r"\W", "_", name)
    return f"_{word}" if word[:1].isdigit() else word


def as_program(
    implementation: Implementation, leaves: Mapping[str, tuple[int, ...]], shape: tuple[int, ...]
) -> Program:
    """The layer as a program of one opaque operation: what judges and reports need of it.

    `leaves` has the shape of every array that it depends on, `shape` is that of its output.
    """
    span, target = implementation.span, implementation.target
    nodes = [Node("input", (), {}, span, name, name=name, shape=s) for name, s in leaves.items()]
    count = len(nodes)
    nodes.append(Node(LAYER, tuple(range(count)), {}, span, target, shape=shape))
    inputs = {name: i for i, name in enumerate(leaves)}
    return Program(tuple(nodes), inputs, (count,), target)
