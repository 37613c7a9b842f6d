"""The question to an engine (`Problem`) and its answer (`Evaluation`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass

if TYPE_CHECKING:
    from gradcheck_cli.domain.dtypes import Array

Mode = Literal[
    "reverse",
    "forward",
    "reverse-over-reverse",
    "forward-over-reverse",
    "reverse-over-forward",
    "forward-over-forward",
    "reverse-over-reverse-over-reverse",
    "forward-over-reverse-over-reverse",
]
FIRST_ORDER: tuple[Mode, ...] = ("reverse", "forward")
COMPOSED: dict[Mode, tuple[Mode, ...]] = {
    "reverse-over-reverse": ("reverse", "reverse"),
    "forward-over-reverse": ("forward", "reverse"),
    "reverse-over-forward": ("reverse", "forward"),
    "forward-over-forward": ("forward", "forward"),
    "reverse-over-reverse-over-reverse": ("reverse", "reverse", "reverse"),
    "forward-over-reverse-over-reverse": ("forward", "reverse", "reverse"),
}
"""Higher orders by first-order modes: each differentiates what those after it give."""
SECOND: tuple[Mode, ...] = tuple(COMPOSED)
"""Modes whose blocks are those of a Hessian. Third order, it is that of the derivative along a
direction (`Problem.along`), which the innermost mode gives."""


def order_of(mode: str) -> int:
    """How often a mode differentiates."""
    return len(modes_in(mode))


def modes_in(mode: str) -> tuple[Mode, ...]:
    """The first-order modes of a composition, the outer one first; a first-order mode itself."""
    for composition, parts in COMPOSED.items():
        if mode == composition:
            return parts
    return tuple(one for one in FIRST_ORDER if one == mode)


Scheme = Literal["forward", "central"]
"""(f(x + h) - f(x)) / h, or (f(x + h) - f(x - h)) / 2h."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference quotient: its scheme and its step h, None for the one that is usual in a dtype
    at the size of an input."""

    scheme: Scheme = "central"
    step: float | None = None


@dataclass(frozen=True, slots=True)
class Projection:
    """Which part of the Jacobian is requested. None is the identity: every row, every column.

    First order, J has the flattened output along its rows and one input along its columns.
    Reverse mode takes `rows`, shape (k, *output): row i of the answer is rows[i] @ J. Forward mode
    takes `columns`, input -> (k, *input): column i of the answer is J @ columns[input][i].

    Second order, the Hessian of the scalar s = <rows[0], output> (the output itself where that is a
    scalar) is requested, in blocks "a.b" = d(ds/da)/db: a's entries along the rows, b's along the
    columns, `columns[b]` in place of the identity where given. `firsts[a]`, where given, is in
    place of the identity along the rows: forward over forward takes one pass a pair of directions.
    """

    rows: Array | None = None
    columns: Mapping[str, Array] | None = None
    firsts: Mapping[str, Array] | None = None

    def cotangents(self, output: tuple[int, ...]) -> Array:
        """The rows of an output of this shape, (k, *output)."""
        return _directions(self.rows, output)

    def tangents(self, name: str, shape: tuple[int, ...]) -> Array:
        """The columns by an input of this shape, (k, *shape)."""
        return _directions((self.columns or {}).get(name), shape)


def _directions(given: Array | None, shape: tuple[int, ...]) -> Array:
    import numpy as np  # not needed to read about a problem

    rows = np.eye(math.prod(shape)) if given is None else np.asarray(given, np.float64)
    return rows.reshape(len(rows), *shape)


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Keep what every node had: cotangents of `row` (reverse), tangents of `column` of `input`.
    Second order, `row` is an entry (or a direction) of the input `first`: the traced entry is that
    of d(ds/d first)/d input.

    `target` is what the entry should be, where that is known: then the operations that were
    executed are looked at one by one, and those that spoil the entry are named (`Trace`). The same
    is done for element `output` of the flattened output where `output_target` says what it should
    be.
    """

    row: int = 0
    first: str | None = None
    input: str | None = None
    column: int = 0
    target: float | None = None
    output: int = 0
    output_target: float | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """This program, these values, this dtype, this mode.

    `values` are float64 (or int64, bool) arrays whose numbers are already those of the format
    `rounding`; floating constants of the program are rounded to `rounding` too, before they are
    cast to `dtype`. The two differ when a float32 problem is looked at again in float64.
    `difference` is for an engine that does not differentiate but takes differences. Third order,
    the blocks are those of the derivative along a direction, which is `along`, an array an input.
    `stage`: an engine that compiles goes up to this stage of its compiler and no further.
    """

    program: Program
    values: Mapping[str, Array]
    wrt: tuple[str, ...]
    dtype: str
    rounding: str
    mode: Mode
    projection: Projection = field(default_factory=Projection)
    trace: TraceRequest | None = None
    difference: Difference = field(default_factory=Difference)
    along: Mapping[str, Array] | None = None
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Gradient:
    """One block of a Jacobian or Hessian as an engine computed it.

    `values` has shape (rows, columns) in float64, or is None where the engine gave no gradient at
    all (not zeros: nothing). `dtype` is what the engine's own array had.
    """

    values: Array | None
    dtype: str | None = None


FailureKind = Literal[
    "raised",
    "crashed",
    "timed-out",
    "out-of-memory",
    "unsupported",
    "wrong-shape",
    "missing-output",
    "internal",
]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no answer. `message` is one sentence; `detail` may hold a short traceback. The
    kind `internal` is a mistake of gradcheck's own, in its truth, its judge or its explanation.

    `node` is the index of the program's node that was being run, where that is known; `place` is in
    a file of the user's code.
    """

    kind: FailureKind
    message: str
    detail: str = ""
    node: int | None = None
    place: Place | None = None


Phase = Literal["forward", "backward", "tangent"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation that an engine executed, at the element of its result where it does worst.

    `name` is the engine's own word for it ("aten.div.Tensor", "RealDiv", "divide"), `node` the node
    of the program on whose behalf it ran (None where that is not known), `index` the element.
    `inputs` are the numbers that went in there, one an array argument (nan where no single element
    meets this one), `exact_inputs` what they are in exact arithmetic; `result` is what came out,
    `exact` what comes out in exact arithmetic. `error` is the local error in ulps of the dtype: the
    exact inputs rounded to the dtype, this one operation in the dtype, against `exact`; inf where
    only one of the two is finite. (Panchekha et al., Automatically improving accuracy for floating
    point expressions, PLDI 2015, section 4.3.) `place` is the stretch of a user's file that ran it,
    where it was run by code that a user wrote.
    """

    name: str
    phase: Phase
    node: int | None
    index: tuple[int, ...]
    inputs: tuple[float, ...]
    exact_inputs: tuple[float, ...]
    result: float
    exact: float
    error: float
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """Values, and cotangents or tangents, by node index, in float64; a node without one is
    absent.

    Where the request had a target: `operations` that round by more than a library may, in the order
    in which they were executed; `culprits`, the smallest set of them found (places in `operations`)
    which, done exactly and nothing else, makes the entry right; `repaired`, its error in ulps then
    (None where no set was found). `note` says why operations are missing, where they are, `fault`
    that this is a mistake of gradcheck's own; `exactly` is what all of them give in exact
    arithmetic, where even that is as wrong, and `enclosed` says that it is the same wrong
    number, and that no operation was left to a float64 kernel: then rounding has no part. The
    three that begin with `output_` say the same about the output, where that was requested.
    """

    values: Mapping[int, Array]
    derivatives: Mapping[int, Array]
    operations: tuple[Operation, ...] = ()
    culprits: tuple[int, ...] = ()
    repaired: float | None = None
    note: str = ""
    fault: Failure | None = None
    exactly: float | None = None
    enclosed: bool = False
    output_operations: tuple[Operation, ...] = ()
    output_culprits: tuple[int, ...] = ()
    output_repaired: float | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An engine's answer to one Problem: outputs and gradients, or a failure.

    `gradients` has one entry an input of `wrt` (first order) or one a block "a.b" (second order).
    `forward` and `backward` count the passes that were run. `approximation` says by which formula
    the gradients were approximated, where they were not differentiated: then their error is that
    formula's. `compile_s` was spent on compiling and is not part of `duration_s`.
    """

    engine: str
    dtype: str
    rounding: str
    mode: Mode
    output: Array | None = None
    gradients: Mapping[str, Gradient] = field(default_factory=dict)
    failure: Failure | None = None
    trace: Trace | None = None
    forward: int = 0
    backward: int = 0
    duration_s: float = 0.0
    approximation: str = ""
    compile_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TrainingProblem:
    """Gradient descent: parameter <- parameter - rate * gradient, outside the graph, `steps`
    times."""

    program: Program
    values: Mapping[str, Array]
    parameters: tuple[str, ...]
    rate: float
    steps: int
    dtype: str
    rounding: str


@dataclass(frozen=True, slots=True)
class Training:
    """The path that an engine took: the loss before each step and after the last, shape (steps +
    1,), and every parameter before each step and after the last, shape (steps + 1, *parameter)."""

    engine: str
    dtype: str
    losses: Array | None = None
    parameters: Mapping[str, Array] = field(default_factory=dict)
    failure: Failure | None = None
    duration_s: float = 0.0
