"""Propose fixes for a layer. Rewrites of the lifted program are written into the user's functions
and run there, at the failing point and at fresh points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

import numpy as np

from gradcheck_cli.checks.certified.lifted import LiftedTruth
from gradcheck_cli.checks.certified.readable import readable
from gradcheck_cli.checks.small import Whole
from gradcheck_cli.domain.case import Case, TruthRequest
from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.evaluation import Evaluation, Mode, Problem
from gradcheck_cli.domain.fixes import Screened, Trial
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.report import Cause, Finding
from gradcheck_cli.domain.thresholds import Step
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.layer.lifting import Lifted
from gradcheck_cli.engines.layer.rewriting import Expression, NotRewritable, Seen
from gradcheck_cli.engines.layer.subject import Call
from gradcheck_cli.engines.tracebacks import as_failure, raise_if_internal, where_it_runs
from gradcheck_cli.explain.fixes import trials
from gradcheck_cli.explain.fixes.trials import Tried
from gradcheck_cli.explain.fixes.user_code import Rewording, reworded
from gradcheck_cli.formula.program import used_inputs
from gradcheck_cli.truth.formulas.screening import screen

BEYOND = 2  # far points at which a name must equal the expression that it replaces
FAR: Step = 2.0**6  # how much larger an input is at others, where a clipped one differs


def with_fixes(engine: Engine, examined: Whole, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings about a small layer, with fixes if its forward was lifted."""
    program = examined.program
    if not isinstance(program, LiftedTruth):
        return tuple(findings)
    return _LayerFixes(engine, examined, program).added(findings)


class _LayerFixes:
    def __init__(self, engine: Engine, examined: Whole, program: LiftedTruth) -> None:
        self._engine = engine
        self._examined = examined
        self._layer = examined.layer
        self._words = program.words
        self._request = _readable(program.request(examined.case.projections), program.constants)
        self._case = self._in_words(examined.case)
        self._rewordings: dict[int, Rewording] = {}  # by the identity of a program
        self._expressions: dict[Place, Expression] = {}

    def added(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        mine = [self._finding_in_words(finding) for finding in findings]
        request = trials.request(self._case, self._request, mine)
        screened = None if request is None else self._in_user_code(screen(request))
        tries = trials.Trials(self._case, mine, screened)
        for tried in tries.rounds():
            tries.answers |= self._answers(tried)
        return tuple(
            replace(finding, fix=one.fix, no_fix=one.no_fix)
            for finding, one in zip(findings, tries.with_fixes(), strict=True)
        )

    # The layer as a formula

    def _in_words(self, case: Case) -> Case:
        """The case restated about the lifted program."""
        request, words = self._request, self._words
        assert case.truth is not None
        blocks = {(mode, words[name]): one for (mode, name), one in case.truth.blocks.items()}
        return replace(
            case,
            spec=replace(case.spec, program=request.program, wrt=request.wrt),
            values=request.values,
            projections=request.projections,
            evaluations=tuple(map(self._evaluation_in_words, case.evaluations)),
            truth=replace(case.truth, blocks=blocks),
        )

    def _evaluation_in_words(self, one: Evaluation) -> Evaluation:
        gradients = {self._words[name]: gradient for name, gradient in one.gradients.items()}
        return replace(one, gradients=gradients)

    def _finding_in_words(self, finding: Finding) -> Finding:
        return replace(
            finding,
            input=finding.input and self._words[finding.input],
            cause=None if finding.cause is None else self._lifted_cause(finding.cause),
        )

    def _lifted_cause(self, cause: Cause) -> Cause:
        """The cause, with the node of the lifted program at the same place."""
        nodes = self._request.program.nodes
        path = None if cause.source is None else cause.source.path
        mine = [
            index
            for index, node in enumerate(nodes)
            if node.source is not None and (node.source.path, node.span) == (path, cause.span)
        ]
        return replace(cause, node=mine[-1] if mine else None)

    # In the user's code

    def _in_user_code(self, screened: Screened) -> Screened:
        """The trials, with user code where it can be written. Trials with code come first, the
        smallest change before larger ones. The others are formulas; they are kept only if leaves
        alone appear in them, because the user can read those."""
        found = sorted(map(self._with_rewording, screened.trials), key=self._rank)
        leaves = set(self._words.values())
        return replace(
            screened,
            trials=tuple(
                trial
                for trial in found
                if trial.candidate.place or used_inputs(trial.candidate.part) <= leaves
            ),
        )

    def _rank(self, trial: Trial) -> tuple[bool, float]:
        found = self._rewordings.get(id(trial.candidate.program))
        return trial.candidate.custom, np.inf if found is None else found.level

    def _with_rewording(self, trial: Trial) -> Trial:
        candidate = trial.candidate
        points = [point.values for point in trial.points[:2]]
        rewording = reworded(
            self._request.program,
            candidate.program,
            points,
            partial(self._evaluations, points),
            self._engine.capabilities.name,
            list(self._beyond([point.values for point in trial.points if not point.near])),
        )
        if rewording is None or not self._can_be_written(rewording):
            return trial
        self._rewordings[id(candidate.program)] = rewording
        place, written = rewording.place, rewording.code.text
        return replace(
            trial, candidate=replace(candidate, before=place.text, after=written, place=place)
        )

    def _beyond(self, far: Sequence[Values]) -> Iterator[Values]:
        """Some far points, and others where each moved input in turn has the other sign or another
        magnitude: `x` equals `abs(x)` at many points."""
        yield from far[:BEYOND]
        for values in far[:1]:
            for name in self._request.wrt:
                low, high = self._request.bounds.get(name, (-np.inf, np.inf))
                for factor in (-1.0, FAR, -FAR):
                    yield {**values, name: np.clip(factor * values[name], low, high)}

    def _evaluations(self, points: Sequence[Values], place: Place) -> Sequence[Sequence[Seen]]:
        """The evaluations of an expression in runs at these points; none if the expression cannot
        be watched or the layer does not run while watched."""
        subject = self._layer.highest
        try:
            if place not in self._expressions:
                callers = subject.user_function, self._layer.narrow.user_function
                self._expressions[place] = Expression(place, *callers)
            expression = self._expressions[place]
            calls = [Call(self._leaf_values(values), tracking=False) for values in points]
            runs = [partial(subject.run, call) for call in calls]
            return where_it_runs(
                lambda: [subject.evaluations_of(expression, run) for run in runs], []
            )
        except NotRewritable:
            return []

    def _leaf_values(self, values: Values) -> dict[str, Array]:
        """The differentiated leaves at a point of the lifted program."""
        narrow = self._layer.narrow
        return {
            leaf.name: np.asarray(values[self._words[leaf.name]])
            for leaf in narrow.leaves
            if leaf.differentiable
        }

    # Trials

    def _answers(self, asked: Mapping[Tried, Problem]) -> dict[Tried, Evaluation]:
        """Evaluations of the layer with each candidate written into it, or unchanged."""
        answers: dict[Tried, Evaluation] = {}
        for number in dict.fromkeys(tried.trial for tried in asked):
            mine = {one: problem for one, problem in asked.items() if one.trial == number}
            program = next(iter(mine.values())).program
            rewording = self._rewordings.get(id(program))
            if number is not None and rewording is None:
                answers |= {one: self._engine.evaluate(problem) for one, problem in mine.items()}
                continue
            with nullcontext() if rewording is None else self._patched_layer(rewording):
                answers |= {one: self._answer(one, problem) for one, problem in mine.items()}
        return answers

    def _answer(self, tried: Tried, problem: Problem) -> Evaluation:
        layer = self._layer
        empty = Evaluation(layer.name, layer.narrow.dtype, layer.problem.dtype, tried.mode)
        try:
            return self._run(tried.mode, self._leaf_values(problem.values)) or empty
        except Exception as error:  # a candidate may raise although the layer does not
            raise_if_internal(error)
            return replace(empty, failure=as_failure(error))

    def _can_be_written(self, found: Rewording) -> bool:
        """Whether the code can be written into the function: a closure has no variables but its
        own."""
        try:
            with self._patched_layer(found):
                return True
        except NotRewritable:
            return False

    def _patched_layer(self, rewording: Rewording) -> AbstractContextManager[None]:
        expression = self._expressions[rewording.place]
        return self._layer.narrow.replacing(
            expression, rewording.code.expression, rewording.code.names()
        )

    def _run(self, mode: Mode, moved: Values) -> Evaluation | None:
        """Evaluate the layer at other values of its leaves; forward mode binds it there."""
        bound = {} if mode == "reverse" else moved
        with self._layer.at_values(self._layer.narrow.dtype, bound) as there:
            if there is None:
                return None
            if mode == "forward":
                evaluation = self._examined.forward(there)
            else:
                ran = there.run(Call(moved, self._examined.cotangents))
                evaluation = self._examined.evaluation(there, ran, 0.0)
            return None if evaluation is None else self._evaluation_in_words(evaluation)


def _readable(request: TruthRequest, constants: Values) -> TruthRequest:
    """The same request about a readable form of the program."""
    lifted = readable(Lifted(request.program, constants), request.dtype)
    own = {n: v for n, v in request.values.items() if n in lifted.program.inputs}
    bounds = {name: request.bounds[name] for name in own}
    return replace(request, program=lifted.program, values=own, bounds=bounds)
