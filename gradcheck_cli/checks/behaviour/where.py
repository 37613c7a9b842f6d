"""The line of the user's file at which a layer does what it should not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from gradcheck_cli.checks.behaviour.baseline import Bench, Fault
from gradcheck_cli.checks.subjects import where_it_runs
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.layer.custom import CustomCall, Lines
from gradcheck_cli.engines.layer.source_lines import returned

OF_BACKWARD = (
    Codes.UPSTREAM_MUTATED,
    Codes.NONDETERMINISTIC,
    Codes.STATEFUL_GRADIENT,
    Codes.LAYOUT_DEPENDENT,
    Codes.NONLINEAR_BACKWARD,
    Codes.REQUEST_DEPENDENT,
)


class Where:
    """Where the faults of one bench are. The layer runs once more for them, watched; what it raises
    then says nothing new."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def of(self, fault: Fault) -> Place | None:
        """What raises, the write or the draw itself; else the only backward, where a gradient is
        off."""
        place = fault.place
        if place is not None:
            return place
        if fault.code in (Codes.STOCHASTIC, Codes.NONDETERMINISTIC):
            place = self._lines.draws
        elif fault.code == Codes.UPSTREAM_MUTATED:
            place = self._lines.upstream
        elif fault.code in (Codes.INPUT_MUTATED, Codes.STATEFUL_GRADIENT):
            place = self._lines.writes.get(fault.input or "")
        of_backward = fault.code == Codes.UPSTREAM_MUTATED or (
            fault.code in OF_BACKWARD and fault.input is not None
        )
        return self._backward if place is None and of_backward else place

    @cached_property
    def _lines(self) -> Lines:
        bench = self._bench
        return where_it_runs(lambda: bench.subject.lines(bench.row), Lines())

    @cached_property
    def _backward(self) -> Place | None:
        none: Sequence[CustomCall] = ()
        calls = where_it_runs(self._bench.subject.functions, none)
        rules = list({call.name: call.backward for call in calls if call.backward}.values())
        return returned(rules[0], None) if len(rules) == 1 else None
