"""Goals: intermediate numbers that become 0, overflow or underflow, and points of the domain beside
the places where they do.

`Watch` takes a batched program and returns the state of each of its numbers at many points.
`directed` takes lines through the domain, bisects each on ordinals to where a number changes its
state or comes closest to 0, and returns the points around. `edges` does so for many lines, and a
number of the program alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.program import CONSTANT, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.search.box import Domain, Ordinals, from_ordinals, to_ordinals
from gradcheck_cli.search.budget import Budget
from gradcheck_cli.truth.plain import PlainFunction

_MOST_WATCHED = 256  # numbers of the program
_PLACES = 24  # points of a line where states are compared
_LINES = 40  # lines of one call
_CHANGES = 6  # changes of each watched number that are followed
_AROUND = 8  # numbers on each side of a change
_EDGES = 1024  # lines on which results fall below the smallest normal number
_EDGE_PLACES = 12
_SUBNORMAL = 2  # the state of a subnormal number, or of its negative


class Watch:
    """The state of every floating number of a batched program: its sign, and whether it is 0, below
    the smallest number, subnormal, normal or beyond the largest. nan is a state, too."""

    def __init__(self, program: Program, fmt: FloatFormat, outputs: bool = False) -> None:
        """With `outputs`, only the results of the program are watched."""
        self._function = PlainFunction(program, fmt.name)
        self._format = fmt
        self._nodes = [
            index
            for index, node in enumerate(program.nodes)
            if node.kind == "float" and node.op != CONSTANT and node.args
            if not outputs or index in program.outputs
        ]

    def numbers(self, values: Mapping[str, Array]) -> Array:
        """The watched numbers (N, K) in float64."""
        nodes = self._function.nodes(values)
        count = max((len(np.atleast_1d(array)) for array in values.values()), default=1)
        columns = [
            np.reshape(nodes[index], (count, -1))
            for index in self._nodes
            if np.ndim(nodes[index]) and len(nodes[index]) == count
        ]
        if not columns:
            return np.zeros((count, 0))
        return np.concatenate(columns, axis=1)[:, :_MOST_WATCHED].astype(np.float64)

    def states(self, numbers: Array) -> Array:
        """The states of the numbers, a small integer each."""
        fmt = self._format
        limits = [fmt.smallest_subnormal / 2, fmt.smallest_normal, fmt.largest]
        size = np.abs(numbers)
        state = np.searchsorted(limits, size, side="right") + 1
        state = np.where(numbers == 0, 0, np.where(numbers < 0, -state, state))
        return np.where(np.isnan(numbers), 9, state).astype(np.int8)


@dataclass(frozen=True, slots=True)
class Lines:
    """L lines. Line i runs through `base[i]`, and the elements in `mask[i]` move on it, with equal
    values if there are several; both arrays have shape (L, D)."""

    base: Ordinals
    mask: Array

    def at(self, line: Array, place: Ordinals, domain: Domain) -> Ordinals:
        """The points of these lines at which the moving elements have the ordinal `place`."""
        points = np.where(self.mask[line], place[:, None], self.base[line])
        return domain.inside(points)

    def ends(self, domain: Domain) -> tuple[Ordinals, Ordinals]:
        """The least and the largest ordinal of the moving elements on each line."""
        low = np.min(np.where(self.mask, domain.low, np.iinfo(np.int64).max), axis=1)
        high = np.max(np.where(self.mask, domain.high, np.iinfo(np.int64).min), axis=1)
        return low, high


Evaluate = Callable[[Ordinals], Array]
"""Returns the watched numbers (N, K) of points (N, D)."""


def lines_through(
    domain: Domain, points: Ordinals, rng: np.random.Generator, count: int = _LINES
) -> Lines:
    """Lines through points of the domain, along one element, two equal elements, or all."""
    size = domain.size
    if size == 1:
        return Lines(points[:1], np.ones((1, 1), np.bool_))
    chosen = rng.integers(len(points), size=count)
    mask = np.zeros((count, size), np.bool_)
    mask[np.arange(count), rng.permutation(count) % size] = True
    several = np.arange(count) % 8
    pairs = np.flatnonzero(several == 6)
    mask[pairs, rng.integers(size, size=len(pairs))] = True
    mask[several == 7] = True
    return Lines(points[chosen], mask)


def directed(
    domain: Domain,
    lines: Lines,
    watch: Watch,
    evaluate: Evaluate,
    rng: np.random.Generator,
    budget: Budget,
) -> Ordinals:
    """Points (N, D) beside changes of state and beside the smallest sizes, along the lines; less
    close to them if the budget is spent."""
    low, high = lines.ends(domain)
    places = _places(low, high, domain.format, _PLACES if domain.size > 1 else 40 * _PLACES, rng)
    count, each = places.shape
    line = np.repeat(np.arange(count), each)
    numbers = evaluate(lines.at(line, places.ravel(), domain)).reshape(count, each, -1)
    states = watch.states(numbers)
    found = [
        _neighbours(
            domain, lines, *_changes(domain, lines, places, states, watch, evaluate, budget)
        ),
        _neighbours(domain, lines, *_smallest(domain, lines, places, numbers, evaluate, budget)),
    ]
    return np.unique(np.concatenate(found), axis=0)


def edges(
    domain: Domain,
    points: Ordinals,
    watch: Watch,
    evaluate: Evaluate,
    rng: np.random.Generator,
    budget: Budget,
) -> Ordinals:
    """Points (N, D) where watched numbers fall below the smallest normal one, along lines through
    points of the domain. An engine that flushes may lose one there, by an error of its last digit,
    that counts: at one such place of many."""
    lines = lines_through(domain, points, rng, _EDGES)
    places = _places(*lines.ends(domain), domain.format, _EDGE_PLACES, rng)
    count, each = places.shape
    line = np.repeat(np.arange(count), each)
    numbers = evaluate(lines.at(line, places.ravel(), domain)).reshape(count, each, -1)
    states = np.abs(watch.states(numbers)) > _SUBNORMAL
    line, at, column = np.nonzero(states[:, 1:] != states[:, :-1])
    some = rng.permutation(len(line))[: 2 * _EDGES]
    line, at, column = line[some], at[some], column[some]
    before, after = places[line, at], places[line, at + 1]
    state, rows = states[line, at, column], np.arange(len(line))
    while np.any(after > before + 1) and not budget.is_spent:
        middle = midway(before, after)
        found = watch.states(evaluate(lines.at(line, middle, domain))[rows, column])
        same = (np.abs(found) > _SUBNORMAL) == state
        before, after = np.where(same, middle, before), np.where(same, after, middle)
    around = np.arange(-1, 3)
    return lines.at(np.repeat(line, len(around)), (before[:, None] + around).ravel(), domain)


def _places(
    low: Ordinals, high: Ordinals, fmt: FloatFormat, count: int, rng: np.random.Generator
) -> Ordinals:
    """Ordinals (L, count) along each line, in order: its ends, zero, and draws that are uniform in
    the ordinals or in the numbers."""
    drawn = rng.integers(low[:, None], high[:, None] + 1, size=(len(low), count // 2))
    first, last = from_ordinals(low, fmt)[:, None], from_ordinals(high, fmt)[:, None]
    share = rng.random((len(low), count - count // 2 - 3))
    spread = to_ordinals(first * (1 - share) + last * share, fmt)
    zero = np.clip(0, low, high)[:, None]
    places = np.concatenate([low[:, None], high[:, None], zero, drawn, spread], axis=1)
    return np.sort(np.clip(places, low[:, None], high[:, None]), axis=1)


def _changes(
    domain: Domain,
    lines: Lines,
    places: Ordinals,
    states: Array,
    watch: Watch,
    evaluate: Evaluate,
    budget: Budget,
) -> tuple[Array, Ordinals]:
    """The line and the ordinal of the last point before a watched number changes its state."""
    line, at, column = np.nonzero(states[:, 1:] != states[:, :-1])
    line, at, column = _sample_places(line, at, column)
    before, after = places[line, at], places[line, at + 1]
    state = states[line, at, column]
    rows = np.arange(len(line))
    while np.any(after > before + 1) and not budget.is_spent:
        middle = midway(before, after)
        found = watch.states(evaluate(lines.at(line, middle, domain))[rows, column])
        same = found == state
        before, after = np.where(same, middle, before), np.where(same, after, middle)
    return line, before


def _smallest(
    domain: Domain,
    lines: Lines,
    places: Ordinals,
    numbers: Array,
    evaluate: Evaluate,
    budget: Budget,
) -> tuple[Array, Ordinals]:
    """The line and the ordinal where a watched number is smaller than at its neighbours."""
    size = np.abs(numbers)
    inner = (size[:, 1:-1] < size[:, :-2]) & (size[:, 1:-1] < size[:, 2:])
    line, at, column = _sample_places(*np.nonzero(inner))
    first, last = places[line, at], places[line, at + 2]
    rows = np.arange(len(line))
    while np.any(last > first + 2) and not budget.is_spent:
        third = np.maximum(last // 3 - first // 3, 1)
        left, right = first + third, np.maximum(last - third, first + third)
        sizes = [
            np.abs(evaluate(lines.at(line, place, domain))[rows, column]) for place in (left, right)
        ]
        lower = sizes[0] <= sizes[1]
        shrinks = last > first + 2
        last = np.where(shrinks & lower, right, last)
        first = np.where(shrinks & ~lower, left, first)
    return line, first


def midway(low: Ordinals, high: Ordinals) -> Ordinals:
    """The middle of two ordinals, whose sum or difference may not fit an integer."""
    return (low >> 1) + (high >> 1) + (low & high & 1)


def _sample_places(line: Array, at: Array, column: Array) -> tuple[Array, Array, Array]:
    """A few places of each watched number, spread over all of them."""
    chosen: list[int] = []
    for one in np.unique(column):
        mine = np.flatnonzero(column == one)
        step = max(1, len(mine) // _CHANGES)
        chosen += mine[::step][:_CHANGES].tolist()
    return line[chosen], at[chosen], column[chosen]


def _neighbours(domain: Domain, lines: Lines, line: Array, place: Ordinals) -> Ordinals:
    around = np.arange(-_AROUND, _AROUND + 2)
    places = (place[:, None] + around).ravel()
    return lines.at(np.repeat(line, len(around)), places, domain)
