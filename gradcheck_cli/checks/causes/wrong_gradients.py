"""Find why a gradient is wrong in every precision: a custom function with a wrong derivative, or a
value detached from the graph.

Each call of a custom function is examined as a small layer, at the values that it had in the run.
If all are right, calls that cut the graph pass gradients: the gradient must then be right.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from gradcheck_cli.checks.by_design import declared_in
from gradcheck_cli.checks.causes.blame import Find
from gradcheck_cli.checks.causes.framework_rules import (
    OWN_SECONDS,
    call_problem,
    cause_at,
    convention,
    executed,
    in_time,
    lone_branch,
    sampler,
    wrong_rule,
)
from gradcheck_cli.checks.causes.products import (
    Product,
    difference,
    entry_by_differences,
    entry_by_mode,
    wrong_products,
)
from gradcheck_cli.checks.causes.traced_entry import TracedEntry
from gradcheck_cli.checks.small import is_small
from gradcheck_cli.checks.subjects import bind
from gradcheck_cli.domain.codes import CODES, NAN_OR_INFINITE, Codes
from gradcheck_cli.domain.draws import generator, signs
from gradcheck_cli.domain.dtypes import Array, ValuesOrNone
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.implementation import ByDesign
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Cause, CauseKind, Finding
from gradcheck_cli.domain.scale import scale_of
from gradcheck_cli.domain.thresholds import MATCHES, SAME_ERROR
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.execution import Step
from gradcheck_cli.engines.layer.branches import returning_line
from gradcheck_cli.engines.layer.custom import CustomCall, GradientBarrier, Rule
from gradcheck_cli.engines.layer.declared import Declared, NotDeclarable
from gradcheck_cli.engines.layer.recording import Recording
from gradcheck_cli.engines.layer.source_lines import read_function, returned
from gradcheck_cli.engines.layer.subject import Call, Subject, output_size
from gradcheck_cli.engines.tracebacks import is_internal, one_line, where_it_runs
from gradcheck_cli.explain.blame.values import number, two_texts
from gradcheck_cli.explain.findings import unexplained
from gradcheck_cli.judge.kinks import MISFIT

if TYPE_CHECKING:
    from gradcheck_cli.checks.causes.rule_fixes import TriedCorrection

WRONG = (Codes.WRONG_GRADIENT, Codes.MISSING_GRADIENT, Codes.WRONG_SECOND_DERIVATIVE)

Corrections: TypeAlias = "dict[tuple[Mode, str, str], TriedCorrection | None]"
"""The correction of a rule, by mode, custom function and argument; it holds at every point. A jvp
has one correction for all arguments and both modes."""

DETACHED: CauseKind = "detached path"
RECOMPUTED: CauseKind = "recomputed forward"
SOLVED: CauseKind = "iterative solution"
SAMPLED: CauseKind = "reparameterised sample"


class Examine(Protocol):
    """The type of `examination.examine`, which calls this module."""

    def __call__(self, engine: Engine, problem: LayerProblem, *, blaming: bool) -> LayerAnswer: ...


@dataclass(frozen=True, slots=True)
class _Wrong:
    """A call whose derivative with respect to its argument `name` is wrong: the returned and the
    right derivative in words, and the pattern of the error."""

    call: CustomCall
    name: str
    stated: str
    right: str
    pattern: str | None

    def depends_on(self, finding: Finding) -> bool:
        """Whether the argument depends on the input of the finding, or may."""
        return finding.input in self.call.through.get(self.name, self.call.reaches)


class WrongGradients:
    """Finds the causes of wrong gradients of one layer. `subject` is the layer in the precision
    that is wrong, usually the highest. A function is wrong if it has findings with these `codes`.
    `notes` says what was not examined, and why; `faults` are GC706 findings, each once."""

    def __init__(
        self,
        engine: Engine,
        problem: LayerProblem,
        subject: Subject,
        find: Find,
        examine: Examine,
        corrections: Corrections,
        codes: tuple[str, ...] = (*WRONG, *NAN_OR_INFINITE),
    ) -> None:
        self._engine = engine
        self._problem = problem
        self._find = find
        self._subject = subject
        self._examine = examine
        self._codes = codes
        self._designs = tuple(declared_in(problem).values())
        self._of_mode: dict[Mode, list[tuple[_Wrong, ...]]] = {}
        self._of_row: dict[bytes, tuple[ValuesOrNone, Sequence[GradientBarrier]]] = {}
        self._corrections = corrections
        self._framework = engine.capabilities.name
        self._rules: dict[tuple[Mode, str, str], Rule] = {}
        self._own: dict[Mode, tuple[list[_Wrong], dict[str, CustomCall]]] = {}
        self.notes: dict[str, None] = {}
        self.faults: dict[str, Finding] = {}

    def explained(
        self, findings: Iterable[Finding], inputs: Container[str | None] | None = None
    ) -> tuple[Finding, ...]:
        """The findings; wrong gradients (with respect to `inputs`, if given) get their causes."""
        found = tuple(
            self._explain_safely(f) if _asks(f) and (inputs is None or f.input in inputs) else f
            for f in findings
        )
        cut = {f.input: f.cause for f in found if f.cause is not None and f.cause.kind == DETACHED}
        both = (
            replace(f, cause=cut[f.input])  # both modes use one graph
            if f.mode == "forward" and f.code in WRONG and f.cause is None and f.input in cut
            else f
            for f in found
        )
        approximate = (_approximate_if_unseen(self._missing_if_cut(f)) for f in both)
        return tuple(map(self._as_sampled, approximate))

    def _as_sampled(self, finding: Finding) -> Finding:
        """Reclassify a finding about numbers drawn from a distribution that depends on the input:
        nothing else is known to be wrong with the gradient."""
        names, cause = self._subject.samplers, finding.cause
        about = (Codes.WRONG_GRADIENT, Codes.PRECISION_LOSS, Codes.UNDERFLOW_TO_ZERO)
        if not names or finding.code not in (*about, Codes.UNDECIDED) or finding.input is None:
            return finding
        if cause is not None and cause.proven and cause.engine_op not in names:
            return finding
        row = self._row(finding)
        step = where_it_runs(lambda: sampler(finding, self._subject.record(row), names), None)
        if step is None:
            return finding
        said = f"`{step.name}` draws numbers by it, and its derivative is that at a fixed quantile"
        if finding.code == Codes.UNDECIDED:
            message = finding.restated(f"undecided: {said}")
            return replace(finding, message=message, cause=_sampled(finding, step))
        code = Codes.DOCUMENTED_APPROXIMATION
        return replace(
            finding,
            code=code,
            severity=CODES[code].severity,
            message=finding.restated(f"{said}, not that of the numbers that were drawn"),
            cause=_sampled(finding, step),
        )

    def _row(self, finding: Finding) -> Array:
        """The cotangent of the finding's entry; ones if it has no traced entry."""
        traced = self._find(finding)
        size = output_size(self._subject)
        return np.ones(size) if traced is None else traced.row

    def _missing_if_cut(self, finding: Finding) -> Finding:
        """GC102 in place of GC101 if no gradient arrives because the graph is cut. JAX and
        TensorFlow return zeros for a detached output, PyTorch returns None. The same holds in
        forward mode if the output has no tangent while others have."""
        cut = finding.cause is not None and finding.cause.kind == DETACHED
        nothing = bool(finding.entries) and all(entry.computed == 0 for entry in finding.entries)
        if finding.code != Codes.WRONG_GRADIENT or not nothing:
            return finding
        traced = self._find(finding)
        if finding.mode == "forward" and traced is not None and self._lacks_tangent(traced):
            said = "forward mode gives no tangent, but the derivative is not zero"
            message = finding.restated(said)
            return replace(finding, code=Codes.MISSING_GRADIENT, message=message)
        if not cut:
            return finding
        if traced is not None and traced.row.tobytes() in self._of_row:
            gradient = self._of_row[traced.row.tobytes()][0].get(traced.leaf)
            if gradient is not None and np.any(gradient):
                return finding  # some gradient of this output arrives
        message = finding.restated("no gradient arrives, but it is not zero")
        return replace(finding, code=Codes.MISSING_GRADIENT, message=message)

    def _lacks_tangent(self, traced: TracedEntry) -> bool:
        """Whether no output in the entry's cotangent has a tangent in forward mode."""
        tangent = traced.tangent(self._subject.leaves)
        known = where_it_runs(lambda: self._subject.tangents_of(tangent), None)
        return known is not None and not np.any(known & (traced.row != 0))

    def _explain_safely(self, finding: Finding) -> Finding:
        try:
            return self._with_cause(finding)
        except Exception as error:
            if is_internal(error):
                fault = unexplained(finding, error)
                self.faults[fault.message] = fault
            else:  # the layer does not run while watched
                self.notes[f"its custom functions could not be examined: {one_line(error)}"] = None
            return finding

    def _with_cause(self, finding: Finding) -> Finding:
        solved = self._solved(finding) if finding.unseen else None
        if solved is not None:
            return replace(finding, cause=solved)
        for every in self._wrong(finding.way):
            on_the_way = [w for w in every if finding.input is None or w.depends_on(finding)]
            if not on_the_way:
                continue
            one = min(on_the_way, key=lambda w: w.name != finding.input)
            if one.call.live is None:
                # the layer is this function alone, and is wrong
                one = _Wrong(one.call, finding.input or "", *_numbers(finding), None)
            if one.call.live is None and finding.code not in WRONG:
                continue  # a right derivative may lose digits
            if one.call.broken is not None:
                return _as_broken(finding, one.call, one.call.broken)
            reaches = one.call.live is None or self._reaches(one.call, finding)
            if reaches is not False:
                rule = self._rule_that_ran(one, finding.way)
                explained = _as_wrong(finding, one, rule, shown=bool(reaches))
                return self._with_fix(explained, one, rule)
        if finding.code in NAN_OR_INFINITE:
            cause = self._of_the_framework(finding)
        elif finding.code in WRONG:
            cause = self._cause_by_uncutting(finding) or self._of_the_framework(finding)
        else:
            return finding  # another run may round a right derivative by luck
        return finding if cause is None else replace(finding, cause=cause)

    def _solved(self, finding: Finding) -> Cause | None:
        """The cause if the layer calls a solver that iterates up to a tolerance."""
        solver = min(self._subject.solvers(), default=None)
        if solver is None:
            return None
        return Cause(
            op=solver,
            phase="backward",
            span=finding.span,
            text=solver,
            detail=f"`{solver}` stops iterating at a tolerance: its value and its custom "
            "derivative are approximations",
            story=f"the custom derivative of `{solver}` is that of the exact solution; the truth "
            "is the derivative of the iterations that ran",
            kind=SOLVED,
            proof=f"the loop of `{solver}` ends by a comparison of its own numbers",
        )

    def _of_the_framework(self, finding: Finding) -> Cause | None:
        """The framework operation whose derivative is wrong and reaches the entry."""
        row = self._row(finding)
        mode = finding.way
        try:
            record = self._subject.record(row)
        except Unsupported:
            return None
        if mode not in self._own:
            self._own[mode] = self._own_rules(record, mode)
        wrong, kinks = self._own[mode]
        for one in wrong:
            if finding.input in one.call.reaches:
                numbers = one.stated, one.right
                return wrong_rule(finding, one.call, one.name, numbers, self._framework)
        lone = lone_branch(finding, record)
        if lone is not None:
            return lone
        on_the_way = {n: call for n, call in kinks.items() if finding.input in call.reaches}
        return convention(finding, on_the_way) if on_the_way else None

    def _own_rules(
        self, record: Recording, mode: Mode
    ) -> tuple[list[_Wrong], dict[str, CustomCall]]:
        """The framework's operations with wrong derivatives, and those on a kink. Operations on a
        kink are wrong along a random direction, but right wherever a derivative exists."""
        wrong: list[_Wrong] = []
        kinks: dict[str, CustomCall] = {}
        for call in in_time(executed(record), self.notes, OWN_SECONDS):
            problem = call_problem(self._problem, self._subject.dtype, call, mode)
            with closing(bind(self._engine, problem)) as subject:
                if not wrong_products(subject, problem.seed, mode):
                    continue
            found = self._wrong_arguments(call, mode)
            wrong += found[:1]
            if not found:
                kinks.setdefault(call.name, call)
        return wrong, kinks

    def _rule_that_ran(self, one: _Wrong, mode: Mode) -> Rule:
        """The wrong rule. If it returns at several lines, the function runs once more to see at
        which."""
        key = mode, one.call.name, one.name
        if key not in self._rules:
            self._rules[key] = self._find_rule_that_ran(one, mode)
        return self._rules[key]

    def _find_rule_that_ran(self, one: _Wrong, mode: Mode) -> Rule:
        rule = _rule(one.call, one.name, mode)
        read = read_function(rule.function)
        if read is None or len(read.returns) < 2:
            return rule
        problem = call_problem(self._problem, self._subject.dtype, one.call, mode)

        def run() -> None:
            with closing(bind(self._engine, problem)) as subject:
                if mode == "forward":
                    subject.jvp({leaf.name: np.ones(leaf.shape) for leaf in subject.leaves})
                else:
                    subject.run(Call(cotangents=np.ones((1, output_size(subject)))))

        line = where_it_runs(lambda: returning_line(rule.function, run), None)
        return replace(rule, line=line)

    def _with_fix(self, finding: Finding, one: _Wrong, rule: Rule) -> Finding:
        """The finding with a correction of the backward as its fix, if that makes the entry
        right."""
        traced, worst = self._find(finding), finding.worst
        if traced is None or worst is None:
            return finding
        mode = finding.way
        own: Mode = "forward" if rule.is_jvp else mode
        key = own, one.call.name, "" if rule.is_jvp else one.name
        if key not in self._corrections:
            # imported here: it loads the frameworks' tables of operations
            from gradcheck_cli.checks.causes.rule_fixes import RuleFixes

            problem = call_problem(self._problem, self._subject.dtype, one.call, own)
            fixes = RuleFixes(self._engine, problem, self._subject, rule)
            self._corrections[key] = where_it_runs(fixes.first_working, None)
        tried = self._corrections[key]
        if tried is None:
            return finding

        def value() -> float | None:
            with closing(bind(self._engine, self._problem)) as subject:
                return entry_by_mode(subject, traced, mode)

        with self._subject.replacing(*tried.replacement):
            found = where_it_runs(value, None)
        fix = None if found is None else tried.fix(worst, found, self._problem.dtype)
        return finding if fix is None else replace(finding, fix=fix)

    def _reaches(self, call: CustomCall, finding: Finding) -> bool | None:
        """Whether the wrong derivative of this function reaches the entry. If so, differences of
        the layer change when the function moves as its backward says. A layer may never use the
        gradient of an argument for which it is wrong, as of a buffer that it overwrites. None if
        this cannot be decided."""
        traced, worst = self._find(finding), finding.worst
        if traced is None or worst is None or worst.truth is None or worst.computed is None:
            return True  # no entry contradicts it
        if finding.mode != "reverse" or self._designs:
            return True  # a subject holds one declaration of one backward
        declared = Declared({0: ByDesign("", finding.span, function=call.name)}, {}, {})
        try:
            with closing(bind(self._engine, self._problem, self._subject.dtype)) as subject:
                subject.hold(declared)
                found, bar = entry_by_differences(subject, traced)
        except NotDeclarable:
            return None
        least = SAME_ERROR * abs(worst.computed - worst.truth)
        return abs(found - worst.truth) > least if declared.any and bar <= least else None

    def _wrong(self, mode: Mode) -> list[tuple[_Wrong, ...]]:
        """The wrong calls of each function that reach further leaves than those before, as one
        `_Wrong` for each wrong argument."""
        if mode in self._of_mode:
            return self._of_mode[mode]
        calls = self._subject.functions()
        meant = {design.function for design in self._designs}
        found: list[tuple[_Wrong, ...]] = []
        reached: dict[str, frozenset[str]] = {}  # by the wrong calls of each function
        for call in in_time(calls, self.notes):
            known = reached.get(call.name)
            is_new = known is None or not call.reaches <= known
            if not is_new or not call.moving or call.name in meant:
                continue
            wrong = self._wrong_arguments(call, mode)
            if wrong:
                found.append(wrong)
                reached[call.name] = call.reaches | (known or frozenset())
        self._of_mode[mode] = found
        return found

    def _cause_by_uncutting(self, finding: Finding) -> Cause | None:
        """The cause if the entry is right without one call that cuts the graph."""
        if finding.code == Codes.MISSING_GRADIENT:
            return self._cause_of_missing(finding)
        traced = self._find(finding)
        worst = finding.worst
        if traced is None or worst is None or worst.truth is None or worst.computed is None:
            return None
        key = traced.row.tobytes()
        if key not in self._of_row:
            self._of_row[key] = self._subject.uncut(traced.row)
        plain, cuts = self._of_row[key]
        off = abs(worst.computed - worst.truth)

        def differs(gradients: ValuesOrNone | None, right: float) -> float:
            gradient = (gradients or {}).get(traced.leaf)
            if gradient is None:
                return float("inf") if gradients is None else abs(right)
            return abs(traced.of(gradient) - right)

        repeats = differs(plain, worst.computed) <= SAME_ERROR * off
        wrong = not differs(plain, worst.truth) <= MATCHES * off
        for cut in cuts:
            varies = cut.kind == RECOMPUTED and wrong  # what it draws depends on earlier passes
            if (repeats or varies) and differs(cut.gradients, worst.truth) <= MATCHES * off:
                return _undone(finding, cut)
        if not repeats:
            return None  # the error depends on the precision: rounding causes it
        written = next((_overwrite_cause(finding, cut) for cut in cuts if cut.overwrites), None)
        return written or self._cause_by_holding(finding, traced, cuts)

    def _cause_by_holding(
        self, finding: Finding, traced: TracedEntry, cuts: Sequence[GradientBarrier]
    ) -> Cause | None:
        """The cause if values are detached, but no cut can be undone: differences give the wrong
        entry if every value that leaves the graph is held constant, and do not otherwise."""
        worst = finding.entries[0]
        computed = worst.computed or 0.0  # None: no gradient
        if finding.mode != "reverse" or self._designs or worst.truth is None:
            return None
        off = abs(computed - worst.truth)

        def is_given(subject: Subject) -> bool:
            found, bar = entry_by_differences(subject, traced)
            return max(bar, abs(found - computed)) <= MATCHES * off

        every = Declared({0: ByDesign("", finding.span, detach="every cut")}, None, {})
        subject = bind(self._engine, self._problem, self._subject.dtype)
        try:
            subject.hold(every)
            if not every.any or not is_given(subject) or is_given(self._subject):
                return None
        except NotDeclarable:
            return None
        finally:
            subject.close()
        moved = [cut for cut in cuts if cut.place.line in every.found[0].moved]
        return _constant(finding, next(iter([*moved, *cuts]), None))

    def _cause_of_missing(self, finding: Finding) -> Cause | None:
        """The cause if one call suppresses the gradient: without the call there is a gradient, and
        it is right along a random direction."""
        rng = generator(self._problem.seed, 13)
        subject = self._subject
        row = rng.standard_normal(output_size(subject))
        leaf = next(leaf for leaf in subject.leaves if leaf.name == finding.input)
        direction = signs(rng, leaf.shape) * scale_of(leaf.value)
        right, _ = difference(subject, leaf.name, leaf.value, direction, row)
        _, cuts = subject.uncut(row)
        for cut in cuts:
            gradient = (cut.gradients or {}).get(leaf.name)
            if gradient is None:
                continue
            if abs(float(gradient @ direction.reshape(-1)) - right) <= MATCHES * abs(right):
                return _undone(finding, cut)
        traced = self._find(finding)
        held = None if traced is None else self._cause_by_holding(finding, traced, cuts)
        return held or self._cause_of_unused(finding)

    def _cause_of_unused(self, finding: Finding) -> Cause | None:
        """The cause if a function on the way has another gradient where only one of its outputs is
        used, as where the cotangents of the others are None."""
        for call in in_time(self._subject.functions(), self.notes):
            if call.live is None or finding.input not in call.reaches:
                continue
            problem = call_problem(self._problem, self._subject.dtype, call, finding.way)
            alone = replace(problem, behaviour=True)
            for found in self._examine(self._engine, alone, blaming=False).findings:
                run = found.other_run
                if run is not None and run.way == "one output" and found.input in call.moving:
                    return _of_one_output(finding, call, found)
        return None

    def _wrong_arguments(self, call: CustomCall, mode: Mode) -> tuple[_Wrong, ...]:
        """The wrong arguments of the call as a layer of its own: examined whole if it is small,
        else along one random direction."""
        if call.live is None or call.broken is not None:
            return (_Wrong(call, "", "", "", None),)
        problem = call_problem(self._problem, self._subject.dtype, call, mode)
        with closing(bind(self._engine, problem)) as subject:
            if not is_small(subject):
                products = wrong_products(subject, problem.seed, mode, kinks=False)
                return tuple(_of_product(call, product) for product in products)
        answer = self._examine(self._engine, problem, blaming=False)
        return tuple(
            _Wrong(call, finding.input, *_numbers(finding), finding.pattern)
            for finding in answer.findings
            if finding.code in self._codes
            and finding.severity == "error"
            and finding.input
            and finding.mode in (mode, None)
        )


def _of_product(call: CustomCall, product: Product) -> _Wrong:
    along = " along a random direction"
    pattern = None if product.factor is None else f"factor {product.factor:.6g}"
    if product.factor == 0:
        pattern = "all zeros"
    stated, right = two_texts(product.stated, product.right)
    return _Wrong(call, product.leaf, stated + along, right, pattern)


def _asks(finding: Finding) -> bool:
    """Whether a custom gradient may cause the finding. Proven causes of rounding stand."""
    if finding.code in WRONG:
        return finding.cause is None
    unproven = not (finding.cause and finding.cause.proven)
    if finding.code in NAN_OR_INFINITE:
        return unproven and (finding.cause is None or finding.cause.kind == "domain edge")
    return (
        finding.code in (Codes.PRECISION_LOSS, Codes.UNDERFLOW_TO_ZERO)
        and finding.severity == "error"
        and unproven
    )


def _pattern(finding: Finding, one: _Wrong) -> str | None:
    """The pattern of the whole gradient, or else of the function's gradient."""
    if finding.pattern is not None or one.pattern is None or finding.code == Codes.MISSING_GRADIENT:
        return finding.pattern
    return f"{one.pattern}, in `{one.call.name}` for `{one.name}`"


def _as_wrong(finding: Finding, one: _Wrong, rule: Rule, shown: bool) -> Finding:
    """The finding as one about a wrong rule: its error is not rounding, even if the number is
    nearly right or zero. `shown`: differences show that the rule reaches the entry."""
    cause = _stated_wrong(finding, one, rule)
    if not shown:
        proof = f"{cause.proof}; whether this makes the entry wrong could not be shown"
        cause = replace(cause, proven=False, proof=proof)
    explained = replace(finding, cause=cause, pattern=_pattern(finding, one))
    if finding.code in (*WRONG, *NAN_OR_INFINITE):
        return explained
    said = f"the custom derivative of `{one.call.name}` is wrong, so rounding is not the cause"
    return replace(explained, code=Codes.WRONG_GRADIENT, message=finding.restated(said))


def _as_broken(finding: Finding, call: CustomCall, reason: str) -> Finding:
    cause = cause_at(
        finding,
        call.name,
        returned(call.backward) or call.place,
        phase="backward",
        detail=reason,
        story=f"the derivative of `{call.name}`{_called_at(call)} assumes the opposite",
        kind="wrong rule",
        proof="seen in a run at this point; whether this makes the entry wrong could not be shown",
    )
    return replace(finding, cause=cause)


def _stated_wrong(finding: Finding, one: _Wrong, wrong: Rule) -> Cause:
    call, name = one.call, one.name
    stated, right = one.stated, one.right
    rule = "jvp" if wrong.is_jvp else "backward"
    place = returned(wrong.function, *wrong.path, line=wrong.line) or call.place
    return cause_at(
        finding,
        call.name,
        place,
        phase="backward",
        detail=f"your {rule} returns {stated} for `{name}`; the derivative of forward is {right}",
        story=f"the {rule} of `{call.name}`{_called_at(call)} returns {stated} for `{name}`; "
        f"correct: {right}",
        kind="wrong rule",
        proven=True,
        proof=f"checked in isolation{' at the same inputs' if call.live else ''}, `{call.name}` "
        "disagrees with finite differences of its own forward",
    )


def _rule(call: CustomCall, name: str, mode: Mode) -> Rule:
    """The rule that computes the derivative with respect to an argument."""
    if name in call.terms:
        return Rule(call.terms[name], (), True, name, (name,))
    of_both = call.jvp is not None and call.backward is call.jvp  # reverse mode transposes the jvp
    if mode == "forward" or of_both:
        return Rule(call.jvp, call.tangent, True, name, call.moving)
    return Rule(call.backward, call.positions.get(name, (0,)), False, name, call.moving)


def _of_one_output(finding: Finding, call: CustomCall, found: Finding) -> Cause:
    """The cause from the finding about the call alone."""
    rule = _rule(call, found.input or "", finding.way)
    return cause_at(
        finding,
        call.name,
        returned(rule.function, *rule.path) or call.place,
        phase="backward",
        detail=f"the backward depends on which outputs are used: {found.message}",
        story=f"the backward of `{call.name}`{_called_at(call)} returns this gradient only "
        "if other outputs are used, too",
        kind="wrong rule",
        proven=True,
        proof="checked in isolation at the same inputs, with all outputs and with one",
    )


def _undone(finding: Finding, barrier: GradientBarrier) -> Cause:
    """The cause if the gradient is right without the barrier."""
    name, otherwise = barrier.name, _otherwise(finding)
    what = " ".join(barrier.place.text.split()) or name
    said = {
        DETACHED: (
            f"the gradient of `{finding.input}` stops here: `{name}` detaches a value",
            f"with `{what}` in the graph {otherwise}",
            f"in a run where `{name}` passes its argument through, the gradient is right",
        ),
        "gradient hook": (
            f"a hook changes the gradient of `{finding.input}`",
            f"without the hook {otherwise}",
            "in a run without this hook, the gradient is right",
        ),
        RECOMPUTED: (
            f"the backward of `{name}` runs the forward once more, and gets other numbers",
            f"without `{name}` {otherwise}",
            f"in a run without `{name}`, which keeps the numbers of the forward, the gradient is "
            "right",
        ),
    }
    detail, story, proof = said[barrier.kind]
    return cause_at(
        finding,
        name,
        barrier.place,
        phase="forward" if barrier.kind == DETACHED else "backward",
        detail=detail,
        story=story,
        kind=barrier.kind,
        proven=True,
        proof=proof,
    )


def _otherwise(finding: Finding) -> str:
    worst = finding.worst
    if worst is None or worst.computed is None:
        return "there is a gradient"
    truth, computed = worst.truth or 0.0, worst.computed
    right, seen = two_texts(_rounded(truth, computed), computed)
    return f"the entry is {right}, not {seen}"


def _constant(finding: Finding, cut: GradientBarrier | None) -> Cause:
    """The cause for values held constant. `cut` is the first that a line of the user detaches."""
    where = f" at `{cut.name}`" if cut and cut.name else ""
    return Cause(
        op=cut.name if cut and cut.name else "detach",
        phase="forward",
        span=finding.span if cut is None else cut.place.span,
        text="" if cut is None else cut.place.text,
        detail=f"the gradient of `{finding.input}` leaves out what goes through values that are "
        f"detached{where}",
        story=f"the detached values depend on `{finding.input}`: with that {_otherwise(finding)}",
        kind=DETACHED,
        proven=True,
        proof="where every detached value is held constant, differences give this gradient",
        source=None if cut is None else cut.place.source,
    )


def _sampled(finding: Finding, step: Step) -> Cause:
    return cause_at(
        finding,
        step.name,
        step.place,
        phase="backward",
        detail=f"the derivative of `{step.name}` is that of its samples at a fixed quantile",
        story=f"`{step.name}` has the derivative of implicit reparameterisation: right for the "
        "mean of a loss over many draws, and not the derivative of the draw of one seed",
        kind=SAMPLED,
        engine_op=step.name,
        proof="the distribution that it draws from depends on the input",
    )


def _approximate_if_unseen(finding: Finding) -> Finding:
    """GC305 in place of GC101 if the layer itself approximates, by iterating or detaching, and
    float32 cannot see the error."""
    cause = finding.cause
    if finding.code != Codes.WRONG_GRADIENT or not finding.unseen or cause is None:
        return finding
    if cause.kind != SOLVED and not (cause.kind == DETACHED and cause.proven):
        return finding
    code = Codes.DOCUMENTED_APPROXIMATION
    said = f"an approximation{_part(finding)}: float32 cannot see the difference"
    message = finding.restated(said)
    return replace(finding, code=code, severity=CODES[code].severity, message=message)


def _part(finding: Finding) -> str:
    """The largest relative error of the shown entries, in words."""
    pairs = [(one.computed, one.truth) for one in finding.entries if one.computed and one.truth]
    parts = [abs(computed - truth) / abs(truth) for computed, truth in pairs if computed and truth]
    return f" with a relative error of {max(parts):.1e}" if parts else ""


def _overwrite_cause(finding: Finding, cut: GradientBarrier) -> Cause:
    return cause_at(
        finding,
        cut.name,
        cut.place,
        phase="forward",
        detail=f"overwritten through `{cut.name}`: the derivative uses the overwritten memory",
        story=f"`{cut.name}` hides an in-place write from the graph",
        kind=cut.kind,
        proof=f"without `{cut.name}` the framework refuses the backward pass, because a saved "
        "value was modified in place",
    )


def _numbers(finding: Finding) -> tuple[str, str]:
    worst = finding.worst
    if worst is not None and worst.computed is not None and worst.truth is None:
        _, _, how = finding.message.partition(MISFIT)
        return number(worst.computed, 6), f"no single number here: {how}"
    if worst is None or worst.truth is None:
        return "nothing", "not zero"
    if worst.computed is None:
        return "nothing", number(worst.truth, 6)
    return two_texts(worst.computed, _rounded(worst.truth, worst.computed))


def _rounded(right: float, seen: float) -> float:
    """`right` without the last digits, which differences do not determine, if they do not
    matter."""
    short = float(f"{right:.9g}")
    return short if abs(short - right) <= MATCHES * abs(seen - right) else right


def _called_at(call: CustomCall) -> str:
    """Where the call is; nothing for the layer itself."""
    place = None if call.live is None else call.place
    return "" if place is None else f", called at {place.line},"
