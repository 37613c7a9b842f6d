"""A search: probes, directed search, and witnesses that are certified and run again alone.

`Searching` takes a spec, an engine and a dtype. Its `steps` yield questions for the engine and end
with one `Search` for each kind. Every verdict begins as undecided, and what is known when time is
over counts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from gradcheck_cli.checks.protocol import Ask, Steps
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Failure, Problem, Projection
from gradcheck_cli.domain.search import (
    GradientProgram,
    GradientRequest,
    Kind,
    Search,
    Witness,
)
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.search.batching import NotBatched, batched
from gradcheck_cli.search.box import Domain, Ordinals
from gradcheck_cli.search.estimates import Answers, Estimator
from gradcheck_cli.search.goals import Lines, Watch, directed, lines_through
from gradcheck_cli.search.kinds import suspects
from gradcheck_cli.search.probes import constants_of, probes
from gradcheck_cli.search.runs import BATCH, Runner, filled
from gradcheck_cli.search.truths import Failing, PointTruth
from gradcheck_cli.truth.plain import inlined

_TRIED = 12  # suspects of one kind whose truth is enclosed in one round: 5 ms each
_ROUNDS = 6  # of directed search, at most


class Searching:
    """One spec on one engine in one dtype. `kinds` are those that are looked for; `budget` is in
    seconds, from when the engine is ready."""

    def __init__(
        self,
        spec: Spec,
        engine: str,
        domain: Domain,
        kinds: Sequence[Kind],
        budget: float,
        seed: int,
    ) -> None:
        self._spec = spec
        self._domain = domain
        self._kinds = tuple(kinds)
        self._budget = budget
        self._rng = np.random.default_rng([seed, len(spec.name)])
        self._format = FORMATS[domain.dtype]
        self._program = rounded(spec.program, domain.dtype)
        self._exact = inlined(self._program)
        self._runner = Runner(engine, self._program, domain, spec.wrt)
        self._witnesses: dict[Kind, Witness] = {}
        self._tried: set[tuple[Kind, bytes]] = set()
        self._gradient = GradientProgram(reason="the engine was not asked")
        self._ready = time.monotonic()
        self.notes: list[str] = []

    def steps(self) -> Steps[tuple[Search, ...]]:
        """Searches."""
        yield from self._ask_for_the_program()
        self._ready = time.monotonic()
        points = probes(self._domain, constants_of(self._program), self._rng)
        yield from self._look_at(points)
        for _ in range(_ROUNDS):
            if not self._open() or self._spent():
                break
            yield from self._look_at(self._directed(points))
        return self._found()

    def _open(self) -> list[Kind]:
        """The kinds without a verdict."""
        return [kind for kind in self._kinds if kind not in self._witnesses]

    def _spent(self) -> bool:
        return time.monotonic() - self._ready > self._budget

    def _ask_for_the_program(self) -> Steps[None]:
        domain = self._domain
        shape = self._program.nodes[self._program.output].shape
        size = int(np.prod(shape))
        problem = Problem(
            self._program,
            domain.values(domain.start),
            self._spec.wrt,
            "float64",
            domain.dtype,
            "reverse",
            Projection(rows=np.eye(size).reshape(size, *shape)),
        )
        (found,) = yield [Ask(self._runner.engine, GradientRequest(problem))]
        if isinstance(found, Failure):
            found = GradientProgram(reason=found.message)
        self._gradient = found

    # Points that are run, and those of them that fail.

    def _look_at(self, points: Ordinals) -> Steps[None]:
        """Runs points, and encloses the truth of those that seem to fail."""
        for begin in range(0, len(points), BATCH):
            some = points[begin : begin + BATCH]
            answers = yield from self._runner.at(some)
            sizes = suspects(answers, self._estimate(some), self._format)
            for kind in self._open():
                yield from self._try(kind, some, sizes[kind])
            if self._spent():
                return

    def _estimate(self, points: Ordinals) -> Answers:
        runner, dtype = self._runner, self._domain.dtype
        if runner.batched is not None:
            estimator = Estimator(inlined(runner.batched), self._spec.wrt, dtype)
            values = runner.values(filled(points, BATCH))
            return estimator(values, BATCH).first(len(points))
        estimator = Estimator(self._exact, self._spec.wrt, dtype)
        found = [estimator(self._domain.values(point), 1) for point in points]
        return Answers(
            np.concatenate([one.value for one in found]),
            {
                name: np.concatenate([one.gradients[name] for one in found])
                for name in self._spec.wrt
            },
            np.ones(len(points), np.bool_),
        )

    def _try(self, kind: Kind, points: Ordinals, sizes: Array) -> Steps[None]:
        """Looks for a witness among suspects, the worst first."""
        chosen = np.argsort(-sizes, kind="stable")[:_TRIED]
        for index in chosen[sizes[chosen] > 0]:
            point = points[index]
            key = kind, point.tobytes()
            if key in self._tried:
                continue
            self._tried.add(key)
            for failing in (yield from self._failures(point)):
                self._keep(failing, point)
            if kind in self._witnesses or self._spent():
                return

    def _failures(self, point: Ordinals) -> Steps[list[Failing]]:
        """How the engine fails at one point, run alone."""
        answers = yield from self._runner.singly(point[None])
        if not answers.answered[0]:
            return []
        truth = PointTruth(
            self._exact, self._domain.values(point), self._spec.wrt, self._domain.dtype
        )
        return list(truth.failures(answers))

    def _keep(self, failing: Failing, point: Ordinals) -> None:
        known = self._witnesses.get(failing.kind)
        if known is not None and known.size >= failing.size:
            return
        arrays = self._domain.arrays(self._domain.numbers(point[None]))
        self._witnesses[failing.kind] = Witness(
            {name: array[0] for name, array in arrays.items()},
            failing.entry,
            failing.computed,
            failing.truth,
            failing.genuine,
            failing.size,
        )

    # Directed search.

    def _directed(self, points: Ordinals) -> Ordinals:
        """Points beside zeros, overflows and underflows of numbers on the way."""
        watched = self._watched()
        if watched is None:
            return probes(self._domain, (), self._rng)
        watch, constants = watched
        domain, runner = self._domain, self._runner

        def evaluate(places: Ordinals) -> Array:
            parts = []
            for begin in range(0, len(places), BATCH):
                some = places[begin : begin + BATCH]
                values = {**runner.values(filled(some, BATCH)), **constants}
                parts.append(watch.numbers(values)[: len(some)])
            return np.concatenate(parts)

        lines: Lines = lines_through(domain, points, self._rng)
        return directed(domain, lines, watch, evaluate, self._rng)

    def _watched(self) -> tuple[Watch, Mapping[str, Array]] | None:
        """What is watched: the engine's own value and gradient, or the formula alone."""
        for program, constants in (
            (self._gradient.program, self._gradient.constants),
            (self._exact, {}),
        ):
            if program is None:
                continue
            try:
                whole = batched(program, BATCH)
            except NotBatched:
                continue
            spread = {
                name: np.broadcast_to(array, (BATCH, *np.shape(array)))
                for name, array in constants.items()
                if np.asarray(array).dtype.kind == "f"
            }
            return Watch(whole, self._format), {**constants, **spread}
        return None

    def _found(self) -> tuple[Search, ...]:
        seconds = time.monotonic() - self._ready
        return tuple(
            Search(
                self._runner.engine,
                self._domain.dtype,
                kind,
                "found" if kind in self._witnesses else "undecided",
                self._witnesses.get(kind),
                runs=self._runner.runs,
                seconds=seconds,
            )
            for kind in self._kinds
        )
