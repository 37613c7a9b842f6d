"""Derivatives of a layer, compared with their truth in the steps of the protocol."""

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
from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.evaluation import Evaluation, Mode
from gradcheck_cli.engines.layer.subject import Call, CallResult, Subject
from gradcheck_cli.judge import is_suspect, suspect_entries

Evaluations = dict[tuple[str, str], Evaluation]
"""By engine and mode."""


class LayerCase(CaseExamination):
    """Derivatives of a layer. `suspected`: not all of them were right at first."""

    def __init__(self, layer: BoundLayer) -> None:
        super().__init__()
        self.layer = layer
        self.suspected = False
        self.suspect_entries: Mapping[tuple[str, str], Array] | None = None  # alone are weighed

    @abstractmethod
    def made(self, costs: bool = False) -> Case:
        """What the judge is given; `costs`: with what rounding may cost."""

    @abstractmethod
    def again(self, subject: Subject) -> Evaluations:
        """The derivatives of the layer, computed again in another dtype."""

    @abstractmethod
    def elsewhere(self, mode: Mode, values: Values) -> Mapping[str, Array | None]:
        """The blocks of one mode where leaves have other values."""

    @property
    @abstractmethod
    def unsure(self) -> bool:
        """Whether a first look at values did not confirm them."""

    def first_look(self) -> Steps[Case]:
        case = self.made()
        if self.unsure:
            yield from self.layer.doubt()
        return case

    @property
    def is_certified(self) -> bool:
        """Whether the truth is that of a program, which says what rounding costs some entries
        alone."""
        return False

    def cost_of_rounding(self) -> Steps[Case]:
        """Of the program, at first for the suspect entries alone, without differences beside their
        certificates: the judge is only stricter then, and most of what is suspect is right."""
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
        """The case with what rounding may cost. What the backward never fills is no rounding."""
        case, leaves = self.made(costs=True), self.layer.narrow.leaves
        for mode in case.projections:
            case = with_never_filled(case, mode, partial(self.elsewhere, mode), leaves)
        return case

    def second_look(self, found: Sequence[Suspect]) -> Steps[Case]:
        """The second look in float32, where the highest precision does not decide: an error
        that does not depend on the precision is no rounding error."""
        yield from ()  # the layer is here
        layer = self.layer
        if layer.highest is not layer.narrow:
            return self.case
        with layer.coarser() as other:
            if other is not None:
                return replace(self.case, wide=self.again(other))
        return replace(self.case, wide=self.rounded_anew())

    def rounded_anew(self) -> Evaluations:
        """What stands in for another precision, where the layer runs in none."""
        return {}


class Gradients(LayerCase):
    """First derivatives of a layer in both modes: the whole Jacobian, or products of it."""

    def __init__(self, layer: BoundLayer) -> None:
        super().__init__(layer)
        self.pushes = Pushes(layer.name, layer.problem, layer.narrow)
        self.evaluations: tuple[Evaluation, ...] = ()

    @abstractmethod
    def reverse(self, subject: Subject) -> Evaluation:
        """What reverse mode gives of a subject."""

    @abstractmethod
    def pushed(self, subject: Subject) -> Evaluation | None:
        """What forward mode gives of a subject; None where there is no such mode."""

    def evaluate(self) -> None:
        """Evaluates the layer in the modes that the problem asks for."""
        modes, narrow = self.layer.problem.modes, self.layer.narrow
        reverse = self.reverse(narrow) if "reverse" in modes else None
        forward = self.pushed(narrow) if "forward" in modes else None
        self.evaluations = tuple(one for one in (reverse, forward) if one is not None)

    def first_look(self) -> Steps[Case]:
        case = yield from super().first_look()
        self.notes += self.pushes.notes
        return case

    @property
    def has_forward(self) -> bool:
        """Whether there is something by forward mode to compare."""
        return any(evaluation.mode == "forward" for evaluation in self.evaluations)

    def again(self, subject: Subject) -> Evaluations:
        return {(self.layer.name, "reverse"): self.reverse(subject)} | self.pushed_again(subject)

    def pushed_again(self, subject: Subject) -> Evaluations:
        """What forward mode gives in another precision, where there is a forward mode."""
        found = self.pushed(subject) if self.has_forward else None
        return {} if found is None else {(self.layer.name, "forward"): found}

    def elsewhere(self, mode: Mode, values: Values) -> Mapping[str, Array | None]:
        if mode == "reverse":
            return self.layer.narrow.run(Call(values, self.cotangents)).gradients
        with self.layer.elsewhere(self.layer.narrow.dtype, values) as there:
            found = {} if there is None else self.pushed_again(there)
        return {name: g.values for one in found.values() for name, g in one.gradients.items()}

    @property
    @abstractmethod
    def cotangents(self) -> Array:
        """Of the flattened outputs, (k, m)."""

    def evaluation(self, subject: Subject, ran: CallResult, seconds: float) -> Evaluation:
        """A run of reverse mode with all cotangents."""
        return self.layer.evaluation(subject, ran, "reverse", len(self.cotangents), seconds)
