"""What an engine is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import Program

Mode = Literal["reverse", "forward", "reverse-over-reverse", "forward-over-reverse"]
FIRST_ORDER: tuple[Mode, ...] = ("reverse", "forward")
SECOND_ORDER: dict[Mode, Mode] = {
    "reverse": "reverse-over-reverse",
    "forward": "forward-over-reverse",
}


@dataclass(frozen=True, slots=True)
class Projection:
    """Which part of the Jacobian is asked for. None is the identity: every row, every column.

    First order, J has the flattened output along its rows and one input along its columns.
    Reverse mode takes `rows`, shape (k, *output): row i of the answer is rows[i] @ J. Forward mode
    takes `columns`, input -> (k, *input): column i of the answer is J @ columns[input][i].

    Second order, the Hessian of the scalar s = <rows[0], output> (the output itself where that is a
    scalar) is asked for, in blocks "a.b" = d(ds/da)/db: a's entries along the rows, b's along the
    columns, `columns[b]` in place of the identity where given.
    """

    rows: Array | None = None
    columns: Mapping[str, Array] | None = None


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Keep what every node had: cotangents of `row` (reverse), tangents of `column` of `input`."""

    row: int = 0
    input: str | None = None
    column: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """This program, these values, this dtype, this mode.

    `values` are float64 (or int64, bool) arrays whose numbers are already those of the format
    `rounding`; floating constants of the program are rounded to `rounding` too, before they are
    cast to `dtype`. The two differ when a float32 problem is looked at again in float64.
    """

    program: Program
    values: Mapping[str, Array]
    wrt: tuple[str, ...]
    dtype: str
    rounding: str
    mode: Mode
    projection: Projection = field(default_factory=Projection)
    trace: TraceRequest | None = None


@dataclass(frozen=True, slots=True)
class Gradient:
    """One block of a Jacobian or Hessian as an engine computed it.

    `values` has shape (rows, columns) in float64, or is None where the engine gave no gradient at
    all (not zeros: nothing). `dtype` is what the engine's own array had.
    """

    values: Array | None
    dtype: str | None = None


FailureKind = Literal["raised", "crashed", "timed-out", "unsupported", "wrong-shape"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no answer. `message` is one sentence; `detail` may hold a short traceback.

    `node` is the index of the program's node that was being run, where that is known.
    """

    kind: FailureKind
    message: str
    detail: str = ""
    node: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """Values, and cotangents or tangents, by node index, in float64; a node without one is
    absent."""

    values: Mapping[int, Array]
    derivatives: Mapping[int, Array]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An engine's answer to one Problem: outputs and gradients, or a failure.

    `gradients` has one entry an input of `wrt` (first order) or one a block "a.b" (second order).
    `forward` and `backward` count the passes that were run.
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
