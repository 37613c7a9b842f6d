"""Run all checks of a layer's behaviour, in an order in which no fault is reported twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cached_property, partial

from gradcheck_cli.checks.behaviour.baseline import Bench, Fault
from gradcheck_cli.checks.behaviour.joint_runs import EVERY, Check, Doubt, doubts_of
from gradcheck_cli.checks.behaviour.layouts import of_inputs, of_upstream
from gradcheck_cli.checks.behaviour.linear import linear
from gradcheck_cli.checks.behaviour.memory import call_affects_next, different_once, state_in_object
from gradcheck_cli.checks.behaviour.modes import modes_agree
from gradcheck_cli.checks.behaviour.mutation import find_writes, mutable_state
from gradcheck_cli.checks.behaviour.request_dependence import requested, subsets, used_outputs
from gradcheck_cli.checks.bound_layer import MOVING, moving_size
from gradcheck_cli.checks.findings import BadSpec, finding_for
from gradcheck_cli.checks.one_triangle import as_it_moves
from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.domain.behaviour import OtherRun
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import Values
from gradcheck_cli.domain.layer import LARGE, LayerAnswer, LayerProblem
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.errors import SpecMistake
from gradcheck_cli.engines.layer.custom import CustomCall, Lines
from gradcheck_cli.engines.layer.isolation import knowledge_of
from gradcheck_cli.engines.layer.source_lines import returned
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.engines.tracebacks import raise_if_internal, where_it_runs
from gradcheck_cli.truth.layers.safe_values import ONCE, RaisedLater

DRAWS = "the layer draws random numbers; gradcheck reseeds them before every call"

REDRAWS = ": the backward pass draws random numbers"

WALLED = (
    "it raises at every nearby point, so the accepted difference between two runs is unknown: "
    "GC105, GC606, GC607 and GC608 were checked only in part"
)

ONE_COMPILATION = (
    "it is compiled anew for another memory layout of its inputs and for other requested "
    "gradients: GC606 and GC608 were checked with one of each, which was traced, but for which no "
    "code was generated"
)
"""Of `torch.compile`. Arrays of JAX and TensorFlow have no memory layout."""

ONE_REQUEST = (
    "it is compiled anew for other requested gradients: GC608 was checked with one choice of them"
)

# Reported if two runs agree in too few digits.
OF_DIGITS = (
    Codes.MODES_DISAGREE,
    Codes.STATEFUL_GRADIENT,
    Codes.LAYOUT_DEPENDENT,
    Codes.NONLINEAR_BACKWARD,
)

# If two equal calls differ, comparisons of other calls mean little.
UNREPEATABLE = frozenset({Codes.NONDETERMINISTIC, Codes.STATEFUL_GRADIENT})

# Each check, with the codes after which it can find nothing new.
CHECKS: tuple[tuple[Check, frozenset[str]], ...] = (
    (call_affects_next, frozenset({Codes.STATEFUL_GRADIENT})),
    (state_in_object, UNREPEATABLE),
    (linear, UNREPEATABLE),
    (of_upstream, UNREPEATABLE | {Codes.UPSTREAM_MUTATED, Codes.NONLINEAR_BACKWARD}),
    (of_inputs, UNREPEATABLE | {Codes.INPUT_MUTATED, Codes.LAYOUT_DEPENDENT}),
    (requested, UNREPEATABLE),
    (used_outputs, UNREPEATABLE | {Codes.REQUEST_DEPENDENT}),
    (modes_agree, UNREPEATABLE | {Codes.INPUT_MUTATED, Codes.NONLINEAR_BACKWARD}),
)
OF_BACKWARD = (
    Codes.UPSTREAM_MUTATED,
    Codes.NONDETERMINISTIC,
    Codes.STATEFUL_GRADIENT,
    Codes.LAYOUT_DEPENDENT,
    Codes.NONLINEAR_BACKWARD,
    Codes.REQUEST_DEPENDENT,
)


def behave(engine: Engine, problem: LayerProblem) -> LayerAnswer:
    """Check the behaviour of a layer. Raises the layer's exceptions, which are reported once if the
    checks of gradients raise them too. Mistakes of the spec are left to those checks."""
    inputs = problem.inputs.values()
    known = knowledge_of(problem.implementation.live).get(MOVING, 0)
    is_large = max(known, sum(entry.value.size for entry in inputs)) >= LARGE
    answer = _in_float32(engine, problem) if is_large else None
    if answer is not None:
        return answer
    subjects = Subjects(engine, problem)
    try:
        subject = as_it_moves(subjects, subjects.highest)
    except (BadSpec, SpecMistake):
        return LayerAnswer()
    except Exception as error:
        raise_if_internal(error)
        reason = subjects.left_out(error)
        if reason is None:
            raise
        return LayerAnswer(notes=(f"its behaviour was not checked: {reason}",))
    # its parameters are large, or it is compiled in float64, too
    is_slow = moving_size(subject) >= LARGE or bool(subject.stages)
    if is_slow and not is_large and problem.dtype == "float32":
        subject.close()
        answer = _in_float32(engine, problem)
        if answer is not None:
            return answer
        subject = as_it_moves(subjects, subjects.highest)
    with closing(subject):
        return _behaviour(subject, partial(subjects.bound, subject.dtype), problem)


def _in_float32(engine: Engine, problem: LayerProblem) -> LayerAnswer | None:
    """The answer about a large or compiled layer in float32, if it has no fault there. Otherwise
    None: float64, which takes twice the time and memory, or another compilation, must decide."""
    if problem.dtype != "float32":
        return None
    subjects = Subjects(engine, problem)
    bind = partial(subjects.bound, problem.dtype)
    subject = where_it_runs(lambda: as_it_moves(subjects, bind), None)
    if subject is None:
        return None
    with closing(subject):
        found = where_it_runs(lambda: _behaviour(subject, bind, problem), None)
    wrong = found and any(finding.code != Codes.STOCHASTIC for finding in found.findings)
    return None if wrong else found


def _behaviour(
    subject: Subject, fresh: Callable[[Values], Subject], problem: LayerProblem
) -> LayerAnswer:
    if not any(output.size for output in subject.outputs):
        return LayerAnswer()
    bench = Bench(subject, fresh, problem, is_summed=moving_size(subject) >= LARGE)
    if not bench.leaves:
        return LayerAnswer()
    faults = _faults(bench)
    digits = bench.digits() if any(fault.code in OF_DIGITS for fault in faults) else None
    if digits:
        bench = Bench(subject, fresh, problem, digits)
        faults = _faults(bench)
    nondeterministic = any(fault.nondeterministic for fault in faults)
    if bench.first.random and not nondeterministic:
        faults.insert(
            0, Fault(Codes.STOCHASTIC, DRAWS, other_run=OtherRun("random", of_value=True))
        )
    where = Where(bench)
    return LayerAnswer(
        findings=tuple(_finding(problem, fault, where) for fault in faults),
        notes=tuple(_notes(bench)),
        nondeterministic=nondeterministic,
    )


def _faults(bench: Bench) -> list[Fault]:
    found = list(find_writes(bench))
    doubts = [Doubt()]
    if not found and not bench.first.random:
        doubts = doubts_of(bench)
        if doubts:
            bench.without_sums.settle()
    answered = set(EVERY).difference(*(doubt.checks for doubt in doubts))
    for check, enough in CHECKS:
        wrong = {fault.code for fault in found if fault.severity != "note"}
        if check not in answered and not wrong & enough:
            found += _faults_of_check(check, bench)
    return found or list(_of_one_call(doubts))


def _faults_of_check(check: Check, bench: Bench) -> list[Fault]:
    """The faults that a check finds. A check in EVERY was in doubt already. For any other, sums
    only tell whether there is a fault; whole gradients name it."""
    if bench.is_summed and check not in EVERY and not list(check(bench)):
        return []
    return list(check(bench.without_sums))


def _of_one_call(doubts: Sequence[Doubt]) -> Iterator[Fault]:
    """The faults that were seen once and not again. Raises RaisedLater."""
    for doubt in doubts:
        if doubt.error is not None:
            raise RaisedLater(doubt.error, ONCE) from doubt.error
        if doubt.again is not None:
            yield different_once(doubt.again)
            return


def _notes(bench: Bench) -> Iterator[str]:
    names = mutable_state(bench)
    if names:
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        yield f"a forward run changes {shown}, which is restored before every call"
    if bench.is_walled:
        yield WALLED
    if bench.subject.traced_stage:
        yield ONE_COMPILATION
    elif bench.subject.stages and subsets(bench):
        yield ONE_REQUEST


def _finding(problem: LayerProblem, fault: Fault, where: Where) -> Finding:
    return finding_for(
        problem,
        fault.code,
        fault.message + (REDRAWS if where.redraws(fault) else ""),
        severity=fault.severity,
        input=fault.input,
        detail=fault.detail,
        place=where.of(fault),
        other_run=fault.other_run,
    )


class Where:
    """Finds the places of one bench's faults. The layer runs once more for this, watched;
    exceptions in that run are ignored."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def of(self, fault: Fault) -> Place | None:
        """The place of the exception, write or draw; or else the only custom backward, if a
        gradient is off."""
        place = fault.place
        if place is not None:
            return place
        if fault.code in (Codes.STOCHASTIC, Codes.NONDETERMINISTIC):
            place = self._lines.draws
        elif fault.code == Codes.UPSTREAM_MUTATED:
            place = self._lines.upstream
        elif fault.code in (Codes.INPUT_MUTATED, Codes.STATEFUL_GRADIENT):
            place = self._lines.writes.get(fault.input or "")
        run = fault.other_run
        if place is None and self.redraws(fault):
            return self._lines.redraws
        of_backward = fault.code == Codes.UPSTREAM_MUTATED or (
            fault.code in OF_BACKWARD
            and (fault.input is not None or (run and run.way == "output written backward"))
        )
        return self._backward if place is None and of_backward else place

    def redraws(self, fault: Fault) -> bool:
        """Whether two backward passes over one graph differ that draw random numbers."""
        is_one_graph = fault.other_run is not None and fault.other_run.way == "one graph"
        return is_one_graph and fault.severity is None and self._lines.redraws is not None

    @cached_property
    def _lines(self) -> Lines:
        bench = self._bench
        return where_it_runs(lambda: bench.subject.lines(bench.row), Lines())

    @cached_property
    def _backward(self) -> Place | None:
        none: Sequence[CustomCall] = ()
        calls = where_it_runs(self._bench.subject.functions, none)
        rules = list({call.name: call.backward for call in calls if call.backward}.values())
        return returned(rules[0]) if len(rules) == 1 else None
