"""The interface of a user's layer, independent of its framework."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values, ValuesOrNone
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.custom import Lines

if TYPE_CHECKING:
    from gradcheck_cli.engines.layer.casts import Cast
    from gradcheck_cli.engines.layer.custom import CustomCall, GradientBarrier, UnclippedGradients
    from gradcheck_cli.engines.layer.declared import Declared
    from gradcheck_cli.engines.layer.lifting import Lifted
    from gradcheck_cli.engines.layer.recording import Recording
    from gradcheck_cli.engines.layer.rewriting import Expression, Seen

Layout = Literal["contiguous", "transposed", "expanded", "sliced"]
"""How an array lies in memory: row after row; last axis first; with stride 0 along every axis along
which all numbers are equal; every second number of a longer last axis (of a large array all but the
first: more would take twice its memory)."""


@dataclass(frozen=True, slots=True)
class Output:
    """One floating output: "y", or "y[0]", "y['mask']" if there are several. Outputs are flattened
    and joined; this one begins at `start`. Complex numbers have their parts along the last axis
    (`is_complex`)."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    start: int
    is_complex: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class SubjectRequest:
    """A layer, its inputs and the dtype to run it in.

    `values` are float64, int64 or bool arrays whose numbers are already rounded to `rounding`.
    Parameters are rounded to it too, before they are cast to `dtype`. The two differ if a float32
    problem is examined in float64. A name in `values` may be that of a parameter and then replaces
    its value. `domains` has the smallest and largest number that a value may have, by name. `data`
    are inputs without `requires_grad`, whose derivatives nobody requests. `uncast`: the layer runs
    in float64 throughout, and casts to a narrower dtype have no effect. The values of
    `complex_inputs` have pairs along their last axis, and the layer is called with complex numbers.
    `forward`: no other mode is requested, so a layer without a reverse mode is no failure, and rows
    of its Jacobian are made from columns.
    """

    implementation: Implementation
    values: Values
    dtype: str
    rounding: str
    seed: int = 0
    uncast: bool = False
    forward: bool = False
    data: frozenset[str] = frozenset()
    domains: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    complex_inputs: frozenset[str] = frozenset()

    @property
    def empty(self) -> bool:
        """Whether an input has no entries."""
        return any(value.size == 0 for value in self.values.values())


class Spare(dict[str, Array]):
    """Values of leaves, or a direction, that the layer may write to, because their creator does not
    need them afterwards. Arrays as large as the layer then need not be copied."""


@dataclass(frozen=True, slots=True)
class Call:
    """One forward run of a layer, and one backward pass for each row of `cotangents`.

    `values` has the leaves that are not at their own values. `cotangents` (k, m) are those of the
    flattened outputs. `wrt` are the leaves that require gradients (None: all that are
    differentiable). `used_outputs` names the outputs that receive a cotangent (None: all), as if a
    loss used only them. Without `tracking` the layer runs as in inference, without a graph.
    `layouts` is the memory layout of each cotangent (none: contiguous), `inputs` that of the given
    inputs. `interleaved_inputs`: after the forward run, another one is made at these values; then
    the backward passes of the first follow. `earlier_inputs`: the same object is called before at
    these values, forward and backward. `retained`: all rows use one graph, whatever a second pass
    raises. `watch`: the call is watched for writes and for random numbers. `each` may receive the
    index and the gradients (n,) of every row as soon as they are computed. They are not part of the
    result then, because together they may need much memory.
    """

    values: Values = field(default_factory=dict)
    cotangents: Array | None = None
    wrt: tuple[str, ...] | None = None
    used_outputs: tuple[str, ...] | None = None
    tracking: bool = True
    layouts: tuple[Layout, ...] = ()
    inputs: Layout = "contiguous"
    interleaved_inputs: Values | None = None
    earlier_inputs: Values | None = None
    retained: bool = False
    watch: bool = False
    each: Callable[[int, dict[str, Array | None]], None] | None = None


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a Call. `output` is flat, (m,), in float64. `gradients` has (k, n) for each
    leaf, or None if the framework returned nothing.

    `overwritten` names the leaves whose gradient of one backward pass was overwritten by a later
    pass, over a `retained` graph or of the earlier call. The following are filled if the call was
    watched. `changed` names the leaves that the forward run wrote to, `changed_later` those that
    the backward passes wrote to. `output_written`: the backward passes wrote to an output, or later
    steps to an output of the earlier call. `upstream_changed`: they wrote to a cotangent.
    `accumulated` names the leaves whose own gradient (`.grad`), which the call must not touch, was
    written to. `random`: random numbers were drawn. Faults that arrays of a framework cannot have
    are never reported.
    """

    output: Array
    gradients: ValuesOrNone = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    changed_later: tuple[str, ...] = ()
    upstream_changed: bool = False
    overwritten: tuple[str, ...] = ()
    output_written: bool = False
    accumulated: tuple[str, ...] = ()
    random: bool = False

    def row(self, place: int) -> dict[str, Array | None]:
        """The gradients (n,) of one row, by leaf."""
        return {name: None if g is None else g[place] for name, g in self.gradients.items()}


@dataclass
class Stencils:
    """How many points of finite differences were evaluated `batched`, several in one call of the
    layer, and how many one by one."""

    batched: int = 0
    looped: int = 0


class Subject(Protocol):
    """A user's layer, bound to its inputs, in one dtype.

    After every method the user's objects are as before: parameters, buffers, gradients, training
    mode, and the state of random numbers, which is the same before every call. Every method may
    raise what the user's code raises.
    """

    dtype: str
    outputs: tuple[Output, ...]  # of the first call, which is made when the subject is bound
    first_value: Array | None  # what they were, flat; None where that is large, or not known
    notes: tuple[str, ...]  # sentences for a person ("dropout: random numbers ...")
    stages: tuple[str, ...]  # of a compiler, from nothing compiled to everything; none without one
    traced_stage: str  # the last of them before code is written, which takes most of the time
    copies: bool  # every call has an object of its own
    runs_once: bool  # each backward pass has a forward run of its own
    is_fresh: bool  # what it calls was made for it, and no other subject calls the same
    chosen: Values  # parameters that the layer set by the inputs of its first call, for good
    stencils: Stencils
    shows_pairs: bool  # `seen` complex numbers are parts along a last axis; otherwise nothing

    @property
    def digits(self) -> str:
        """The narrowest dtype among the intermediate values, if it is known; otherwise `dtype`."""

    @property
    def leaves(self) -> tuple[Leaf, ...]: ...

    @property
    def mode(self) -> Mode:
        """The mode in which `run` differentiates. It may only be known after a first run."""

    def at_stage(self, stage: str) -> AbstractContextManager[Any]:
        """Inside the block, the compiler of the layer stops after this one of its `stages`."""

    def differentiate(self, names: Collection[str]) -> None:
        """Differentiates only these leaves from now on, if they are differentiable."""

    def assume_digits(self, dtype: str) -> None:
        """Notes that the values have no more than the digits of this dtype."""

    def value(self, values: Values) -> Array:
        """The flattened outputs (m,) with these values of leaves."""

    def several(self, many: Sequence[Values]) -> Array:
        """The values at several points, (k, m), computed together if the layer allows it."""

    def run(self, call: Call) -> CallResult: ...

    def jvp(self, tangents: Values) -> Array | None:
        """J @ tangents by the framework's forward mode, (m,); None if no output has a tangent.
        Raises Unsupported."""

    def jvps(self, many: Sequence[Values]) -> list[Array | Unsupported | None]:
        """`jvp` along several tangents, each of some leaves. If there is no forward mode for these,
        the exception stands in place of the result, as in `each_jvp`."""
        return each_jvp(self.jvp, many)

    def tangents_of(self, tangents: Mapping[str, Array]) -> Array:
        """Which outputs (m,) have a tangent in forward mode; `jvp` returns zeros for the others.
        Raises Unsupported."""
        return np.ones(output_size(self), dtype=np.bool_)

    def hvp(
        self, mode: Mode, row: Array, tangents: Values, along: Values | None = None
    ) -> ValuesOrNone:
        """d<row @ J, tangents>/d(leaf), (n,) for each leaf, by any composition except forward over
        forward, which does not compute such an array. For third order: d<d<row @ J, along>/d(leaf),
        tangents>/d(leaf). Raises Unsupported."""

    def second_tangent(self, row: Array, firsts: Values, tangents: Values) -> float | None:
        """The derivative of <row, J @ tangents> along `firsts` by forward over forward; None if no
        output has one. Raises Unsupported."""

    def double_vjp(self, row: Array, tangents: Values) -> Array:
        """The derivative of <row @ J, tangents> with respect to the row, (m,), through the backward
        of the backward: J @ tangents of all differentiated leaves. Raises Unsupported."""

    def record(self, row: Array) -> Recording:
        """One forward and one backward pass (row @ J), operation by operation. Raises Unsupported,
        and `recording.TooLarge`."""

    def record_forward(self) -> Recording:
        """One forward pass at the leaves' own values, operation by operation. Raises Unsupported if
        the framework does not show operations, and `recording.TooLarge`."""

    def lift(self) -> Lifted:
        """The forward at the leaves' own values as a program of the op table. Raises Unsupported,
        `recording.TooLarge` and `lifting.NotLifted`."""

    def gradient_program(
        self, narrow: Subject, searched: Sequence[str], points: Sequence[Values]
    ) -> GradientProgram:
        """The operations of the value and the whole gradient, for all values of the leaves
        `searched`. `narrow` is the same layer in the dtype to be searched, which is also run at
        `points`. If other values may run other operations, the answer has a reason in place of a
        program."""
        return GradientProgram(
            reason="it is not known whether the layer runs other operations elsewhere"
        )

    def evaluations_of(
        self, expression: Expression, run: Callable[[], object], others: Sequence[ast.expr] = ()
    ) -> Sequence[Seen]:
        """Every evaluation of an expression of the user while this subject does `run`. `others` are
        tried at the same place. Raises `rewriting.NotRewritable`."""

    def replacing(
        self, expression: Expression, text: str, names: Mapping[str, Any]
    ) -> AbstractContextManager[None]:
        """Inside the block, an expression of the user is replaced by this text, which may use
        `names` in addition to those available there. Raises `rewriting.NotRewritable`."""

    def casts(self) -> Sequence[Cast]:
        """The visible casts to a narrower dtype in a forward and a backward pass."""

    def functions(self, row: Array | None = None) -> Sequence[CustomCall]:
        """The calls of functions with a custom derivative that the outputs depend on, in order; or
        that row @ J depends on, with those inside of a backward, where the framework shows
        them."""

    @property
    def user_function(self) -> Any:
        """The user's object as it is called; None if it captures nothing."""

    def solvers(self) -> frozenset[str]:
        """The visible functions with a custom derivative that iterate until their numbers
        converge."""
        return frozenset()

    @property
    def samplers(self) -> frozenset[str]:
        """The operations, by the names that steps have, that draw numbers from a distribution with
        given parameters. Their derivative holds the quantile fixed (Figurnov et al., Implicit
        Reparameterization Gradients, NeurIPS 2018), and is not that of the numbers drawn with one
        seed."""
        return frozenset()

    def lines(self, row: Array) -> Lines:
        """The visible writes and random draws of a forward and a backward pass (row @ J)."""
        return Lines()

    def uncut(self, row: Array) -> tuple[ValuesOrNone, Sequence[GradientBarrier]]:
        """row @ J by leaf, and the same for each detaching call if it let gradients pass. Empty for
        a framework without a graph."""
        return {}, ()

    def unclipped_gradients(self, rows: Array) -> Sequence[UnclippedGradients]:
        """rows @ J by leaf, without each visible bound that keeps a number away from a pole."""
        return ()

    def hold(self, declared: Declared) -> None:
        """From now on `value` and `several` follow the declarations of `declared`. Raises
        Unsupported, and `declared.NotDeclarable`."""

    def close(self) -> None:
        """Restores everything. The subject must not be used again."""


def output_size(subject: Subject) -> int:
    """The number of entries of all outputs together."""
    return sum(output.size for output in subject.outputs)


def one_by_one(subject: Subject, many: Sequence[Values]) -> Array:
    """`Subject.several` for layers that gain nothing from being called at several points at
    once."""
    subject.stencils.looped += len(many)
    return np.stack([subject.value(values) for values in many])


def each_jvp(
    jvp: Callable[[Values], Array | None], many: Sequence[Values]
) -> list[Array | Unsupported | None]:
    """The jvp along each of the tangents. An Unsupported error stands in place of the result, also
    for all later tangents of the same leaves, which are not tried."""
    refused: dict[frozenset[str], Unsupported] = {}
    along: list[Array | Unsupported | None] = []
    for tangents in many:
        moving = frozenset(tangents)
        try:
            along.append(refused[moving] if moving in refused else jvp(tangents))
        except Unsupported as error:
            refused[moving] = Unsupported(str(error))  # without the arrays of its frames
            along.append(refused[moving])
    return along
