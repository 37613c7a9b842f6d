"""A layer bound for its examination: in the dtype that is judged, and in the highest precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from gradcheck_cli.checks.findings import finding_for
from gradcheck_cli.checks.protocol import Ask, CastsRequest, Steps
from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.evaluation import Evaluation, Gradient, Mode, Projection
from gradcheck_cli.domain.layer import LayerProblem, LeafValues, as_program
from gradcheck_cli.domain.records import dataclass, replace
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.truth import Truth
from gradcheck_cli.engines.layer.subject import CallResult, Subject, output_size

Bind = Callable[[str, Values], Subject | None]

MOVING = "moving size"
"""The key under which the check of gradients records a layer's number of moving entries, for the
check of its behaviour."""


@dataclass(frozen=True, slots=True)
class BoundLayer:
    """A layer in the dtype of its problem (`narrow`) and in the highest precision that it runs in
    (`highest`), which may be the same subject. The layer is judged by the precision of
    `problem.dtype`. `bind` gives the layer in another dtype or at other values of its leaves, or
    None if it does not run so. If `uncast`, `highest` is the layer without its casts. `known` holds
    values of the two subjects at their own leaves; None if a value may change between calls."""

    name: str
    problem: LayerProblem
    narrow: Subject
    highest: Subject
    bind: Bind
    uncast: bool = False
    known: list[tuple[Subject, Array]] | None = None

    def value(self, subject: Subject) -> Array:
        """The value at the subject's own leaves; that of `narrow` and `highest` is kept."""
        for one, value in self.known or ():
            if one is subject:
                return value
        found = subject.value({})
        if self.known is not None and (subject is self.narrow or subject is self.highest):
            self.known.append((subject, found))
        return found

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The domain of each input, (low, high)."""
        entries = self.problem.inputs
        return {name: (entry.low, entry.high) for name, entry in entries.items()}

    def doubt(self) -> Steps[None]:
        """Ask whether the layer casts; to be done before a finding blames the layer."""
        yield [Ask(self.name, CastsRequest())]

    @contextmanager
    def at_values(self, dtype: str, values: Values) -> Iterator[Subject | None]:
        """The layer in `dtype` at other values of its leaves. Leaves that a closure captured keep
        their values."""
        captured = {leaf.name for leaf in self.narrow.leaves if leaf.role == "captured"}
        given = {name: value for name, value in values.items() if name not in captured}
        there = self.bind(dtype, given)
        try:
            yield there
        finally:
            if there is not None:
                there.close()

    @contextmanager
    def coarser(self) -> Iterator[Subject | None]:
        """The layer at its own values in a dtype below the highest precision, or None."""
        if self.narrow.dtype != self.highest.dtype:
            yield self.narrow
        elif self.highest.dtype == "float64":
            with self.at_values("float32", {}) as other:
                yield other
        else:
            yield None

    def evaluation(
        self, subject: Subject, ran: CallResult, mode: Mode, rows: int, seconds: float
    ) -> Evaluation:
        """The run as an Evaluation with this number of cotangents."""
        return Evaluation(
            engine=self.name,
            dtype=subject.dtype,
            rounding=self.problem.dtype,
            mode=mode,
            output=ran.output.reshape(output_shape(subject)),
            gradients={n: Gradient(g, ran.dtypes.get(n)) for n, g in ran.gradients.items()},
            forward=1,
            backward=rows,
            duration_s=seconds,
        )

    def case(
        self,
        projections: Mapping[Mode, Projection],
        evaluations: tuple[Evaluation, ...],
        truth: Truth,
        wide: Mapping[tuple[str, str], Evaluation],
    ) -> Case:
        """The evidence for the judge."""
        problem, narrow = self.problem, self.narrow
        return Case(
            spec=with_layer(problem, narrow),
            point=problem.point_number,
            dtype=problem.dtype,
            values=LeafValues(narrow.leaves),
            projections=projections,
            evaluations=evaluations,
            truth=truth,
            wide=wide,
            named=frozenset({self.name} if problem.named else ()),
            named_modes=frozenset(problem.modes if problem.named_modes else ()),
            seed=problem.seed,
            complex_leaves=frozenset(leaf.name for leaf in narrow.leaves if leaf.is_complex),
            complex_output=is_complex(narrow),
        )

    def finding(self, code: str, message: str, mode: Mode | None = None) -> Finding:
        """A finding about the layer in its dtype."""
        return finding_for(self.problem, code, message, dtype=self.problem.dtype, mode=mode)


def moving_size(subject: Subject) -> int:
    return sum(leaf.size for leaf in subject.leaves if leaf.differentiable)


def output_shape(subject: Subject) -> tuple[int, ...]:
    """The shape of the only output, or (m,) for several outputs, which are concatenated."""
    if len(subject.outputs) == 1:
        return subject.outputs[0].shape
    return (output_size(subject),)


def is_complex(subject: Subject) -> bool:
    """Whether the only output is complex."""
    return len(subject.outputs) == 1 and subject.outputs[0].is_complex


def with_layer(problem: LayerProblem, subject: Subject) -> Spec:
    """The spec with the layer as its program: one operation over the leaves."""
    leaves = {leaf.name: leaf.shape for leaf in subject.leaves}
    program = as_program(problem.implementation, leaves, output_shape(subject))
    wrt = tuple(leaf.name for leaf in subject.leaves if leaf.differentiable)
    return replace(problem.spec, program=program, wrt=wrt)
