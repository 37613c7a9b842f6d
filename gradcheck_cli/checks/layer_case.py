"""Compare derivatives of a layer with their truth, in the steps of the protocol."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.forward_mode import Pushes
from gradcheck_cli.checks.protocol import CaseExamination, Steps
from gradcheck_cli.checks.unfilled_entries import with_never_filled
from gradcheck_cli.domain.case import Case, Suspect
from gradcheck_cli.domain.dtypes import Array, Values, ValuesOrNone
from gradcheck_cli.domain.evaluation import Evaluation, Mode
from gradcheck_cli.engines.layer.subject import Call, CallResult, Subject
from gradcheck_cli.judge import is_suspect, suspect_entries

Evaluations = dict[tuple[str, str], Evaluation]
"""Evaluations by engine and mode."""


class LayerCase(CaseExamination):
    """The examination of a layer's derivatives. `suspected`: the first look left suspects."""

    def __init__(self, layer: BoundLayer) -> None:
        super().__init__()
        self.layer = layer
        self.suspected = False
        self.suspect_entries: Mapping[tuple[str, str], Array] | None = None  # None: all
        self._there: dict[tuple[bytes, ...], ValuesOrNone] = {}  # by mode and values

    @abstractmethod
    def make_case(self, costs: bool = False) -> Case:
        """The case for the judge; if `costs`, with the cost of rounding."""

    @abstractmethod
    def evaluate_in(self, subject: Subject) -> Evaluations:
        """Evaluate the derivatives again with a subject in another dtype."""

    @abstractmethod
    def blocks_at(self, mode: Mode, values: Values) -> Mapping[str, Array | None]:
        """The blocks of one mode at other values of the leaves."""

    @property
    @abstractmethod
    def unsure(self) -> bool:
        """Whether the first look at values did not confirm the derivatives."""

    def first_look(self) -> Steps[Case]:
        case = self.make_case()
        if self.unsure:
            yield from self.layer.doubt()
        return case

    @property
    def is_certified(self) -> bool:
        """Whether the truth comes from a program, which can compute the cost of rounding for some
        entries alone."""
        return False

    def cost_of_rounding(self) -> Steps[Case]:
        """Compute the cost of rounding; from a program, first for suspects alone and without
        differences. This only makes the judge stricter, and most suspects are right."""
        if self.is_certified:
            self.suspect_entries = suspect_entries(self.case)
        if self.suspect_entries is not None:
            case = self.costed()
            self.suspect_entries = None
            if not is_suspect(case):
                self.suspected = True
                return case
        self.suspected = True
        yield from self.layer.doubt()
        return self.costed()

    def costed(self) -> Case:
        """The case with the cost of rounding, which excludes entries that are never filled."""
        case, leaves = self.make_case(costs=True), self.layer.narrow.leaves
        for mode in case.projections:
            case = with_never_filled(case, mode, partial(self._cached_blocks, mode), leaves)
        return case

    def _cached_blocks(self, mode: Mode, values: Values) -> ValuesOrNone:
        """The result of `blocks_at`, which runs at the same points for suspects and for all."""
        key = mode.encode(), *(value.tobytes() for value in values.values())
        if key not in self._there:
            self._there[key] = self.blocks_at(mode, values)
        return self._there[key]

    def second_look(self, found: Sequence[Suspect]) -> Steps[Case]:
        """Evaluate the suspects in float32 if there is no higher precision: an error that does not
        depend on the precision is not a rounding error."""
        yield from ()  # asks nothing: the layer runs in this process
        layer = self.layer
        if layer.highest is not layer.narrow:
            return self.case
        with layer.coarser() as other:
            if other is not None:
                return replace(self.case, wide=self.evaluate_in(other))
        return replace(self.case, wide=self.perturbed_evaluations())

    def perturbed_evaluations(self) -> Evaluations:
        """Evaluations that replace another precision, if the layer runs in none."""
        return {}


class Gradients(LayerCase):
    """First derivatives of a layer in both modes: the whole Jacobian, or products of it."""

    def __init__(self, layer: BoundLayer) -> None:
        super().__init__(layer)
        self.pushes = Pushes(layer.name, layer.problem, layer.narrow)
        self.evaluations: tuple[Evaluation, ...] = ()

    @abstractmethod
    def reverse(self, subject: Subject) -> Evaluation:
        """Evaluate a subject in reverse mode."""

    @abstractmethod
    def forward(self, subject: Subject) -> Evaluation | None:
        """Evaluate a subject in forward mode; None if it has no such mode."""

    def evaluate(self) -> None:
        """Evaluate the layer in the modes that the problem requests."""
        modes, narrow = self.layer.problem.modes, self.layer.narrow
        reverse = self.reverse(narrow) if "reverse" in modes else None
        forward = self.forward(narrow) if "forward" in modes else None
        self.evaluations = tuple(one for one in (reverse, forward) if one is not None)

    def first_look(self) -> Steps[Case]:
        case = yield from super().first_look()
        self.notes += self.pushes.notes
        return case

    @property
    def has_forward(self) -> bool:
        """Whether there is an evaluation in forward mode."""
        return any(evaluation.mode == "forward" for evaluation in self.evaluations)

    def evaluate_in(self, subject: Subject) -> Evaluations:
        return {(self.layer.name, "reverse"): self.reverse(subject)} | self.in_forward(subject)

    def in_forward(self, subject: Subject) -> Evaluations:
        """Evaluate the layer by forward mode in another precision, if it has that mode."""
        found = self.forward(subject) if self.has_forward else None
        return {} if found is None else {(self.layer.name, "forward"): found}

    def blocks_at(self, mode: Mode, values: Values) -> Mapping[str, Array | None]:
        if mode == "reverse":
            return self.layer.narrow.run(Call(values, self.cotangents)).gradients
        with self.layer.at_values(self.layer.narrow.dtype, values) as there:
            found = {} if there is None else self.in_forward(there)
        return {name: g.values for one in found.values() for name, g in one.gradients.items()}

    @property
    @abstractmethod
    def cotangents(self) -> Array:
        """The cotangents of the flattened outputs, (k, m)."""

    def evaluation(self, subject: Subject, ran: CallResult, seconds: float) -> Evaluation:
        """The run as an evaluation by reverse mode with all cotangents."""
        return self.layer.evaluation(subject, ran, "reverse", len(self.cotangents), seconds)
