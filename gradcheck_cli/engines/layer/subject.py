"""What can be done with a user's layer, whatever its framework."""

from __future__ import annotations

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
    """One floating output: "y", or "y[0]", "y['mask']" where there are several. Outputs are
    flattened one after the other; this one begins at `start`. One of complex numbers has their
    parts along its last axis (`is_complex`)."""

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

    `values` are float64, int64 or bool arrays whose numbers are already those of `rounding`;
    parameters are rounded to it too, before they are cast to `dtype`. The two differ where a
    float32 problem is looked at in float64. `domains` has the least and the greatest number that a
    value may have, by name. A name of `values` that is a parameter's gives that its
    value. `data` are inputs whose derivatives nobody requests: they require no gradient. `uncast`:
    the layer runs in float64 from end to end, and where it casts to a narrower dtype it goes on
    with the number as it is. The values of `complex_inputs` have pairs along their last axis, and
    the layer is called with complex numbers. `forward`: no other mode is requested, so that a layer
    without a reverse mode is no failure: rows of its Jacobian are made of columns.
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
    """Values of leaves, or a direction of them, that the layer may write to: who made them has no
    use for them afterwards, so nothing that is as large as the layer has to be copied."""


@dataclass(frozen=True, slots=True)
class Call:
    """One forward run of a layer, and as many backward passes as there are rows of `cotangents`.

    `values` has leaves that are not at their own values. `cotangents` (k, m) are those of the
    flattened outputs; `wrt` the leaves that ask for gradients (None: all that are differentiable);
    `used_outputs` the names of the outputs that hand a cotangent back (None: all; the others have
    none at all, as where a loss does not use them). Without `tracking` the layer runs as in
    inference, with no graph. `layouts` is how each cotangent lies in memory (none: contiguous),
    `inputs` how the given inputs do. `interleaved_inputs`: after the forward run, another one at
    these values; then the backward passes of the first. `earlier_inputs`: the same object was
    called before at these values, forward and backward. `retained`: every row goes back through one
    graph, whatever a second pass raises. `watch`: what the call writes to is looked at, and whether
    it draws random numbers. `each` may be given the place and the gradients (n,) of every row as
    soon as they are there, which are not in the result then: together they may need much memory.
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
    """What came of a Call. `output` is flat, (m,), in float64; `gradients` has (k, n) a leaf, or
    None where the framework gave nothing at all.

    `overwritten` names the leaves whose gradient of one backward pass a later one wrote to: over a
    `retained` graph, or of the earlier call. Filled where the call was watched: `changed` names the
    leaves that the forward run wrote to, `changed_later` those that the backward passes wrote to;
    `output_written`, whether they wrote to an output, or what followed to one of the earlier call;
    `upstream_changed`, whether they wrote to a cotangent; `accumulated` names the leaves whose own
    gradient (`.grad`), which this call has no business with, was written to; `random`, whether
    random numbers were drawn. A fault that a framework's arrays cannot have is never reported.
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
    """How many points of differences were evaluated `batched`, several in one call of the layer,
    and how many one by one."""

    batched: int = 0
    looped: int = 0


class Subject(Protocol):
    """A user's layer, bound to its inputs, in one dtype.

    Whatever is called, the user's objects are afterwards as they were: parameters, buffers,
    gradients, training mode, the state of random numbers, which is the same before every call.
    Everything may raise what the user's code raises.
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
    stencils: Stencils
    shows_pairs: (
        bool  # what is `seen` of complex numbers: their parts along a last axis, or nothing
    )

    @property
    def digits(self) -> str:
        """The narrowest dtype on the way to its values, as far as known: else `dtype`."""
        ...

    @property
    def leaves(self) -> tuple[Leaf, ...]: ...

    @property
    def mode(self) -> Mode:
        """By which `run` differentiates: it may be known after a first run."""
        ...

    def at_stage(self, stage: str) -> AbstractContextManager[Any]:
        """Meanwhile the compiler of the layer goes up to this one of its `stages` and no
        further."""
        ...

    def differentiate(self, names: Collection[str]) -> None:
        """From now on these leaves alone are differentiated, of those that can be."""
        ...

    def assume_digits(self, dtype: str) -> None:
        """From now on its values are known to have no more than the digits of this dtype."""
        ...

    def value(self, values: Values) -> Array:
        """The flattened outputs (m,) with these leaves in place of their own values."""
        ...

    def several(self, many: Sequence[Values]) -> Array:
        """The values at several points, (k, m): at once where the layer allows it."""
        ...

    def run(self, call: Call) -> CallResult: ...

    def jvp(self, tangents: Values) -> Array | None:
        """J @ tangents by the framework's forward mode, (m,); None where no output has a tangent.
        Raises Unsupported."""
        ...

    def jvps(self, many: Sequence[Values]) -> list[Array | Unsupported | None]:
        """`jvp` along several tangents, each of some leaves; what it raises where there is no
        forward mode for these, as `each_jvp` has it."""
        return each_jvp(self.jvp, many)

    def tangents_of(self, tangents: Mapping[str, Array]) -> Array:
        """Which outputs (m,) have a tangent in forward mode; for the others `jvp` has zeros. Raises
        Unsupported."""
        return np.ones(output_size(self), dtype=np.bool_)

    def hvp(
        self, mode: Mode, row: Array, tangents: Values, along: Values | None = None
    ) -> ValuesOrNone:
        """d<row @ J, tangents>/d(leaf), (n,) a leaf, by any composition but forward over forward,
        which has no such array. Third order, d<d<row @ J, along>/d(leaf), tangents>/d(leaf).
        Raises Unsupported."""
        ...

    def second_tangent(self, row: Array, firsts: Values, tangents: Values) -> float | None:
        """The derivative of <row, J @ tangents> along `firsts` by forward over forward; None where
        no output has one. Raises Unsupported."""
        ...

    def double_vjp(self, row: Array, tangents: Values) -> Array:
        """The derivative of <row @ J, tangents> by the row, (m,), through the backward of the
        backward: J @ tangents of all leaves that are differentiated. Raises Unsupported."""
        ...

    def record(self, row: Array) -> Recording:
        """One forward and one backward pass (row @ J), operation by operation. Raises Unsupported,
        and `recording.TooLarge`."""
        ...

    def record_forward(self) -> Recording:
        """One forward pass at the leaves' own values, operation by operation. Raises Unsupported
        where the framework does not show them, and `recording.TooLarge`."""
        ...

    def lift(self) -> Lifted:
        """The forward, as it runs at the leaves' own values, as a program of the op table. Raises
        Unsupported, `recording.TooLarge` and `lifting.NotLifted`."""
        ...

    def gradient_program(
        self, narrow: Subject, searched: Sequence[str], points: Sequence[Values]
    ) -> GradientProgram:
        """The operations for the value and the whole gradient, for all numbers of the leaves
        `searched`; `narrow` is the same layer in the dtype in question, which is run at `points`,
        too. The answer has a reason in place of a program where other numbers may have others."""
        return GradientProgram(
            reason="it is not known whether the layer runs other operations elsewhere"
        )

    def seen(
        self, expression: Expression, run: Callable[[], object], others: Sequence[str] = ()
    ) -> Sequence[Seen]:
        """Every evaluation of an expression of the user's while this subject does `run`; `others`
        are tried where it stands. Raises `rewriting.NotRewritable`."""
        ...

    def written(
        self, expression: Expression, text: str, names: Mapping[str, Any]
    ) -> AbstractContextManager[None]:
        """Meanwhile an expression of the user's is this text, which may use `names` besides those
        that stand there. Raises `rewriting.NotRewritable`."""
        ...

    def casts(self) -> Sequence[Cast]:
        """Where a forward and a backward pass go on in a narrower dtype, as far as it is seen."""
        ...

    def functions(self) -> Sequence[CustomCall]:
        """The calls of functions with a custom derivative on which the outputs depend, in order."""
        ...

    @property
    def user_function(self) -> Any:
        """What the user handed over, as it is called; None where it captures nothing."""
        ...

    def solvers(self) -> frozenset[str]:
        """The functions with a custom derivative that iterate until their numbers say that they are
        near enough, as far as they are seen."""
        return frozenset()

    @property
    def samplers(self) -> frozenset[str]:
        """Operations that draw numbers whose distribution their arguments decide, by the names that
        steps have. Their derivative is that at a fixed quantile (Figurnov et al., Implicit
        Reparameterization Gradients, NeurIPS 2018), not that of what one seed draws."""
        return frozenset()

    def lines(self, row: Array) -> Lines:
        """Where a forward and a backward pass (row @ J) write and draw, as far as it is seen."""
        return Lines()

    def uncut(self, row: Array) -> tuple[ValuesOrNone, Sequence[GradientBarrier]]:
        """row @ J by leaf, as it is and with each call let through that takes a value out of the
        graph; nothing where there is no graph."""
        return {}, ()

    def unclipped_gradients(self, rows: Array) -> Sequence[UnclippedGradients]:
        """rows @ J by leaf with each bound lifted that keeps a number away from a pole, as far as
        they are seen."""
        return ()

    def hold(self, declared: Declared) -> None:
        """From now on `value` and `several` are those of the layer as `declared` has it. Raises
        Unsupported, and `declared.NotDeclarable`."""
        ...

    def close(self) -> None:
        """Puts everything back; the subject is not used again."""
        ...


def output_size(subject: Subject) -> int:
    """How many numbers all outputs are."""
    return sum(output.size for output in subject.outputs)


def one_by_one(subject: Subject, many: Sequence[Values]) -> Array:
    """`Subject.several` where nothing is gained by calling the layer at several points at once."""
    subject.stencils.looped += len(many)
    return np.stack([subject.value(values) for values in many])


def each_jvp(
    jvp: Callable[[Values], Array | None], many: Sequence[Values]
) -> list[Array | Unsupported | None]:
    """The jvp along each of the tangents. Where it is unsupported that error stands, for all others
    of the same leaves as well, along which it is not tried."""
    refused: dict[frozenset[str], Unsupported] = {}
    found: list[Array | Unsupported | None] = []
    for tangents in many:
        moving = frozenset(tangents)
        try:
            found.append(refused[moving] if moving in refused else jvp(tangents))
        except Unsupported as error:
            refused[moving] = Unsupported(str(error))  # without the arrays of its frames
            found.append(refused[moving])
    return found
