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
"""Compositions of first-order modes: each mode differentiates the result of the modes after it."""
SECOND: tuple[Mode, ...] = tuple(COMPOSED)
"""Modes whose blocks are blocks of a Hessian. For third order, it is the Hessian of the derivative
along a direction (`Problem.along`), which the innermost mode computes."""


def order_of(mode: str) -> int:
    """The order of the derivatives of a mode."""
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
    """A difference quotient: its scheme and its step h; None for the usual step for the dtype and
    the size of the input."""

    scheme: Scheme = "central"
    step: float | None = None


@dataclass(frozen=True, slots=True)
class Projection:
    """The requested part of the Jacobian. None is the identity: every row, every column.

    First order: J has the flattened output along its rows and one input along its columns. Reverse
    mode takes `rows`, shape (k, *output): row i of the answer is rows[i] @ J. Forward mode takes
    `columns`, input -> (k, *input): column i of the answer is J @ columns[input][i].

    Second order: the Hessian of the scalar s = <rows[0], output> (the output itself if it is a
    scalar) is requested, in blocks "a.b" = d(ds/da)/db: a's entries along the rows, b's along the
    columns. If given, `columns[b]` replaces the identity along the columns, and `firsts[a]` the
    identity along the rows: forward over forward takes one pass for each pair of directions.
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
    """Requests a trace: the cotangents of `row` (reverse mode), or the tangents of `column` of
    `input`, at every node. For second order, `row` is an entry or a direction of the input `first`,
    and the traced entry belongs to d(ds/d first)/d input.

    `target` is the right value of the entry, if known. With a target, the operations that were
    executed are examined one by one, and those that spoil the entry are named (`Trace`). The same
    is done for element `output` of the flattened output if `output_target` is given.
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
    """The question to an engine: this program, these values, this dtype, this mode.

    `values` are float64 (or int64, bool) arrays whose numbers are already numbers of the format
    `rounding`. Floating constants of the program are rounded to `rounding` too, before they are
    cast to `dtype`. The two differ if a float32 problem is examined again in float64. `difference`
    is for an engine that takes differences instead of differentiating. For third order, the blocks
    belong to the derivative `along` a direction, an array for each input. `stage`: an engine that
    compiles goes up to this stage of its compiler and no further.
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

    `values` has shape (rows, columns) in float64, or is None if the engine returned no gradient at
    all (not zeros). `dtype` is the dtype of the engine's own array.
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
    kind `internal` is a bug in gradcheck's truth, judge or explanation.

    `node` is the index of the program's node that was being run, if known; `place` is a place in a
    file of the user's code.
    """

    kind: FailureKind
    message: str
    detail: str = ""
    node: int | None = None
    place: Place | None = None


Phase = Literal["forward", "backward", "tangent"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation that an engine executed, at the element of its result with the largest error.

    `name` is the engine's name for it ("aten.div.Tensor", "RealDiv", "divide"), `node` the node of
    the program that it ran for (None if unknown), `index` the element. `inputs` are the numbers
    that went into this element, one for each array argument (nan if no single element belongs to
    it), and `exact_inputs` their values in exact arithmetic. `result` is the computed result,
    `exact` the result in exact arithmetic. `error` is the local error in ulps of the dtype: the
    exact inputs rounded to the dtype, this one operation in the dtype, against `exact`; inf if only
    one of the two is finite. (Panchekha et al., Automatically improving accuracy for floating point
    expressions, PLDI 2015, section 4.3.) `place` is the stretch of a user's file that ran it, if
    the user's code did.
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
    """Values, and cotangents or tangents, by node index, in float64; a node without one is absent.

    The other fields need a target in the request. `operations` are those that round by more than a
    library may, in the order of execution. `culprits` (places in `operations`) is the smallest set
    found that makes the entry right if only these operations are done exactly, and `repaired` is
    the entry's error in ulps then (None without a set). `note` says why operations are missing, if
    any are; `fault` says that this is a bug in gradcheck. `exactly` is the result with all
    operations in exact arithmetic, if that is just as wrong; `enclosed` says that it is the same
    wrong number and that no operation was left to a float64 kernel, so rounding has no part in it.
    The fields that begin with `output_` say the same about the output.
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

    `gradients` has one entry for each input of `wrt` (first order) or each block "a.b" (second
    order). `forward` and `backward` count the passes that were run. `approximation` names the
    difference formula if the gradients were not differentiated; their error is then the formula's.
    `compile_s` was spent on compiling and is not part of `duration_s`.
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
