"""Run points on the engine: many in one call if the program can be batched, else one by one.

`Runner` takes points as ordinals and yields questions for the engine (`Steps`). It returns
`Answers`, in which points without an answer are nan and not `answered`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gradcheck_cli.checks.protocol import Ask, Steps
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Evaluation, Failure, Problem, Projection
from gradcheck_cli.domain.program import Program
from gradcheck_cli.search.box import Domain, Ordinals
from gradcheck_cli.search.enclosures.faithful import depends_on_batch, recorded_in
from gradcheck_cli.search.estimates import Answers, answers_of, row_cotangents
from gradcheck_cli.truth.batching import NotBatched, batched, tiled

BATCH = 1024
_SINGLY = 256  # points of a call that are run if they cannot be batched: 0.3 ms each


class Runner:
    """Runs a program on an engine at points of a domain."""

    def __init__(
        self,
        engine: str,
        program: Program,
        domain: Domain,
        wrt: tuple[str, ...],
        count: int = BATCH,
    ) -> None:
        """`count` points are run at once, and `together` says whether the engine answers each as if
        it were run alone."""
        self.count = count
        self.engine = engine
        self.program = program
        self.domain = domain
        self.wrt = wrt
        self.runs = 0
        self.failure: Failure | None = None  # of the last point that gave no answer
        self._shape = program.result.shape
        self.together = not depends_on_batch(program, engine)
        try:
            self.batched: Program | None = batched(program, count)
        except NotBatched:
            self.batched = None
            self.together = False

    def at(self, points: Ordinals) -> Steps[Answers]:
        """The answers at points (N, D). An incomplete batch is filled with its last point."""
        parts = []
        for begin in range(0, len(points), self.count):
            some = points[begin : begin + self.count]
            found = yield from self._answers_batched(some)
            if found is None:
                chosen = np.arange(0, len(some), -(-len(some) // _SINGLY))
                found = _spread_answers((yield from self.singly(some[chosen])), chosen, len(some))
            parts.append(found)
        return _joined(parts)

    def singly(self, points: Ordinals) -> Steps[Answers]:
        """The answers at points that are run one by one, as the user's program would."""
        size = int(np.prod(self._shape))
        rows = np.eye(size).reshape(size, *self._shape)
        questions = [self._problem(self.program, self.domain.values(p), rows) for p in points]
        self.runs += len(questions)
        found = yield [Ask(self.engine, question) for question in questions]
        answered = zip(found, questions, strict=True)
        return _joined(
            [self._answer_at_point(evaluation, question) for evaluation, question in answered]
        )

    def _answers_batched(self, points: Ordinals) -> Steps[Answers | None]:
        if self.batched is None or not self.together:
            return None
        values = self.values(filled(points, self.count))
        question = self._problem(self.batched, values, row_cotangents(self.count, self._shape))
        (found,) = yield [Ask(self.engine, question)]
        if found.failure is not None:
            self.failure = found.failure
            self.together = False
            return None
        self.runs += len(points)
        return self._answers(found, question, self.count).first(len(points))

    def values(self, points: Ordinals) -> dict[str, Array]:
        """All inputs of the batched program at points (count, D)."""
        domain = self.domain
        return {**tiled(domain.still, len(points)), **domain.arrays(domain.numbers(points))}

    def _problem(self, program: Program, values: Mapping[str, Array], rows: Array) -> Problem:
        dtype = self.domain.dtype
        return Problem(program, values, self.wrt, dtype, dtype, "reverse", Projection(rows=rows))

    def _answer_at_point(self, evaluation: Evaluation, question: Problem) -> Answers:
        if evaluation.failure is not None:
            self.failure = evaluation.failure
            return self._no_answer()
        return self._answers(evaluation, question, 1)

    def _answers(self, evaluation: Evaluation, question: Problem, count: int) -> Answers:
        assert evaluation.output is not None
        rows = int(np.prod(self._shape))
        return answers_of(evaluation.output, _gradients(evaluation, question.values, rows), count)

    def full_problem(self, point: Ordinals) -> Problem:
        """The problem of the value and every row of the Jacobian at a point (D,), in float64, or in
        the dtype whose program is another one."""
        rows = np.eye(int(np.prod(self._shape))).reshape(-1, *self._shape)
        values = self.domain.values(point)
        own = self._problem(self.program, values, rows)
        return replace(own, dtype=recorded_in(self.program, self.engine, own.dtype))

    def _no_answer(self) -> Answers:
        """The answers at one point without an answer: nan, and not `answered`."""
        size = int(np.prod(self._shape))
        shapes = {n: self.program.nodes[i].shape for n, i in self.program.inputs.items()}
        gradients = {
            name: np.full((1, size, int(np.prod(shapes[name]))), np.nan) for name in self.wrt
        }
        return Answers(np.full((1, size), np.nan), gradients, np.zeros(1, np.bool_))


def filled(points: Ordinals, count: int) -> Ordinals:
    """The points, with the last of them repeated up to `count`."""
    extra = np.repeat(points[-1:], count - len(points), axis=0)
    return np.concatenate([points, extra])


def _gradients(evaluation: Evaluation, values: Mapping[str, Array], rows: int) -> dict[str, Array]:
    """The blocks of a gradient; zeros for a gradient that the engine did not return."""
    return {
        name: np.zeros((rows, values[name].size)) if one.values is None else one.values
        for name, one in evaluation.gradients.items()
    }


def _spread_answers(answers: Answers, rows: Array, count: int) -> Answers:
    """The answers at `rows` of `count` points, and no answers at the others."""

    def spread(part: Array) -> Array:
        whole = np.full((count, *part.shape[1:]), np.nan)
        whole[rows] = part
        return whole

    answered = np.zeros(count, np.bool_)
    answered[rows] = answers.answered
    gradients = {name: spread(gradient) for name, gradient in answers.gradients.items()}
    return Answers(spread(answers.value), gradients, answered)


def _joined(parts: list[Answers]) -> Answers:
    first = parts[0]
    return Answers(
        np.concatenate([part.value for part in parts]),
        {n: np.concatenate([part.gradients[n] for part in parts]) for n in first.gradients},
        np.concatenate([part.answered for part in parts]),
    )
