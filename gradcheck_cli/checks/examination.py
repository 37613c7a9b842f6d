"""Examine one layer at one point in one dtype, in one process: run, compare, judge, explain."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import TypeAlias

from gradcheck_cli.checks.behaviour import behave
from gradcheck_cli.checks.bound_layer import MOVING, BoundLayer, moving_size
from gradcheck_cli.checks.by_design import FIRST_ORDER_ONLY, Design, not_held
from gradcheck_cli.checks.casts import Casts, casts_of, lost_in_cast, wrong_without_casts
from gradcheck_cli.checks.causes.blame import OF_ROUNDING, Blame, Find
from gradcheck_cli.checks.causes.framework_rules import call_problem
from gradcheck_cli.checks.causes.rough_points import with_rough_points
from gradcheck_cli.checks.causes.traced_entry import traced_entry_of
from gradcheck_cli.checks.causes.wrong_gradients import WRONG, Corrections, WrongGradients
from gradcheck_cli.checks.certified.lifted import LiftedTruth, lifted_truth
from gradcheck_cli.checks.certified.program_truth import ProgramProducts, ProgramTruth
from gradcheck_cli.checks.compiled import Examined, blamed_on_a_stage, is_of_value
from gradcheck_cli.checks.compiled_values import wrong_value
from gradcheck_cli.checks.failures import modes_of
from gradcheck_cli.checks.findings import BadSpec, of_the_target
from gradcheck_cli.checks.large.projected import Projected
from gradcheck_cli.checks.layer_case import Gradients
from gradcheck_cli.checks.model import Model
from gradcheck_cli.checks.one_triangle import as_it_moves
from gradcheck_cli.checks.protocol import FIXES, Steps
from gradcheck_cli.checks.readings import readings_of
from gradcheck_cli.checks.sampling import over_the_domain
from gradcheck_cli.checks.second_order.compositions import SecondOrder
from gradcheck_cli.checks.small import Whole, is_small
from gradcheck_cli.checks.subjects import Subjects, bind, draws_other_numbers, with_runs_at_point
from gradcheck_cli.checks.surrogate import Declared, covered, leave_out
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.curve import Curve
from gradcheck_cli.domain.dtypes import Array, are_equal, quiet
from gradcheck_cli.domain.evaluation import SECOND, Failure, Mode
from gradcheck_cli.domain.graph import Graph
from gradcheck_cli.domain.implementation import Surrogate
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem
from gradcheck_cli.domain.records import replace
from gradcheck_cli.domain.report import Check, Finding, Pass, Reading
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.errors import SpecMistake, Unsupported
from gradcheck_cli.engines.kit import patience
from gradcheck_cli.engines.layer.custom import CustomCall
from gradcheck_cli.engines.layer.declared import NotDeclarable
from gradcheck_cli.engines.layer.isolation import knowledge_of, surroundings
from gradcheck_cli.engines.layer.loading import on_the_path
from gradcheck_cli.engines.layer.source_lines import raised_at
from gradcheck_cli.engines.layer.subject import Call, Stencils, Subject
from gradcheck_cli.engines.tracebacks import (
    as_failure,
    internal_failure,
    is_internal,
    one_line,
    raise_if_internal,
    where_it_runs,
    without_lines,
)
from gradcheck_cli.explain.remedies import lacking, with_remedy
from gradcheck_cli.truth.certified.enclosed_products import TooManyNumbers
from gradcheck_cli.truth.layers.safe_values import RaisedLater

Fresh: TypeAlias = Callable[[], Whole | ProgramProducts]
"""Creates an examination that has not started."""

VAGUER = (
    Codes.WRONG_GRADIENT,
    Codes.PRECISION_LOSS,
    Codes.ILL_CONDITIONED,
)  # a finding about the layer without its casts is more precise


@quiet
def examine(engine: Engine, problem: LayerProblem, *, blaming: bool = True) -> LayerAnswer:
    """Examine the layer. Faults of the layer become findings or a failure, never exceptions.

    If not `blaming`, findings have no causes.
    """
    started, compiled = time.perf_counter(), patience.spent_s
    implementation = problem.implementation
    problem = replace(
        problem,
        modes=modes_of(problem, engine.capabilities.modes),
        # absolute: the layer may change the current directory
        implementation=replace(implementation, folder=os.path.abspath(implementation.folder)),
    )
    try:
        kind = problem.device.partition(":")[0]
        if kind not in engine.capabilities.devices:
            name = engine.capabilities.name
            raise Unsupported(
                f"{name} runs on the CPU only; the device `{problem.device}` is not supported"
            )
        with surroundings(), on_the_path(problem.implementation):
            if problem.behaviour:
                answer = behave(engine, problem)
            else:
                corrections: Corrections = {}
                answer = _Examination(engine, problem, blaming, corrections).answer()
                elsewhere = partial(_examine_in_worker, engine, blaming, corrections)
                answer = over_the_domain(problem, answer, elsewhere)
    except BadSpec as error:
        answer = error.answer(problem)
    except NotDeclarable as error:
        answer = not_held(error).answer(problem)
    except SpecMistake as error:
        answer = of_the_target(error, problem).answer(problem)
    except (Exception, SystemExit) as error:  # KeyboardInterrupt passes to the caller
        if (missing := lacking(error)) is not None:
            answer = of_the_target(missing, problem).answer(problem)
        else:
            failure = _failure(error, problem)
            if not isinstance(error, RaisedLater):  # its message names the place
                failure = with_runs_at_point(engine, problem, failure)
            answer = LayerAnswer(failure=failure)
    return replace(
        answer, duration_s=time.perf_counter() - started, compile_s=patience.spent_s - compiled
    )


def _examine_in_worker(
    engine: Engine, blaming: bool, corrections: Corrections, problem: LayerProblem
) -> LayerAnswer:
    try:
        return _Examination(engine, problem, blaming, corrections).answer()
    except Exception as error:
        return LayerAnswer(failure=_failure(error, problem))


def _failure(error: BaseException, problem: LayerProblem) -> Failure:
    """The exception as a failure: of the layer or its framework, or of gradcheck's own code."""
    if is_internal(error):
        return internal_failure(error, "the layer could not be examined")
    layer = f"`{problem.implementation.target}`"
    failure = as_failure(error, ours=True, who=layer)
    if without_lines(error):
        more = failure.detail if len(failure.detail.splitlines()) > 1 else ""
        failure = replace(failure, message=f"{layer} raised {one_line(error)}", detail=more)
    detail = with_remedy(failure.detail, error)
    return replace(failure, place=failure.place or raised_at(error), detail=detail)


NOTHING = (
    "there is nothing to differentiate: no input that requires a gradient is a floating-point "
    "array, and the layer has no parameter"
)
NO_ENTRIES = "the inputs have no entries: the derivative ran, but there was no number to compare"


class _Examination:
    """The examination of one problem, with its subjects. `corrections` are known from other
    points."""

    def __init__(
        self,
        engine: Engine,
        problem: LayerProblem,
        blaming: bool,
        corrections: Corrections,
        subjects: Subjects | None = None,
    ) -> None:
        self._corrections = corrections
        self._engine = engine
        self._blaming = blaming
        self._problem = problem
        self._notes: dict[str, None] = {}  # in order, each once
        self._surrogates: dict[str, Surrogate] = {}
        self._subjects = subjects or Subjects(engine, problem)
        self._judging = problem  # its dtype may be narrower, if the layer casts
        self._program: ProgramTruth | None = None  # gives the truth of the layer
        self._differentiated: ProgramTruth | None = None  # gives its second derivatives
        self._has_judged_value = False  # the value was judged with the cost of rounding
        self._casts: Casts | None = None  # None until they were looked for
        self._uncast = False
        self._design: Design | None = None
        self._lift: tuple[BoundLayer, LiftedTruth | None] | None = None
        self._too_many: TooManyNumbers | None = None  # why the layer has no lifted truth

    def answer(self) -> LayerAnswer:
        try:
            bind = partial(self._subject, self._problem.dtype)
            self._narrow = as_it_moves(self._subjects, bind)
        except Exception as error:
            raise_if_internal(error)
            reason = self._subjects.left_out(error)
            if reason is None:
                raise
            return LayerAnswer(notes=(reason,))
        if not any(leaf.differentiable for leaf in self._narrow.leaves):
            self._narrow.close()
            return LayerAnswer(notes=(*self._subjects.notes, f"{self._name}: {NOTHING}"))
        if not any(leaf.differentiable and leaf.size for leaf in self._narrow.leaves):
            self._notes[f"{self._name}: {NO_ENTRIES}"] = None
        knowledge_of(self._problem.implementation.live)[MOVING] = moving_size(self._narrow)
        self._highest = self._subjects.highest(self._narrow)
        try:
            self._notes.update(self._subjects.notes)
            self._rebind_if_arrays_left(bind)
            return self._in_requested_dtype(self._run_steps())
        except Exception as error:
            raise_if_internal(error)
            if not self._subjects.stays_narrow(self._narrow, self._highest):
                raise
            # once more without the highest precision, in which the derivative does not run
            given = self._engine, self._problem, self._blaming, self._corrections
            return _Examination(*given, self._subjects).answer()
        finally:
            self._narrow.close()
            if self._highest is not self._narrow:
                self._highest.close()
            # They know this object, and would keep the numbers of the layer until Python looks
            # for circles.
            self._lift = self._program = self._differentiated = None

    def _rebind_if_arrays_left(self, bind: Callable[[], Subject]) -> None:
        """Bind the layer again if its first call left arrays in it, so that later calls in every
        precision find them."""
        known = {leaf.name for leaf in self._narrow.leaves}
        left = [leaf.name for leaf in self._highest.leaves if leaf.name not in known]
        if not left:
            return
        words = f"the first call left {', '.join(f'`{name}`' for name in left)} in the layer"
        self._notes[f"{self._name}: {words} for later calls"] = None
        self._narrow.close()
        self._narrow = as_it_moves(self._subjects, bind)

    def _run_steps(self) -> LayerAnswer:
        """Run all steps. Each question of the steps asks whether the layer casts. If so, start
        again without the casts."""
        wrt = [leaf.name for leaf in self._narrow.leaves if leaf.differentiable]
        steps = self._steps()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            if self._casts is None:
                self._casts = casts_of(self._narrow, self._highest)
                if self._casts:
                    self._narrow.differentiate(wrt)
                    self._leave_casts_out(self._casts)
                    steps = self._steps()

    def _steps(self) -> Steps[LayerAnswer]:
        narrow, highest = self._narrow, self._highest
        if self._design is None or self._design.subject is not highest:
            self._design = Design(self._problem, highest)
        design = self._design
        self._notes.update(dict.fromkeys(f"{self._name}: {words}" for words in design.notes()))
        modes = design.modes(self._judging)
        if modes != self._judging.modes:
            self._judging = replace(self._judging, modes=modes)
        self._surrogates = covered(self._problem, narrow)
        is_one = not (design.any or self._surrogates or narrow.stages)  # the same in every call
        known = self._subjects.known if is_one else None
        layer = BoundLayer(
            self._name, self._judging, narrow, highest, self._subject_or_none, self._uncast, known
        )
        value = wrong_value(layer, self._compiled_in, partial(self._value_of_program, layer))
        if value is not None and not value.entries:  # the two draw different random numbers
            return LayerAnswer(findings=(value,), notes=tuple(self._notes))
        judged = self._with_surrogates if self._surrogates else self._judge_layer
        answer = yield from judged(layer)
        if value is not None and value.code == Codes.UNDECIDED and self._has_judged_value:
            value = None
        if value is not None:
            said = (f for f in answer.findings if not is_of_value(f))
            answer = replace(answer, findings=(value, *said))
        answer = design.declared(answer)
        answer = yield from self._with_second(answer, layer)
        if design.declaration_matches:
            answer = replace(answer, by_design=design.declaration_matches)
        return _with_stencils(answer, highest.stencils)

    # Casts

    def _leave_casts_out(self, casts: Casts) -> None:
        """Compute the truth from the layer without its casts from now on. If the layer does not run
        without them, assume that its values have the noise of the narrowest dtype."""
        narrow, highest = self._narrow, self._highest
        digits = casts.digits(self._problem.dtype)
        self._judging = replace(self._problem, dtype=digits)
        exact = self._subjects.uncast(narrow, digits)
        self._notes = dict.fromkeys(casts.words(self._name, self._problem.dtype))
        self._notes.update(dict.fromkeys(narrow.notes) if exact else self._subjects.notes)
        self._uncast = exact is not None
        if exact is None:
            highest.assume_digits(casts.digits_of_highest(highest.dtype))
            return
        if highest is not narrow:
            highest.close()
        self._highest = exact

    def _in_requested_dtype(self, answer: LayerAnswer) -> LayerAnswer:
        """Restate the answer in the requested dtype, if casts made us judge it in another one."""
        dtype = self._problem.dtype
        found: tuple[Check | Finding | Reading, ...] = (*answer.checks, *answer.findings)
        if all(one.dtype == dtype for one in (*found, *answer.readings)):
            return answer
        return replace(
            answer,
            checks=tuple(replace(check, dtype=dtype) for check in answer.checks),
            findings=tuple(replace(finding, dtype=dtype) for finding in answer.findings),
            readings=tuple(replace(reading, dtype=dtype) for reading in answer.readings),
        )

    def _subject(
        self, dtype: str, values: Mapping[str, Array] | None = None, uncast: bool = False
    ) -> Subject:
        subject = self._subjects.bound(dtype, values, uncast)
        leave_out(subject, self._surrogates)
        return subject

    def _compiled_in(self, dtype: str) -> Subject:
        """The layer in another dtype than the problem's, compiled for that dtype."""
        return bind(self._engine, replace(self._problem, dtype=dtype))

    def _with_surrogates(self, layer: BoundLayer) -> Steps[LayerAnswer]:
        """Compare leaves that have a surrogate with it, and the others with the derivative."""
        checks, findings, notes = Declared(layer, self._surrogates).examine()
        if findings:
            yield from layer.doubt()
        for subject in (layer.narrow, layer.highest):
            leave_out(subject, self._surrogates)
        rest = yield from self._judge_layer(layer)
        return replace(
            rest,
            checks=(*checks, *rest.checks),
            findings=(*findings, *rest.findings),
            notes=(*notes, *rest.notes),
        )

    def _judge_layer(self, layer: BoundLayer) -> Steps[LayerAnswer]:
        model = None if self._problem.spec.model is None else Model(layer)
        wrong = model.wrong_output() if model else None
        other = wrong is not None and wrong.code == Codes.WRONG_OUTPUT
        if other:
            yield from layer.doubt()
        # a layer that differs from its model is judged by the derivative of its own forward
        stated = None if other else model
        exact = None if self._has_own_derivative() else stated or self._lifted(layer)
        answer = yield from self._against(exact, layer)
        if wrong is None:
            return answer
        said = [f for f in answer.findings if (f.code, f.input) != (wrong.code, None)]
        return replace(answer, findings=(wrong, *said))

    def _lifted(self, layer: BoundLayer) -> LiftedTruth | None:
        """The truth of the lifted program of the layer, which is lifted once."""
        if self._lift is None or self._lift[0] is not layer:
            self._too_many = None
            try:
                self._lift = layer, lifted_truth(layer, self._notes)
            except TooManyNumbers as refusal:
                self._lift, self._too_many = (layer, None), refusal
        return self._lift[1]

    def _value_of_program(self, layer: BoundLayer) -> Array | None:
        """The value of the layer's program, if the layer is lifted anyway."""
        if self._problem.spec.model is not None or self._has_own_derivative():
            return None
        lifted = self._lifted(layer)
        return None if lifted is None else lifted.value

    def _has_own_derivative(self) -> bool:
        """Whether the expected derivative is declared, or taken by the coordinates of a kind."""
        declared = self._design is not None and self._design.any
        return declared or bool(self._subjects.kinds)

    def _against(self, program: ProgramTruth | None, layer: BoundLayer) -> Steps[LayerAnswer]:
        """Judge the layer against the certified truth of a program, or finite differences."""
        lifted = program if isinstance(program, LiftedTruth) else None
        if is_small(layer.narrow):
            fresh: Fresh = partial(Whole, layer, program, self._uncast)
        elif isinstance(program, Model) and "reverse" in self._problem.modes:
            fresh = partial(ProgramProducts, layer, program)
        else:
            return (yield from self._examine_projections(layer, lifted))
        examined = fresh()
        yield from examined.steps()
        if _spoils_its_graph(examined, layer):
            examined = fresh()
            yield from examined.steps()
        self._program = self._differentiated = examined.program
        if isinstance(examined, Whole):
            self._differentiated = examined.differentiated
        truth = examined.case.truth
        self._has_judged_value = truth is not None and truth.output_cost is not None
        if examined.findings:
            yield from layer.doubt()
        self._notes.update(dict.fromkeys(examined.notes))
        checks, findings = examined.checks, examined.findings
        if self._uncast and examined.suspected:
            noise = examined.noise if isinstance(examined, Whole) else dict
            checks, findings = _with_wrong(
                checks, findings, wrong_without_casts(examined.case, noise)
            )
        elif self._casts and not self._uncast:  # the noise is too large to call a mode wrong
            findings = tuple(
                finding for finding in findings if finding.code != Codes.MODES_DISAGREE
            )
        findings = yield from self._on_stages(findings, layer, lambda: _of(fresh()))
        findings = self._with_causes(findings, partial(traced_entry_of, examined.case), layer)
        checks = _with_approximations(checks, findings)
        if findings and self._blaming and isinstance(examined, Whole):
            with examined.ours(FIXES):
                from gradcheck_cli.checks.causes.layer_fixes import with_fixes

                findings = with_fixes(self._engine, examined, findings)
        graphs, curve = self._pictures()
        return LayerAnswer(
            checks=checks,
            findings=(*findings, *examined.mistakes),
            readings=readings_of(examined.case),
            notes=tuple(self._notes),
            graphs=graphs,
            curve=curve,
        )

    def _pictures(self) -> tuple[tuple[Graph, ...], Curve | None]:
        """The graph of the layer's program, and its curve of difference quotients, if the run
        requests them."""
        if not self._problem.illustrated or self._program is None:
            return (), None
        graph = self._program.graph()
        if isinstance(graph, Failure):
            self._notes[f"{self._name}: no numbers for its graph: {graph.message}"] = None
        return (graph,) if isinstance(graph, Graph) else (), self._program.curve()

    def _examine_projections(
        self, layer: BoundLayer, lifted: LiftedTruth | None
    ) -> Steps[LayerAnswer]:
        """Examine a layer whose Jacobian is too large to compute whole."""
        projected = Projected(layer, lifted, self._too_many)
        checks, findings = yield from projected.examine()
        if projected.is_enclosed:
            self._differentiated = lifted
        self._notes.update(dict.fromkeys(projected.notes))
        findings = yield from self._on_stages(
            findings, layer, lambda: Projected(layer, lifted, self._too_many).examine()
        )
        findings = self._with_causes(findings, projected.traced.get, layer)
        checks = _with_approximations(checks, findings)
        return LayerAnswer(checks=checks, findings=findings, notes=tuple(self._notes))

    def _on_stages(
        self,
        findings: tuple[Finding, ...],
        layer: BoundLayer,
        examined: Callable[[], Steps[Examined]],
    ) -> Steps[tuple[Finding, ...]]:
        """The findings, with GC108 in place of those that the uncompiled layer does not have."""

        def examined_at(stage: str) -> Steps[Examined]:
            try:
                with layer.narrow.at_stage(stage):
                    return (yield from examined())
            except Exception as error:  # the stage gives no evidence
                raise_if_internal(error)
                return (), ()

        return (yield from blamed_on_a_stage(findings, layer.narrow.stages, examined_at))

    def _with_causes(
        self, findings: tuple[Finding, ...], find: Find, layer: BoundLayer
    ) -> tuple[Finding, ...]:
        """The findings, each with the operation or custom gradient that causes it."""
        if not self._blaming or not findings:
            return findings
        narrow, highest = layer.narrow, layer.highest
        findings = self._with_cast(findings, find)
        unstable = Blame(narrow, highest, layer.problem.dtype, find, self._bound_alone)
        given = find, examine, self._corrections
        wrong = WrongGradients(self._engine, self._problem, highest, *given)
        found = wrong.explained(unstable.explained(findings))
        self._notes.update(unstable.notes | wrong.notes)
        faults = unstable.faults | wrong.faults
        if unstable.narrow_alone:
            codes = (*WRONG, *OF_ROUNDING)
            own = WrongGradients(self._engine, self._problem, narrow, *given, codes)
            found = own.explained(found, unstable.narrow_alone)
            self._notes.update(own.notes)
            faults |= own.faults
        return with_rough_points((*found, *faults.values()), highest)

    def _with_cast(self, findings: tuple[Finding, ...], find: Find) -> tuple[Finding, ...]:
        """The findings; a cast in the backward pass is their cause where it costs the digits."""
        cast = self._casts.of_backward(self._problem.dtype) if self._casts else None
        if cast is None or not self._uncast:
            return findings
        cast_wide = where_it_runs(lambda: self._subject("float64"), None)
        if cast_wide is None:
            return findings
        with closing(cast_wide):
            return lost_in_cast(findings, cast, find, cast_wide, self._highest)

    def _bound_alone(self, call: CustomCall) -> Subject:
        problem = call_problem(self._problem, self._problem.dtype, call, "forward")
        return bind(self._engine, problem)

    def _examine_alone(self, call: CustomCall, *modes: Mode) -> LayerAnswer:
        """Examine one custom call alone, in these modes (none: the requested second orders)."""
        modes = modes or tuple(mode for mode in self._problem.modes if mode in SECOND)
        problem = call_problem(self._problem, self._problem.dtype, call, *modes)
        return examine(self._engine, problem, blaming=False)

    @property
    def _name(self) -> str:
        return self._engine.capabilities.name

    @property
    def _has_second_order(self) -> bool:
        return any(mode in SECOND for mode in self._problem.modes)

    def _with_second(self, answer: LayerAnswer, layer: BoundLayer) -> Steps[LayerAnswer]:
        """The answer with checks and findings about second derivatives, if they were requested."""
        if not self._has_second_order:
            return answer
        if self._design and self._design.any:
            return replace(answer, notes=(*answer.notes, FIRST_ORDER_ONLY))
        wrong: dict[str, set[str | None]] = {}
        for finding in answer.findings:
            if finding.mode and finding.code in WRONG:
                wrong.setdefault(finding.mode, set()).add(finding.input)
        by_itself = self._examine_alone if self._blaming else None
        fresh: Callable[[], SecondOrder] = partial(
            SecondOrder, layer, wrong, self._differentiated, by_itself
        )
        second = fresh()
        yield from second.steps()
        findings = yield from self._on_stages(second.findings, layer, lambda: _of(fresh()))
        return replace(
            answer,
            checks=(*answer.checks, *second.checks),
            findings=(*answer.findings, *findings),
            notes=(*answer.notes, *second.notes),
        )

    def _subject_or_none(self, dtype: str, values: Mapping[str, Array]) -> Subject | None:
        """The layer in another dtype, or at other values of its leaves. None if it does not run so,
        or draws other random numbers in that dtype."""
        uncast = self._uncast and dtype == "float64"
        other = where_it_runs(lambda: self._subject(dtype, values, uncast), None)
        if other is None or values:
            return other
        if where_it_runs(lambda: not draws_other_numbers(other, self._narrow, dtype), False):
            return other
        other.close()
        return None


def _of(examined: Gradients | SecondOrder) -> Steps[Examined]:
    yield from examined.steps()
    return examined.checks, examined.findings


def _spoils_its_graph(examined: Gradients, layer: BoundLayer) -> bool:
    """Whether a backward pass corrupts the gradients of later passes over the same graph. If so,
    each gradient has a forward run of its own from now on, and the checks of behaviour report the
    cause."""
    accused = {(f.mode, f.severity) for f in examined.findings}
    rows, narrow = examined.cotangents, layer.narrow
    if ("reverse", "error") not in accused or len(rows) < 2 or narrow.runs_once:
        return False
    before = narrow.run(Call(cotangents=rows)).gradients
    narrow.runs_once = True
    after = narrow.run(Call(cotangents=rows)).gradients
    spoils = not all(are_equal(before[name], after[name]) for name in before)
    narrow.runs_once = spoils
    if spoils:
        layer.highest.runs_once = True
    return spoils


def _with_approximations(
    checks: tuple[Check, ...], findings: tuple[Finding, ...]
) -> tuple[Check, ...]:
    """The checks, with status passed if all errors of a check are documented approximations."""
    of_code = (f for f in findings if f.code == Codes.DOCUMENTED_APPROXIMATION)
    off = {(f.mode, f.input): f for f in of_code}
    bad = {(f.mode, f.input) for f in findings if f.severity == "error"}

    def passed(check: Check) -> Check:
        finding = off.get((check.mode, check.input))
        if finding is None or check.status != "failed":
            return check
        if any((mode, name) in bad for mode in (check.mode, None) for name in (check.input, None)):
            return check
        worst = max((one.ulps for one in finding.entries if one.ulps is not None), default=None)
        documented = Pass("documented", len(finding.entries) + finding.more, worst)
        return replace(check, status="passed", passed_by=(*check.passed_by, documented))

    return tuple(map(passed, checks)) if off else checks


def _with_stencils(answer: LayerAnswer, stencils: Stencils) -> LayerAnswer:
    """The checks, with the numbers of stencil points that were evaluated in batches and singly."""
    if not (stencils.batched or stencils.looped):
        return answer
    checks = (
        replace(check, batched=stencils.batched, looped=stencils.looped) for check in answer.checks
    )
    return replace(answer, checks=tuple(checks))


def _with_wrong(
    checks: tuple[Check, ...], findings: tuple[Finding, ...], wrong: tuple[Finding, ...]
) -> tuple[tuple[Check, ...], tuple[Finding, ...]]:
    """Add the `wrong` findings, drop vaguer ones about the same gradients, fail their checks."""
    failed = {(finding.mode, finding.input) for finding in wrong}
    rest = (f for f in findings if f.code not in VAGUER or (f.mode, f.input) not in failed)
    return (
        tuple(
            replace(check, status="failed") if (check.mode, check.input) in failed else check
            for check in checks
        ),
        (*wrong, *rest),
    )
