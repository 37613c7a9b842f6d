"""A search: probes, directed search, and witnesses that are certified and run again alone.

`Searching` takes a spec, an engine and a dtype. Its `steps` yield questions for the engine and end
with one `Search` for each kind. Every verdict begins as undecided; when time is over, the verdicts
reached so far count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from gradcheck_cli.checks.protocol import Ask, Steps
from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Failure
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.search import (
    KINDS,
    WAIT,
    ErrorLine,
    GradientProgram,
    GradientRequest,
    Kind,
    Region,
    Search,
    SearchAnswer,
    Verdict,
    Witness,
)
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.thresholds import Enough, Seconds
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.search.box import Domain, Ordinals, to_ordinals
from gradcheck_cli.search.budget import Budget
from gradcheck_cli.search.enclosures.enclosed import LIBRARY_ULPS, ROOT_ULPS, Exceeds, Rounding
from gradcheck_cli.search.enclosures.faithful import AGAIN, LOOSE, of_one_dtype, unfaithful
from gradcheck_cli.search.estimates import Answers, Estimator
from gradcheck_cli.search.goals import Evaluate, Lines, Watch, directed, edges, lines_through
from gradcheck_cli.search.kinds import relative_errors, suspects
from gradcheck_cli.search.probes import constants_of, probes
from gradcheck_cli.search.proof import Proof
from gradcheck_cli.search.regions import boxes, intervals
from gradcheck_cli.search.regions.joint_regions import Asking, run_together
from gradcheck_cli.search.regions.reasons import Reasons
from gradcheck_cli.search.roundest import binary_digits, simpler
from gradcheck_cli.search.runs import BATCH, Runner, filled
from gradcheck_cli.search.truths import Failing, PointTruth
from gradcheck_cli.truth.batching import NotBatched, batched
from gradcheck_cli.truth.plain import inlined

ASSUMPTIONS = (
    f"library functions within {LIBRARY_ULPS} ulps, roots within {ROOT_ULPS}",
    "sums in any order",
)
_TRIED = 12  # suspects of one kind whose truth is enclosed in one round: 5 ms each
_VAIN = 24  # suspects of one kind after which fewer are tried: most of them are excused
_LEAVES = 64  # most single points that are run because no bound decides them
_SPREAD = 4096  # most remaining points, all of which are run
_ALONE = 256  # of these in one question
_EVERY = 1 << 23  # most numbers that no proof covers, all of which are run: a second per million
_ROUNDS = 12  # of proof and directed search, at most
_FIRST_BOXES = 1024  # boxes of the first attempt of a proof, which decides most safe formulas
_BOXES = 2000  # boxes of the next turn; each turn doubles them
_SLICE_S: Seconds = 1.0  # for one turn
_STUCK = 3  # turns without progress after which the proof of a kind is given up
_SHRINKS: Enough = 0.9  # part to which one turn must reduce the open share
_FOR_REGIONS: Enough = 0.5  # least part of the budget for the regions of all kinds that were found
_SIMPLER_S: Seconds = 0.5  # for simpler witnesses
_LOOKED: Enough = 0.6  # part of the time by the clock at which witnesses and proofs end,
_DRAWN: Enough = 0.85  # regions end,
_SIMPLIFIED: Enough = 0.875  # and simpler witnesses end; the rest is for fixes
_SIMPLER_ROUNDS = 4
_SIMPLER_TRIED = 8  # points of a round whose truth is enclosed
_MANY = 1 << 14  # points of a batch of a region's numbers: so many start no threads
_AROUND = 2048  # points around witnesses in each turn
_OPEN_POINTS = 64  # open boxes of each kind and turn whose ends are run
_WITHIN = 256  # points inside open boxes of each kind and turn
_BY_FLUSHING: Sequence[Kind] = (
    "gradient-underflow-to-zero",
    "gradient-inaccurate",
    "value-inaccurate",
)


class Searching:
    """A search of one spec on one engine in one dtype, for these `kinds`. `budget` is in seconds
    from when the engine is ready. The points `first` (N, D) are examined before all others. If more
    than `most` kinds are found, the search stops looking. With `wait`, it ends after so many
    seconds by the clock, whenever the engine is ready."""

    def __init__(
        self,
        spec: Spec,
        engine: str,
        domain: Domain,
        kinds: Sequence[Kind],
        budget: float,
        seed: int,
        most: int = len(KINDS),
        first: Ordinals | None = None,
        wait: Seconds = np.inf,
    ) -> None:
        self._most = most
        self._first = first
        self._spec = spec
        self._domain = domain
        self._kinds = tuple(kinds)
        self._seconds = budget
        self._begun = time.monotonic()
        self._latest = self._begun + wait
        self._rng = generator(seed, len(spec.name))
        self._format = FORMATS[domain.dtype]
        self._program = rounded(spec.program, domain.dtype)
        self._exact = inlined(self._program)
        self._runner = Runner(engine, self._program, domain, spec.wrt)
        self._witnesses: dict[Kind, Witness] = {}
        self._tried: set[tuple[Kind, bytes]] = set()
        self._gradient = GradientProgram(reason="the engine was not run")
        self._proof: Proof | None = None
        self._regions: dict[Kind, Region] = {}
        self._estimators: dict[int, Estimator] = {}  # by the size of their batch
        self._leaves_run: set[bytes] = set()
        self._why = ""  # why nothing is proven
        self._stuck = dict.fromkeys(KINDS, 0)  # turns in which the proof did not advance
        self._answers = False  # whether the engine answers
        self._probed = False  # whether it answered probes; before that, no proof counts
        self._start()

    def steps(self) -> Steps[tuple[Search, ...]]:
        """Search, and find the regions where kinds fail."""
        points = yield from self.look()
        yield from self._find_regions(points)
        yield from self.simplify()
        return self.so_far().searches

    def look(self) -> Steps[Ordinals]:
        """Look for witnesses and proofs. Returns some points of the domain."""
        if self._first is not None:
            yield from self._look_at(self._first)
            if len(self._witnesses) > self._most or self._budget.is_spent:
                return self._first
        yield from self._ask_for_the_program()
        self._start()
        self._begin_proof()
        self._prove(_FIRST_BOXES)
        points = probes(self._domain, constants_of(self._program), self._rng)
        yield from self._look_at(points)  # for all kinds, even if they seem to be proven absent
        self._probed = self._answers
        yield from self._run_leaves()
        for turn in range(_ROUNDS):
            if (
                not self._kinds_to_find()
                or self._budget.is_spent
                or len(self._witnesses) > self._most
            ):
                break
            self._prove_on(_BOXES << turn)
            yield from self._run_leaves()
            yield from self._look_at(self._candidates(points))
        yield from self._run_all()
        return points

    def _start(self) -> None:
        """Start the budget now."""
        self._ready = time.monotonic()
        self._budget = Budget(self._seconds, self.until(_LOOKED))

    def until(self, part: float) -> Seconds:
        """The time by the clock that is left until this part of the longest time of a search."""
        end = min(self._ready + part * WAIT * self._seconds, self._latest)
        return end - time.monotonic()

    @property
    def start_took(self) -> Seconds:
        """How long it took by the clock until the engine was ready."""
        return self._ready - self._begun

    def _undecided_kinds(self) -> list[Kind]:
        """The kinds without a verdict."""
        return [kind for kind in self._kinds if self._verdict(kind) == "undecided"]

    def _kinds_to_find(self) -> list[Kind]:
        """The kinds that may still be found, or proven absent: the proof has more left than points
        that were run."""
        proof = self._proof
        if proof is None:
            return self._undecided_kinds()
        every = all(point.tobytes() in self._leaves_run for point in proof.leaves())
        return [kind for kind in self._undecided_kinds() if not every or proof.has_boxes(kind)]

    def _verdict(self, kind: Kind) -> Verdict:
        if kind in self._witnesses:
            return "found"
        proven = self._probed and self._proof is not None and not self._proof.is_open(kind)
        return "proven-absent" if proven else "undecided"

    # Proofs.

    def _begin_proof(self) -> None:
        """Enclose the program, or note why that is not possible."""
        program, engine = self._gradient.program, self._runner.engine
        self._why = self._gradient.reason
        if program is None:
            return
        self._why = unfaithful(program, engine)
        self._why = self._why or of_one_dtype(self._program, engine, self._domain.dtype)
        if self._why:
            return
        rounding = Rounding.of(self._format, engine in LOOSE, engine in AGAIN)
        try:
            formula = self._formula()
            self._proof = Proof(self._domain, formula, self._gradient, self._spec.wrt, rounding)
        except (Exceeds, NotBatched) as reason:
            self._why = str(reason)

    def _formula(self) -> Program:
        """The formula that says where the value and the derivatives are defined."""
        return self._exact

    def _prove_on(self, most: int) -> None:
        """Continue the proof of each kind as long as its open part shrinks, or its boxes may be too
        large for anything to be proven in them."""
        proof = self._proof
        if proof is None:
            return
        before = {kind: proof.open_share(kind) for kind in self._undecided_kinds()}
        self._prove(most)
        for kind, share in before.items():
            shrinks = proof.open_share(kind) < _SHRINKS * share
            goes_on = shrinks or not proof.needs_points(kind, self._rng)
            self._stuck[kind] = 0 if goes_on else self._stuck[kind] + 1
        proof.give_up(kind for kind, turns in self._stuck.items() if turns >= _STUCK)

    def _prove(self, most: int) -> None:
        """Work on the proof for the kinds without a verdict."""
        if self._proof is None:
            return
        self._drop_decided(self._proof)
        try:
            self._proof.advance(self._budget.part(_SLICE_S), most)
        except (Exceeds, NotBatched) as reason:  # for a box, such as a power's moving exponent
            self._proof, self._why = None, str(reason)

    def _run_leaves(self) -> Steps[None]:
        """Run the single points that no bound decides, alone and in a batch, if there are few. The
        certified truth decides them."""
        proof = self._proof
        if proof is None:
            return
        self._drop_decided(proof)
        leaves = proof.leaves()
        if not len(leaves) or len(leaves) + len(self._leaves_run) > _LEAVES:
            return
        together = yield from self._runner.at(leaves)
        for index, point in enumerate(leaves):
            key = point.tobytes()
            if key in self._leaves_run or not together.answered[index] or self._budget.is_spent:
                continue
            self._leaves_run.add(key)
            alone = yield from self._runner.singly(point[None])
            if alone.answered[0]:
                truth = self._truth(point)
                both = truth.excluded(alone) & truth.excluded(together.at(index))
                proof.settle(point, both)

    def _run_all(self) -> Steps[None]:
        """Run every number that no proof covers, if the domain is a single number and there are not
        too many. Then run all remaining points, if there are few, alone as well."""
        proof, budget = self._proof, self._budget
        if proof is None or not self._runner.together or len(self._witnesses) > self._most:
            return
        self._drop_decided(proof)
        if self._domain.size == 1:
            yield from self._look_at_boxes(proof)
        self._drop_decided(proof)
        proof.spread(_SPREAD)
        leaves = proof.leaves()
        if not 0 < len(leaves) <= _SPREAD or any(map(proof.has_boxes, self._undecided_kinds())):
            return
        together = yield from self._runner.at(leaves)
        bits = proof.right(leaves, together, budget)
        chosen = np.flatnonzero(bits)
        for begin in range(0, len(chosen), _ALONE):
            if budget.is_spent:
                return
            some = chosen[begin : begin + _ALONE]
            alone = yield from self._runner.singly(leaves[some])
            proof.settle_all(leaves[some], bits[some] & proof.right(leaves[some], alone))
        yield from self._run_leaves()

    def _look_at_boxes(self, proof: Proof) -> Steps[None]:
        """Run all numbers of the boxes that are open for a kind without a verdict."""
        for kind in self._undecided_kinds():
            low, high = (ends[:, 0] for ends in proof.open_boxes(kind))
            if kind not in self._undecided_kinds() or not 0 < np.sum(high - low + 1) <= _EVERY:
                continue
            every = np.concatenate([np.arange(a, b + 1) for a, b in zip(low, high, strict=True)])
            parts = np.array_split(every[:, None], -(-len(every) // _MANY))
            for place in self._rng.permutation(len(parts)):
                if self._budget.is_spent or kind not in self._undecided_kinds():
                    break
                points = parts[place]
                answers = yield from self._many.at(points)
                sizes = self._suspects(answers, points, [kind], self._many)
                yield from self._try(kind, points, sizes[kind])

    def _drop_decided(self, proof: Proof) -> None:
        proof.drop(kind for kind in KINDS if kind not in self._undecided_kinds())

    def _candidates(self, points: Ordinals) -> Ordinals:
        """Points that deserve a run: in boxes that no proof covers, and by directed search."""
        found = [self._points_near_events(points), self._around_witnesses()]
        proof = self._proof
        for kind in self._undecided_kinds() if proof is not None else ():
            assert proof is not None
            low, high = proof.open_boxes(kind)
            some = self._rng.permutation(len(low))[:_OPEN_POINTS]
            found += [low[some], high[some]]
            if len(low):
                within = self._rng.integers(len(low), size=_WITHIN)
                found.append(self._rng.integers(low[within], high[within], endpoint=True))
        return np.unique(np.concatenate(found), axis=0)

    def _around_witnesses(self) -> Ordinals:
        """Points around failing ones: other kinds of failure are often near."""
        domain = self._domain
        parts = [domain.start[None]]
        for witness in self._witnesses.values():
            shape = (_AROUND // len(self._witnesses), domain.size)
            steps = np.exp2(self._rng.uniform(0, domain.format.bits + 2, size=shape))
            moves = np.rint(self._rng.integers(-1, 2, size=shape) * steps)
            parts.append(domain.inside(domain.point(witness.values) + moves.astype(np.int64)))
        return np.concatenate(parts)

    def _ask_for_the_program(self) -> Steps[None]:
        """Request the engine's program at the start; elsewhere, if operations cannot be identified
        there."""
        reason = ""
        for point in self._places():
            (found,) = yield [
                Ask(self._runner.engine, GradientRequest(self._runner.full_problem(point)))
            ]
            if isinstance(found, Failure):
                found = GradientProgram(reason=found.message)
            self._gradient = found
            if found.program is not None:
                return
            reason = reason or found.reason
        self._gradient = GradientProgram(reason=reason)

    def _places(self) -> Iterator[Ordinals]:
        """Yield the start, a point near it, and any point."""
        domain = self._domain
        yield domain.start
        low, high, start = domain.numbers(np.stack([domain.low, domain.high, domain.start]))
        for part in (0.1, 1.0):
            drawn = low + self._rng.uniform(0.1, 0.9, domain.size) * (high - low)
            yield domain.inside(to_ordinals(start + part * (drawn - start), domain.format))

    # Runs of points, and failing points.

    def _look_at(self, points: Ordinals) -> Steps[None]:
        """Run points, and enclose the truth of those that seem to fail."""
        for begin in range(0, len(points), BATCH):
            some = points[begin : begin + BATCH]
            answers = yield from self._runner.at(some)
            self._answers |= bool(answers.answered.any())
            sizes = self._suspects(answers, some, self._kinds)
            for kind in self._kinds:
                witness = self._witnesses.get(kind)
                if witness is None or witness.genuine:  # no formula avoids a genuine one
                    yield from self._try(kind, some, sizes[kind])
            if self._budget.is_spent:
                return

    def _suspects(
        self,
        answers: Answers,
        points: Ordinals,
        kinds: Sequence[Kind],
        runner: Runner | None = None,
    ) -> dict[Kind, Array]:
        """How badly the points seem to fail in these kinds."""
        return suspects(answers, lambda: self._estimate(points, runner), self._format, kinds)

    def _estimate(self, points: Ordinals, runner: Runner | None = None) -> Answers:
        runner, dtype = runner or self._runner, self._domain.dtype
        if runner.batched is not None:
            if runner.count not in self._estimators:
                self._estimators[runner.count] = Estimator(
                    inlined(runner.batched), self._spec.wrt, dtype
                )
            estimator = self._estimators[runner.count]
            values = runner.values(filled(points, runner.count))
            return estimator(values, runner.count).first(len(points))
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
        """Look for a witness among suspects, the worst first; of equal ones, those of fewest
        digits."""
        vain = sum(1 for one, _ in self._tried if one == kind) >= _VAIN
        chosen = np.lexsort((binary_digits(points), -sizes))[: _TRIED // 4 if vain else _TRIED]
        for index in chosen[sizes[chosen] > 0]:
            point = points[index]
            key = kind, point.tobytes()
            if key in self._tried:
                continue
            self._tried.add(key)
            for failing in (yield from self._failures(point)):
                self._keep(failing, point)
            found = self._witnesses.get(kind)
            if (found is not None and not found.genuine) or self._budget.is_spent:
                return

    def _failures(self, point: Ordinals) -> Steps[list[Failing]]:
        """The failures of the engine at one point, run alone."""
        answers = yield from self._runner.singly(point[None])
        if not answers.answered[0]:
            return []
        return list(self._truth(point).failures(answers))

    def _truth(self, point: Ordinals) -> PointTruth:
        domain = self._domain
        return PointTruth(self._exact, domain.values(point), self._spec.wrt, domain.dtype)

    def _keep(self, failing: Failing, point: Ordinals) -> None:
        known = self._witnesses.get(failing.kind)
        if known is not None and known.size >= failing.size:
            return
        self._witnesses[failing.kind] = self._witness(failing, point)

    def _witness(self, failing: Failing, point: Ordinals) -> Witness:
        arrays = self._domain.arrays(self._domain.numbers(point[None]))
        return Witness(
            {name: array[0] for name, array in arrays.items()},
            failing.entry,
            failing.computed,
            failing.truth,
            failing.genuine,
            failing.size,
            failing.value_lost,
        )

    # Directed search.

    def _points_near_events(self, points: Ordinals) -> Ordinals:
        """Points beside zeros, overflows and underflows of intermediate numbers."""
        if self._program_to_watch is None:
            return probes(self._domain, (), self._rng)
        watch, outputs, constants = self._program_to_watch
        domain, budget = self._domain, self._budget
        lines: Lines = lines_through(domain, points, self._rng)
        evaluate = self._evaluating(watch, constants)
        found = directed(domain, lines, watch, evaluate, self._rng, budget)
        if not set(_BY_FLUSHING).intersection(self._undecided_kinds()) or not self._flushes:
            return found
        evaluate = self._evaluating(outputs, constants)
        return np.concatenate([found, edges(domain, points, outputs, evaluate, self._rng, budget)])

    @property
    def _flushes(self) -> bool:
        """Whether the engine flushes subnormal numbers."""
        return Rounding.of(self._format, self._runner.engine in LOOSE).flush

    def _evaluating(self, watch: Watch, constants: Mapping[str, Array]) -> Evaluate:
        """A function from points to the watched numbers."""
        runner = self._runner

        def evaluate(places: Ordinals) -> Array:
            parts = []
            for begin in range(0, len(places), BATCH):
                some = places[begin : begin + BATCH]
                values = {**runner.values(filled(some, BATCH)), **constants}
                parts.append(watch.numbers(values)[: len(some)])
            return np.concatenate(parts)

        return evaluate

    @cached_property
    def _program_to_watch(self) -> tuple[Watch, Watch, Mapping[str, Array]] | None:
        """The program to watch, all of its numbers and its results alone: the engine's own value
        and gradient, or the formula alone."""
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
            results = Watch(whole, self._format, outputs=True)
            return Watch(whole, self._format), results, {**constants, **spread}
        return None

    # Witnesses that are easier to read.

    def simplify(self) -> Steps[None]:
        """Replace witnesses by simpler points that fail in the same kind."""
        budget = Budget(_SIMPLER_S, self.until(_SIMPLIFIED))
        for kind, first in list(self._witnesses.items()):
            for _ in range(_SIMPLER_ROUNDS):
                known = self._witnesses[kind]
                yield from self._simpler(kind, first.genuine, budget)
                if self._witnesses[kind] is known or budget.is_spent:
                    break

    def _simpler(self, kind: Kind, genuine: bool, budget: Budget) -> Steps[None]:
        """Replace a witness by the simplest failing point near it."""
        domain = self._domain
        point = domain.point(self._witnesses[kind].values)
        points = simpler(domain, point)[:BATCH]
        if not len(points):
            return
        answers = yield from self._runner.at(points)
        failing = self._suspects(answers, points, [kind])[kind] > 0
        for one in points[failing][:_SIMPLER_TRIED]:
            for found in (yield from self._failures(one)):
                if found.kind == kind and found.genuine == genuine:
                    self._witnesses[kind] = self._witness(found, one)
                    return
            if budget.is_spent:
                return

    # Pictures.

    def error_line(self) -> Steps[ErrorLine | None]:
        """The errors along a line through a witness, on which an element moves that differs from
        the file's value."""
        found = [one for one in self._witnesses.values() if not one.genuine]
        if not found:
            return None
        domain = self._domain
        point = domain.point(max(found, key=lambda one: one.size).values)
        index = int(np.argmax(point != domain.start))
        places = np.repeat(point[None], BATCH, axis=0)
        low, high = domain.numbers(np.stack([domain.low, domain.high]))[:, index]
        places[:, index] = np.concatenate(
            [
                to_ordinals(np.linspace(low, high, BATCH // 2), domain.format),
                np.linspace(domain.low[index], domain.high[index], BATCH // 2).astype(np.int64),
            ]
        )
        places = np.unique(domain.inside(places), axis=0)
        answers = yield from self._runner.at(places)
        errors = relative_errors(answers, self._estimate(places))
        kept = answers.answered & ~np.isnan(errors)
        return ErrorLine(
            self._runner.engine,
            domain.dtype,
            domain.names[index],
            tuple(domain.numbers(places)[kept, index].tolist()),
            tuple(errors[kept].tolist()),
            float(domain.numbers(point)[index]),
        )

    # Regions.

    def _find_regions(self, points: Ordinals) -> Steps[None]:
        """Find the regions of the kinds that were found; `points` are some points of the domain."""
        proof, domain = self._proof, self._domain
        if proof is None or not self._runner.together:
            return
        seconds = max(_FOR_REGIONS * self._seconds, self._budget.left)
        budget = Budget(seconds, self.until(_DRAWN))
        reasons = Reasons(self._exact, self._gradient, self._format)
        regions: dict[Kind, Asking[Region]] = {}
        for kind in self._kinds:
            known = self._witnesses.get(kind)
            if known is not None and domain.size == 1:
                regions[kind] = intervals.region(kind, domain, proof, reasons, budget)
            elif known is not None:
                witness = domain.point(known.values)
                regions[kind] = boxes.region(domain, reasons, witness, points, budget)
        self._regions = yield from run_together(regions, proof, self._fails, budget)

    def _fails(self, points: Ordinals, kinds: Sequence[Kind]) -> Steps[dict[Kind, Array]]:
        """Mark the points that fail, by the estimate of the right answers."""
        begun = (
            "_many" in vars(self) or self.until(_DRAWN) > self.start_took
        )  # it is compiled first
        runner = self._many if len(points) > 4 * BATCH and begun else self._runner
        parts = []
        for begin in range(0, len(points), runner.count):
            some = points[begin : begin + runner.count]
            answers = yield from runner.at(some)
            parts.append(self._suspects(answers, some, kinds, runner))
        return {kind: np.concatenate([part[kind] for part in parts]) > 0 for kind in kinds}

    @cached_property
    def _many(self) -> Runner:
        """A runner on the same engine, with more points at once."""
        runner = self._runner
        return Runner(runner.engine, self._program, self._domain, self._spec.wrt, _MANY)

    def so_far(self) -> SearchAnswer:
        """The results so far."""
        seconds = time.monotonic() - self._ready
        searches = tuple(self._search(kind, seconds) for kind in self._kinds)
        if self._proof is None:
            return SearchAnswer(searches)
        return SearchAnswer(
            searches,
            open_boxes=self._proof.open_count,
            proven=1 - sum(map(self._proof.open_share, KINDS)) / len(KINDS),
        )

    def _search(self, kind: Kind, seconds: float) -> Search:
        verdict = self._verdict(kind)
        return Search(
            self._runner.engine,
            self._domain.dtype,
            kind,
            verdict,
            self._witnesses.get(kind),
            region=self._region(kind, verdict),
            assumptions=self._assumptions() if verdict == "proven-absent" else (),
            boxes=0 if self._proof is None else self._proof.boxes,
            runs=self._runner.runs + (self._many.runs if "_many" in vars(self) else 0),
            seconds=seconds,
            why=self._why if verdict == "undecided" else "",
        )

    def _assumptions(self) -> tuple[str, ...]:
        count = 0 if self._proof is None else self._proof.run
        run = f"{count} points that no bound decides were run on this engine"
        return (*ASSUMPTIONS, run) if count else ASSUMPTIONS

    def _region(self, kind: Kind, verdict: Verdict) -> Region:
        """The region of a kind; for an undecided kind, the boxes that are left."""
        if kind in self._regions:
            return self._regions[kind]
        if verdict != "undecided" or self._proof is None:
            return Region()
        low, high = boxes.covering(self._domain, *self._proof.open_boxes(kind))
        lows, highs = (self._domain.arrays(self._domain.numbers(x)) for x in (low, high))
        left = ({name: (lows[name][i], highs[name][i]) for name in lows} for i in range(len(low)))
        return Region((), open=tuple(left))
