"""Screen candidates for a fix in the reference engine, against the truth of the original.

A candidate must be right in value and gradient at the failing point, at more than half of the fresh
points near it, and at all points where the original is right.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeVar

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat, quiet
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.fixes import (
    Candidate,
    FixRequest,
    Screened,
    Target,
    Trial,
    TrialPoint,
    meets_target,
    ulps_off,
)
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.thresholds import FEW_ULPS, FIRST_ORDER_SLACK, Seconds, Spread
from gradcheck_cli.domain.truth import Cost, PointKind, Truth, TruthBlock
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.engines.reference.engine import ReferenceEngine
from gradcheck_cli.truth.certified.enclose import certify, certify_output
from gradcheck_cli.truth.conditioning.rounding_cost import conditioning, cost_of_output, recorded
from gradcheck_cli.truth.gradients import float64_gradients
from gradcheck_cli.truth.plain import PlainFunction, inlined

_Item = TypeVar("_Item")

POINTS = 8  # fresh points at which a candidate is tried
DRAWN = 48  # points that are drawn for them; at some the original has no certified truth
LEAST = 4  # half of the points must have a truth, or nothing was tried
TRIED = 12  # candidates that are tried at all points
KEPT = 5  # candidates of these that go to the engines

# Processor time: ten times what most searches take, and far below the time limit of a check, which
# would lose its verdict.
SECONDS: Seconds = 10.0

DOMAIN_POINTS = 64
# How far an entry moves, as a part of its own binade: half of the digits, or a quarter of a binade.
# Beyond that it changes its magnitude, by up to FAR_BINADES either way.
BROAD: Spread = 0.25
FAR_BINADES = 6
SIDES = 4  # one in so many far entries changes its sign


@quiet
def screen(request: FixRequest) -> Screened:
    """Return the best candidates, with the points and their targets there."""
    engine = _reference()
    requested = replace(
        request.truth,
        program=rounded(request.truth.program, request.dtype),
        projections={mode: request.truth.projections[mode] for mode in request.modes},
    )
    failing = failing_point(requested, request.known)
    clock, widened = _Clock(), Widened(requested)
    alive: list[Trial] = []
    for candidate in clock.in_time(request.candidates):
        worst = worst_error(widened, candidate.program, failing, engine)
        if worst is not None:
            alive.append(Trial(candidate, (), worst))
    if not alive:
        return Screened((), late=clock.is_late)
    points = [failing, *_fresh(requested)]
    if len(points) <= LEAST:
        return Screened((), untried=True)
    excused = [
        worst_error(widened, request.truth.program, point, engine) is None for point in points
    ]
    trials: list[Trial] = []
    for trial in clock.in_time(sorted(alive, key=_merit)[:TRIED]):
        tried = _try_candidate(widened, trial.candidate, points, excused, engine)
        if tried is not None:
            trials.append(tried)
    chosen = tuple(_complete(widened, trial) for trial in _best_by_rules(trials))
    return Screened(chosen, late=clock.is_late and not chosen)


class _Clock:
    """The time limit of a search for a fix. Half of the time is kept for candidates that are right
    at the failing point."""

    def __init__(self) -> None:
        self._start = time.process_time()
        self._share = 0.5
        self.is_late = False

    def in_time(self, candidates: Iterable[_Item]) -> Iterator[_Item]:
        """Yield the candidates until the time is over."""
        until = self._start + self._share * SECONDS
        for candidate in candidates:
            if time.process_time() > until:
                self.is_late = True
                break
            yield candidate
        self._share = 1.0


def _best_by_rules(trials: Sequence[Trial]) -> list[Trial]:
    """Return the best trials, with the best of each set of rules first: a kernel that a framework
    computes badly spoils all candidates with it."""
    by_rules: dict[tuple[str, ...], Trial] = {}
    for trial in sorted(trials, key=_merit):
        by_rules.setdefault(trial.candidate.rules, trial)
    first = {id(trial) for trial in by_rules.values()}
    order = sorted(trials, key=lambda trial: (id(trial) not in first, *_merit(trial)))
    return sorted(order[:KEPT], key=_merit)


def _merit(trial: Trial) -> tuple[bool, int, int]:
    """Sort rewrites before custom gradients, then by the error in powers of ten, then by length. An
    error that conditioning explains is no merit of one candidate over another."""
    size = int(np.ceil(np.log10(min(max(trial.worst / FEW_ULPS, 1.0), 1e18))))
    return trial.candidate.custom, size, len(trial.candidate.after)


def _try_candidate(
    widened: Widened,
    candidate: Candidate,
    points: Sequence[TrialPoint],
    excused: Sequence[bool],
    engine: Engine,
) -> Trial | None:
    """Try the candidate at every point. None if it is wrong at a point where it must be right, or
    at more than half of the points nearby."""
    worst, near, wrong = 0.0, 0, 0
    kept: list[TrialPoint] = []
    for point, excuse in zip(points, excused, strict=True):
        if not _holds(widened.request, candidate, point.values):
            continue
        kept.append(point)
        off = worst_error(widened, candidate.program, point, engine)
        if off is None and not excuse:
            return None
        near += point.near
        wrong += point.near and off is None
        worst = max(worst, off or 0.0)
    enough = len(kept) > LEAST and 2 * wrong <= near
    return Trial(candidate, tuple(kept), worst) if enough else None


def _holds(request: TruthRequest, candidate: Candidate, values: Mapping[str, Array]) -> bool:
    """Check whether the condition under which the candidate equals the original is true here."""
    if candidate.holds is None:
        return True
    plain = PlainFunction(inlined(rounded(candidate.holds, request.dtype)), request.dtype)
    return bool(np.all(plain.nodes(values)[candidate.holds.output]))


def _complete(widened: Widened, trial: Trial) -> Trial:
    """The trial with the cost of rounding the candidate added to each point."""
    points = tuple(widened(trial.candidate.program, point) for point in trial.points)
    return _with_condition(widened.request, replace(trial, points=points))


def failing_point(request: TruthRequest, known: Truth) -> TrialPoint:
    """The point of the request, with its truth in the modes of the request."""
    output = np.asarray(known.output, np.float64)
    error = np.where(np.isfinite(output), known.output_error, np.inf)
    middle = np.where(np.isfinite(output), output, np.nan)
    return TrialPoint(
        request.values,
        _target_interval(middle, np.where(np.isfinite(output), error, np.inf)),
        {
            (mode, name): _of_block(known.blocks[mode, name])
            for mode in request.projections
            for name in request.wrt
        },
        near=True,
    )


def _target_interval(value: Array, error: Array) -> Target:
    lower = np.where(np.isnan(value), -np.inf, value - error)
    return Target(value, lower, np.where(np.isnan(value), np.inf, value + error))


def _of_block(block: TruthBlock) -> Target:
    """The target of a block: the truth and its error bar; the interval of one-sided derivatives at
    a kink; anything finite where there is no derivative."""
    smooth = _target_interval(block.value, block.error)
    kink = block.kind == PointKind.KINK
    free = ~kink & (block.kind != PointKind.SMOOTH)
    value = np.where(kink | free, np.nan, smooth.value)
    below, above = block.lower - block.error, block.upper + block.error  # used at kinks
    lower = np.where(free, -np.inf, np.where(kink, below, smooth.lower))
    upper = np.where(free, np.inf, np.where(kink, above, smooth.upper))
    return Target(value, lower, upper)


def _fresh(request: TruthRequest) -> list[TrialPoint]:
    """Points with a certified truth. If there are too few while the other inputs stay fixed, these
    move, too: p * log(p / q) has no truth at p = 0, whatever q is."""
    points = _certified_points(request, request.wrt)
    if len(points) < LEAST:
        moving = [
            name for name, value in request.values.items() if np.asarray(value).dtype.kind == "f"
        ]
        points += _certified_points(request, moving)
    return points[:POINTS]


def _certified_points(request: TruthRequest, moving: Sequence[str]) -> list[TrialPoint]:
    fmt = FORMATS[request.dtype]
    drawn = fresh_points(request.values, moving, request.bounds, fmt, request.seed)
    points: list[TrialPoint] = []
    for _, (values, near) in zip(range(DRAWN), drawn, strict=False):
        there = replace(request, values=values)
        certificates = certify(there)
        output = certify_output(there)
        if not np.all(output.sure) or not all(np.all(c.sure) for c in certificates.values()):
            continue
        gradients = {key: _target_interval(c.value, c.radius) for key, c in certificates.items()}
        points.append(
            TrialPoint(values, _target_interval(output.value, output.radius), gradients, near)
        )
        if len(points) == POINTS:
            break
    return points


@cache
def _reference() -> ReferenceEngine:
    engine = ReferenceEngine()
    engine.load()
    return engine


class Widened:
    """Targets widened by the cost of rounding a candidate there, each computed once."""

    def __init__(self, request: TruthRequest) -> None:
        self.request = request
        self._known: dict[tuple[int, int], tuple[Program, TrialPoint, TrialPoint]] = {}

    def __call__(self, program: Program, point: TrialPoint) -> TrialPoint:
        key = id(program), id(point)
        if key not in self._known:  # the cache keeps both alive, so their ids stay theirs
            self._known[key] = program, point, self._computed(program, point)
        return self._known[key][2]

    def _computed(self, program: Program, point: TrialPoint) -> TrialPoint:
        request = self.request
        fmt = FORMATS[request.dtype]
        there = replace(request, program=rounded(inlined(program), fmt.name), values=point.values)
        run = recorded(there)
        costs = conditioning(there, float64_gradients(there, _reference()).true, run=run)
        gradients = {}
        for key, target in point.gradients.items():
            gradients[key] = _wider(target, _allowed_cost(costs[key]), fmt)
        granted = _allowed_cost(cost_of_output(there, point.output.value, run))
        return replace(point, output=_wider(point.output, granted, fmt), gradients=gradients)


def _allowed_cost(cost: Cost) -> Array:
    return FIRST_ORDER_SLACK * np.fmax(cost.known_condition, cost.allowance)


def _wider(target: Target, by: Array, fmt: FloatFormat) -> Target:
    size = np.where(np.isnan(target.value), np.maximum(abs(target.lower), abs(target.upper)), 0.0)
    size = np.where(np.isfinite(size), size, 0.0)
    slack = by + FEW_ULPS * fmt.ulp(np.where(np.isnan(target.value), size, target.value))
    return Target(target.value, target.lower - slack, target.upper + slack)


def _evaluated(
    request: TruthRequest, program: Program, values: Mapping[str, Array], mode: Mode, engine: Engine
) -> tuple[Array, Mapping[str, Array]] | None:
    """The output and gradients in the judged dtype; None if the engine fails or a gradient is
    missing."""
    answer = engine.evaluate(request.problem(mode, program=program, values=values))
    if answer.failure is not None or answer.output is None:
        return None
    gradients = {
        name: gradient.values
        for name, gradient in answer.gradients.items()
        if gradient.values is not None
    }
    if len(gradients) < len(request.wrt):
        return None
    return answer.output, gradients


def worst_error(
    widened: Widened, program: Program, point: TrialPoint, engine: Engine
) -> float | None:
    """The largest error of a candidate in ulps; None if it is wrong. The cost of rounding is
    computed only if a few ulps do not explain the error."""
    request = widened.request
    fmt = FORMATS[request.dtype]
    evaluations = {}
    for mode in request.projections:
        evaluations[mode] = _evaluated(request, program, point.values, mode, engine)
        if evaluations[mode] is None:
            return None
    if not _all_met(evaluations, _narrowest(point, fmt), fmt) and not _all_met(
        evaluations, widened(program, point), fmt
    ):
        return None
    return max(
        (
            ulps_off(target, answer[1][name], fmt)
            for (mode, name), target in point.gradients.items()
            if (answer := evaluations[mode]) is not None
        ),
        default=0.0,
    )


def _narrowest(point: TrialPoint, fmt: FloatFormat) -> TrialPoint:
    none = np.zeros(())
    return replace(
        point,
        output=_wider(point.output, none, fmt),
        gradients={key: _wider(target, none, fmt) for key, target in point.gradients.items()},
    )


def _all_met(
    found: Mapping[Mode, tuple[Array, Mapping[str, Array]] | None],
    point: TrialPoint,
    fmt: FloatFormat,
) -> bool:
    for (mode, name), target in point.gradients.items():
        answer = found[mode]
        if answer is None or not np.all(meets_target(point.output, answer[0], fmt)):
            return False
        if not np.all(meets_target(target, answer[1][name], fmt)):
            return False
    return True


def _with_condition(request: TruthRequest, trial: Trial) -> Trial:
    """The trial, without the condition of its rewrite if the original has no value wherever the
    condition is false."""
    if trial.candidate.holds is None:
        return trial
    fmt = FORMATS[request.dtype]
    plain = PlainFunction(inlined(request.program), request.dtype)
    drawn = fresh_points(request.values, request.wrt, request.bounds, fmt, request.seed + 1)
    for _, (values, _near) in zip(range(DOMAIN_POINTS), drawn, strict=False):
        if not _holds(request, trial.candidate, values) and np.all(np.isfinite(plain(values))):
            return trial
    return replace(trial, candidate=replace(trial.candidate, condition=""))


def fresh_points(
    values: Mapping[str, Array],
    moving: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
    fmt: FloatFormat,
    seed: int,
) -> Iterator[tuple[dict[str, Array], bool]]:
    """Yield points without end where every floating entry of `moving` has moved, and whether they
    are near.

    In turn, entries move within half of the digits, within a quarter of a binade, and across
    magnitudes. A zero stays zero in half of the near points, so that the behaviour there is not
    lost, and becomes a small number in others. An infinity becomes one of the largest numbers.
    """
    rng = generator(seed, 17)
    scales = (2.0 ** -(fmt.bits // 2), BROAD, None)
    turn = 0
    while True:
        scale = scales[turn % len(scales)]
        made = dict(values)
        for name in moving:
            x = np.asarray(values[name])
            if x.dtype.kind == "f":
                moved = _perturbed_input(x, scale, turn % 2 == 0, fmt, rng)
                low, high = bounds.get(name, (-np.inf, np.inf))
                made[name] = np.clip(fmt.round(moved), low, high)
        turn += 1
        yield made, scale is not None


def _perturbed_input(
    x: Array, scale: float | None, keep_zeros: bool, fmt: FloatFormat, rng: np.random.Generator
) -> Array:
    shift = rng.uniform(-1.0, 1.0, x.shape)
    x = np.where(np.isinf(x), np.copysign(fmt.largest * 2.0**-FAR_BINADES, x), x)
    if scale is None:
        moved = x * 2.0 ** (FAR_BINADES * shift)
        moved = np.where(rng.integers(0, SIDES, x.shape) == 0, -moved, moved)
    else:
        moved = x + scale * shift * np.abs(x)
    # a zero has no binade of its own: it becomes as small as the digits of 1, or as the scale
    size = fmt.unit_roundoff if scale is None else scale
    small = np.zeros_like(x) if keep_zeros and scale is not None else size * shift
    return np.asarray(np.where(x == 0, small, moved))
