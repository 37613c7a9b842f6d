"""Searches of layers: their own code is run at points, and every witness is examined as in a run.

The forward that is lifted at the point of the file says where to search, and estimates the right
answers. If it cannot be lifted, points are drawn, and the layer itself in float64 estimates the
answers. A proof needs an engine that shows that the layer runs the same operations for all inputs
(`Subject.gradient_program`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.checks.protocol import Steps
from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.layer import LayerProblem, Leaf, word_of
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.search import GradientProgram, Kind, SearchRequest
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.layer.isolation import surroundings
from gradcheck_cli.engines.layer.lifting import Lifted
from gradcheck_cli.engines.layer.loading import on_the_path
from gradcheck_cli.engines.layer.subject import Call, Subject
from gradcheck_cli.engines.tracebacks import raise_if_internal, where_it_runs
from gradcheck_cli.search.box import Domain, Ordinals, domain_of
from gradcheck_cli.search.estimates import Answers
from gradcheck_cli.search.kinds import KIND_OF, suspects
from gradcheck_cli.search.runs import Runner
from gradcheck_cli.search.searching import Searching
from gradcheck_cli.search.truths import Failing

_WIDE = "float64"
LATER_CALLS = "the layer runs other operations in later calls"
SAME_OPERATIONS = (
    "the layer, at the shapes of the file, runs the recorded operations in each call: its code runs"
    " on tensors without numbers"
)
_DRAWN = 2  # points besides the corners at which a layer must execute the same operations


class _LayerRunner(Runner):
    """Runs the layer at points of a domain, one after the other."""

    def __init__(self, subject: Subject, engine: str, spec: Spec, domain: Domain) -> None:
        super().__init__(engine, spec.program, domain, spec.wrt)
        self.batched, self.together = None, False
        self.subject = subject
        self._leaves = {word_of(leaf.name): leaf.name for leaf in subject.leaves}

    def singly(self, points: Ordinals) -> Steps[Answers]:
        yield from ()
        return self.answers(points)

    def answers(self, points: Ordinals) -> Answers:
        """The values and gradients at points (N, D)."""
        size = sum(one.size for one in self.subject.outputs)
        shapes = {name: self.domain_size(name) for name in self.wrt}
        value = np.full((len(points), size), np.nan)
        gradients = {n: np.full((len(points), size, k), np.nan) for n, k in shapes.items()}
        answered = np.zeros(len(points), np.bool_)
        for number, point in enumerate(points):
            call = Call(values=self.leaves_at(point), cotangents=np.eye(size))
            try:
                found = self.subject.run(call)
            except Exception as error:  # from the user's code, which does not accept the point
                raise_if_internal(error)
                continue
            self.runs += 1
            answered[number] = True
            value[number] = found.output
            for name, gradient in gradients.items():
                given = found.gradients.get(self._leaves[name])
                gradient[number] = 0.0 if given is None else given
        return Answers(value, gradients, answered)

    def leaves_at(self, point: Ordinals) -> dict[str, Array]:
        """The searched leaves at a point (D,), by their own names."""
        values = self.domain.values(point)
        return {self._leaves[n]: values[n] for n in self.domain.shapes if n in self._leaves}

    def domain_size(self, name: str) -> int:
        """The number of elements of an input."""
        shape = self.domain.shapes.get(name)
        return int(np.prod(shape)) if shape is not None else self.domain.still[name].size


class LayerSearching(Searching):
    """A search of the layer of one engine, in one dtype."""

    def __init__(
        self,
        engine: Engine,
        problem: LayerProblem,
        spec: Spec,
        domain: Domain,
        subjects: tuple[Subject, Subject],
        request: SearchRequest,
    ) -> None:
        """`spec` has the lifted program, or a placeholder; `subjects` are the layer in the dtype
        and in float64."""
        name = engine.capabilities.name
        super().__init__(spec, name, domain, request.kinds, request.budget, request.seed)
        self._engine = engine
        self._problem = problem
        self._is_lifted = spec.program is not problem.spec.program
        self._runner: _LayerRunner = _LayerRunner(subjects[0], name, spec, domain)
        self._wide = _LayerRunner(subjects[1], name, spec, domain)
        self._examined: dict[bytes, list[Failing]] = {}

    def _ask_for_the_program(self) -> Steps[None]:
        yield from ()
        self._gradient = self._recorded()

    def _recorded(self) -> GradientProgram:
        """The operations that the layer executes, if they are the same at all points."""
        domain = self._domain
        drawn = self._rng.integers(domain.low, domain.high, (_DRAWN, domain.size), endpoint=True)
        points = [self._runner.leaves_at(point) for point in (domain.low, domain.high, *drawn)]
        return self._wide.subject.gradient_program(self._runner.subject, [*points[0]], points)

    def _formula(self) -> Program:
        """The value, as the layer computes it."""
        program = self._gradient.program
        assert program is not None
        value = program.outputs[0]
        assert value is not None
        inputs = {name: place for name, place in program.inputs.items() if place <= value}
        return replace(program, nodes=program.nodes[: value + 1], inputs=inputs, outputs=(value,))

    def _run_leaves(self) -> Steps[None]:
        """No truth is certified for a layer. Instead, the proof is given up if the layer, which was
        called often by now, executes other operations than before."""
        yield from ()
        if self._proof is not None and not _same_program(self._gradient, self._recorded()):
            self._proof, self._why = None, LATER_CALLS

    def _run_all(self) -> Steps[None]:
        yield from ()  # a layer may be slow

    def _assumptions(self) -> tuple[str, ...]:
        return (*super()._assumptions(), SAME_OPERATIONS)

    def _estimate(self, points: Ordinals, runner: Runner | None = None) -> Answers:
        if self._is_lifted:
            return super()._estimate(points, runner)
        return self._wide.answers(points)

    def _candidates(self, points: Ordinals) -> Ordinals:
        return super()._candidates(points) if self._is_lifted else points[:0]

    def _failures(self, point: Ordinals) -> Steps[list[Failing]]:
        """The findings of an examination of the layer at the point, for the kinds in which it seems
        to fail."""
        key = point.tobytes()
        if key not in self._examined:
            answers = yield from self._runner.singly(point[None])
            estimate = self._estimate(point[None])
            sizes = suspects(answers, lambda: estimate, self._format)
            values = self._domain.arrays(self._domain.numbers(point[None]))
            inputs = dict(self._problem.spec.inputs)
            for name, entry in inputs.items():
                if word_of(name) in values:
                    inputs[name] = replace(entry, value=values[word_of(name)][0])
            spec = replace(self._problem.spec, points=(inputs,), pointed=False, order=1)
            answer = examine(self._engine, replace(self._problem, spec=spec))
            value = answers.value[0], estimate.value[0]
            self._examined[key] = [
                one for one in _failing(answer.findings, *value) if sizes[one.kind][0] > 0
            ]
        return self._examined[key]


def _same_program(one: GradientProgram, other: GradientProgram) -> bool:
    """Check whether both are the same operations, with the same constants."""
    if one.program is None or other.program is None:
        return False
    mine, theirs = (Lifted(x.program, x.constants) for x in (one, other) if x.program is not None)
    return mine.computes_as(theirs)


def _failing(findings: tuple[Finding, ...], value: Array, right: Array) -> Iterator[Failing]:
    """Yield the failures that findings report. `value` is the layer's value, `right` an estimate of
    the truth."""
    for finding in findings:
        kind: Kind | None = KIND_OF.get(finding.code)
        if kind is None or finding.severity == "note":
            continue
        if not finding.entries:
            place = int(np.argmin(np.isfinite(value)))
            entry = "value" if len(value) == 1 else f"value[{place}]"
            yield Failing(kind, entry, float(value[place]), float(right[place]), False, 1.0)
            continue
        worst = finding.entries[0]
        computed, truth = (np.nan if one is None else one for one in (worst.computed, worst.truth))
        index = f"[{','.join(map(str, worst.index))}]" if worst.index else ""
        yield Failing(kind, f"{finding.input or 'value'}{index}", computed, truth, False, 1.0)


@contextmanager
def layer_searching(engine: Engine, request: SearchRequest) -> Iterator[LayerSearching]:
    """Open a search of the layer that the spec has for the engine. Raises what the layer raises."""
    spec, name = request.spec, engine.capabilities.name
    layer = next(one for one in spec.implementations if one.engine == name)
    problem = LayerProblem(spec, layer, 0, request.dtype, ("reverse",), seed=request.seed)
    with surroundings(), on_the_path(layer):
        subjects = Subjects(engine, problem)
        narrow, wide = subjects.bound(request.dtype), subjects.bound(_WIDE)
        try:
            named = {word_of(n): replace(one, name=word_of(n)) for n, one in spec.inputs.items()}
            program, constants = _lifted(wide, spec.program)
            domain = domain_of(named, request.dtype)
            assert domain is not None  # the caller has checked this
            leaves = {word_of(leaf.name): _rounded(leaf, request.dtype) for leaf in wide.leaves}
            still = {n: v for n, v in {**leaves, **constants}.items() if n not in domain.shapes}
            domain = replace(domain, still={**domain.still, **still})
            wrt = tuple(word_of(leaf.name) for leaf in wide.leaves if leaf.differentiable)
            own = replace(spec, program=program, wrt=wrt)
            yield LayerSearching(engine, problem, own, domain, (narrow, wide), request)
        finally:
            narrow.close()
            wide.close()


def _lifted(subject: Subject, otherwise: Program) -> tuple[Program, Mapping[str, Array]]:
    """The forward as a program, with its constants; the program `otherwise` if it cannot be
    lifted."""
    lifted = where_it_runs(lambda: subject.lift().without_islands(), None)
    return (otherwise, {}) if lifted is None else (lifted.program, lifted.constants)


def _rounded(leaf: Leaf, dtype: str) -> Array:
    return FORMATS[dtype].round(leaf.value) if leaf.is_floating else leaf.value
