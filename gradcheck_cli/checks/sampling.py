"""Examine a layer at points drawn from the domain of its inputs, to find errors that the given
point does not show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from gradcheck_cli.checks.one_triangle import are_symmetric
from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import FIRST_ORDER
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem
from gradcheck_cli.domain.report import Check, Finding
from gradcheck_cli.domain.spec import Input
from gradcheck_cli.domain.thresholds import Spread

POINTS = 8  # one in each eighth of every entry's domain
POINTS_OF_LARGE = 2  # the thousands of entries of one point cover the domain already
LARGE = 1024  # entries
# If the high end is larger than this times the low end, draws are uniform in the logarithm.
DECADES: Spread = 1e3
# Places the missing end of a half-open domain, in distances from the point to its known end.
BEYOND: Spread = 4.0
SHOWN = 4  # numbers of a point that a message shows


def over_the_domain(
    problem: LayerProblem, answer: LayerAnswer, examined: Callable[[LayerProblem], LayerAnswer]
) -> LayerAnswer:
    """Return the answer with the errors at points drawn from the domain, if an input has a finite
    bound. The draws are seeded. An error that the given point has shown is not reported again."""
    inputs = problem.inputs
    if answer.failure is not None or not any(_varies(entry) for entry in inputs.values()):
        return answer
    known = {(f.code, f.mode, f.input) for f in answer.findings}
    found: list[Finding] = []
    notes: dict[str, None] = {}
    forward = backward = 0
    for words, moved in _drawn_problems(problem):
        there = examined(moved)
        if there.failure is not None:
            notes[f"not checked {words}: {there.failure.message}"] = None
            continue
        forward += sum(check.forward for check in there.checks[:1])
        backward += sum(check.backward for check in there.checks[:1])
        for finding in there.findings:
            key = finding.code, finding.mode, finding.input
            if finding.severity == "error" and key not in known:
                known.add(key)
                found.append(replace(finding, message=f"{finding.message}; {words}"))
                about = f" of `{finding.input}`" if finding.input else ""
                notes[f"{problem.dtype}: {finding.code}{about} is {words}"] = None
    return replace(
        answer,
        checks=tuple(_with_more(check, found, forward, backward) for check in answer.checks),
        findings=(*answer.findings, *found),
        notes=(*answer.notes, *notes),
    )


def _with_more(check: Check, found: list[Finding], forward: int, backward: int) -> Check:
    bad = any((f.mode, f.input) in ((check.mode, check.input), (check.mode, None)) for f in found)
    return replace(
        check,
        status="failed" if bad else check.status,
        max_ulps=None if bad else check.max_ulps,
        forward=check.forward + forward,
        backward=check.backward + backward,
    )


def _varies(entry: Input) -> bool:
    return entry.value.dtype.kind == "f" and bool(np.isfinite(entry.low) or np.isfinite(entry.high))


def _drawn_problems(problem: LayerProblem) -> Iterator[tuple[str, LayerProblem]]:
    """The problem at each drawn point, with words that describe the point."""
    inputs = problem.inputs
    varying = {name: entry for name, entry in inputs.items() if _varies(entry)}
    size = sum(entry.value.size for entry in varying.values())
    count = POINTS if size <= LARGE else POINTS_OF_LARGE
    first = tuple(mode for mode in FIRST_ORDER if mode in problem.modes)[:1]
    rng = generator(problem.seed, 23)
    values = {name: _spread(entry, count, rng) for name, entry in varying.items()}
    for number in range(count):
        moved = {
            name: replace(
                entry, value=_rounded_in_domain(entry, values[name][number], problem.dtype)
            )
            for name, entry in varying.items()
        }
        points = list(problem.spec.points)
        points[problem.point] = {**inputs, **moved}
        spec = replace(problem.spec, points=tuple(points))
        shown = ", ".join(f"{name} = {_value_words(entry.value)}" for name, entry in moved.items())
        words = f"at a point drawn from the domain (seed {problem.seed}): {shown}"
        yield words, replace(problem, spec=spec, modes=first)


def _spread(entry: Input, count: int, rng: np.random.Generator) -> Array:
    """Draw (count, *shape): each entry has one number in each part of its domain, in random order
    (a Latin hypercube; McKay, Beckman and Conover 1979). Symmetric matrices stay symmetric."""
    shape = (count, *entry.value.shape)
    part = rng.permuted(
        np.broadcast_to(np.arange(count).reshape(-1, *[1] * entry.value.ndim), shape), axis=0
    )
    place = (part + rng.uniform(0.01, 0.99, shape)) / count
    if are_symmetric(entry.value):  # the layer may accept symmetric matrices alone
        below = np.tril(place, -1)
        place = np.tril(place) + np.swapaxes(below, -1, -2)
    low, high = _ends(entry)
    if low > 0 and high > DECADES * low:
        return np.asarray(low * (high / low) ** place)
    return np.asarray(low + (high - low) * place)


def _ends(entry: Input) -> tuple[float, float]:
    low, high = entry.low, entry.high
    if np.isfinite(low) and np.isfinite(high):
        return low, high
    end = low if np.isfinite(low) else high
    away = BEYOND * max(float(np.max(np.abs(entry.value - end), initial=0.0)), 1.0)
    return (low, low + away) if np.isfinite(low) else (high - away, high)


def _rounded_in_domain(entry: Input, drawn: Array, dtype: str) -> Array:
    """Round the draws to the dtype; where this leaves the domain, keep the given value."""
    rounded = FORMATS[dtype].round(drawn)
    return np.where((rounded >= entry.low) & (rounded <= entry.high), rounded, entry.value)


def _value_words(value: Array) -> str:
    flat = value.reshape(-1)
    words = ", ".join(f"{number:.9g}" for number in flat[:SHOWN])
    if value.ndim == 0:
        return words
    return f"[{words}{', ...' if flat.size > SHOWN else ''}]"
