"""The region of a kind over one searched number: intervals with edges exact to the last number.

`region` takes a proof, asks which intervals are proven and which points fail on the engine, and
returns a `domain.search.Region`. An interval is left out if the proof covers it. Otherwise it is
split until it is a single number, which is run, or until both ends and the middle fail. Such an
interval is called solid if it is short and every number was run, or if the proof shows that all of
it fails.
"""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.search import Box, Kind, Region
from gradcheck_cli.search.box import Domain, Ordinals, from_ordinals
from gradcheck_cli.search.budget import Budget
from gradcheck_cli.search.goals import midway
from gradcheck_cli.search.proof import Proof, bit_of
from gradcheck_cli.search.regions.joint_regions import Asking, absent, fails
from gradcheck_cli.search.regions.reasons import Reasons

_MOST_INTERVALS = 4096  # that are split at once
_TOGETHER = 150  # intervals that are split further at once: three points of each are run
_MOST_QUIET = 256  # intervals in which nothing fails, although they are not proven
_MOST_SHOWN = 64
_MOST_WORDS = 4
_CHUNK = 1 << 14  # numbers that are run together
_RUN = 1 << 17  # numbers of short intervals that are run one by one: 50 ms
_ALL_RUN = 1 << 22  # the same if nothing is left open then

_Intervals = tuple[Ordinals, Ordinals]
_NONE: _Intervals = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def region(
    kind: Kind, domain: Domain, proof: Proof, reasons: Reasons, budget: Budget
) -> Asking[Region]:
    """Find the region of a kind that was found, over a domain of one number."""
    low, high = domain.low.copy(), domain.high.copy()
    solid: list[_Intervals] = []
    quiet: list[_Intervals] = []
    while len(low):
        left = ~(yield from absent(low[:, None], high[:, None]))
        low, high = low[left], high[left]
        if not len(low):
            break
        if len(low) > _MOST_INTERVALS or budget.is_spent:
            quiet.append((low, high))
            break
        places = np.concatenate([low, midway(low, high), high])
        failing = (yield from fails(places[:, None])).reshape(3, -1)
        whole, none = failing.all(axis=0), ~failing.any(axis=0)
        solid.append((low[whole], high[whole]))
        if np.sum(none) > _MOST_QUIET:  # no proof covers it, and nothing fails
            quiet.append((low[none], high[none]))
            whole = whole | none
        mixed = ~whole & (low < high)
        low, high = _split(low[mixed], high[mixed])
    silent = _merged(quiet)
    most = _ALL_RUN if _count(silent) <= _ALL_RUN else _RUN
    failing_there, unseen = yield from _run_through(silent, most, budget)
    solid.append(failing_there)
    outer, open_ = (_joined(_merged(part), _MOST_SHOWN) for part in (solid, [unseen]))
    sure, others = _proven_failing(kind, proof, _joined(_merged(solid), _MOST_SHOWN), budget)
    run, _ = yield from _run_through(others, _RUN, budget)
    inner = _joined(_merged([sure, run]), _MOST_SHOWN, exact=True)
    width = np.diff(domain.numbers(np.stack([domain.low, domain.high])), axis=0).item()
    first, last = _merged([outer, open_])
    length = float(np.sum(domain.numbers(last) - domain.numbers(first)))
    fraction = min(length / width, 1.0) if width else 1.0
    words = [_words(domain, outer, reasons)]
    if len(open_[0]):
        words.append(f"not decided in the time available: {_places(domain, open_)}")
    shown = (_boxes(domain, part) for part in (outer, inner, open_))
    boxes, solid_boxes, open_boxes = shown
    return Region(boxes, solid_boxes, "; ".join(filter(None, words)), fraction, open_boxes)


def _split(low: Ordinals, high: Ordinals) -> _Intervals:
    """Halve each interval repeatedly, as long as all intervals fit one batch."""
    while True:
        several = low < high
        first, last = low[several], high[several]
        cut = midway(first, last)
        low = np.concatenate([low[~several], first, cut + 1])
        high = np.concatenate([high[~several], cut, last])
        if not several.any() or len(low) > _TOGETHER:
            return low, high


def _run_through(
    intervals: _Intervals, most: int, budget: Budget
) -> Asking[tuple[_Intervals, _Intervals]]:
    """The failing numbers of the intervals that were run number by number, and the intervals that
    were not run. The shortest intervals are run, with at most `most` numbers together."""
    order = np.argsort(intervals[1] - intervals[0], kind="stable")
    low, high = (part[order] for part in intervals)
    fit = int(np.searchsorted(np.cumsum(high - low + 1), most, side="right"))
    found, unseen = [_NONE], [(low[fit:], high[fit:])]
    left = list(zip(low[:fit].tolist(), high[:fit].tolist(), strict=True))[::-1]
    while left and not budget.is_spent:
        taken: list[Array] = []
        room = _CHUNK
        while left and room > 0:
            first, last = left.pop()
            end = min(last, first + room - 1)
            taken.append(np.arange(first, end + 1, dtype=np.int64))
            room -= len(taken[-1])
            if end < last:
                left.append((end + 1, last))
        numbers = np.concatenate(taken)
        failing = numbers[(yield from fails(numbers[:, None]))]
        found.append((failing, failing))
    rest = np.array(left, np.int64).reshape(-1, 2)
    return _merged(found), _merged([*unseen, (rest[:, 0], rest[:, 1])])


def _count(intervals: _Intervals) -> int:
    """The count of numbers in the intervals."""
    low, high = intervals
    return int(np.sum(high - low + 1))


def _proven_failing(
    kind: Kind, proof: Proof, intervals: _Intervals, budget: Budget
) -> tuple[_Intervals, _Intervals]:
    """The parts of intervals in which the proof shows that every number fails, and the other parts.
    Long intervals are split as long as their middle is shown to fail, within the budget."""

    def failing(low: Ordinals, high: Ordinals) -> Array:
        return np.asarray((proof.failing(low[:, None], high[:, None]) & bit_of(kind)) != 0)

    shown, others = [_NONE], [_NONE]
    low, high = intervals
    while len(low):
        whole, cut = failing(low, high), midway(low, high)
        split = ~whole & (high - low >= _CHUNK) & failing(cut, cut) & (not budget.is_spent)
        rest = ~whole & ~split
        shown.append((low[whole], high[whole]))
        others.append((low[rest], high[rest]))
        low, cut, high = low[split], cut[split], high[split]
        low, high = np.concatenate([low, cut + 1]), np.concatenate([cut, high])
    return _merged(shown), _merged(others)


def _joined(intervals: _Intervals, most: int, exact: bool = False) -> _Intervals:
    """At most `most` intervals: those with the smallest gaps between them are joined; with `exact`,
    only the longest are kept."""
    low, high = intervals
    if len(low) <= most:
        return intervals
    if exact:
        longest = np.sort(np.argsort(low - high)[:most])
        return low[longest], high[longest]
    gaps = low[1:].astype(np.float64) - high[:-1]
    kept = np.sort(np.argsort(-gaps)[: most - 1])
    return low[np.concatenate([[0], kept + 1])], high[np.concatenate([kept, [len(low) - 1]])]


def _merged(parts: list[_Intervals]) -> _Intervals:
    """The intervals in order; intervals that touch become one."""
    low = np.concatenate([first for first, _ in [_NONE, *parts]])
    high = np.concatenate([last for _, last in [_NONE, *parts]])
    order = np.argsort(low)
    low, high = low[order], high[order]
    if not len(low):
        return low, high
    starts = np.flatnonzero(np.concatenate([[True], low[1:] > high[:-1] + 1]))
    ends = np.concatenate([starts[1:] - 1, [len(low) - 1]])
    return low[starts], high[ends]


def _boxes(domain: Domain, intervals: _Intervals) -> tuple[Box, ...]:
    low, high = (domain.arrays(domain.numbers(part[:, None])) for part in intervals)
    return tuple(
        {name: (low[name][i], high[name][i]) for name in low} for i in range(len(intervals[0]))
    )


def _words(domain: Domain, intervals: _Intervals, reasons: Reasons) -> str:
    """The intervals in words, each after the reason at its edge: "exp(x) overflows: x >=
    88.722839"."""
    by_reason: dict[str, list[str]] = {}
    for low, high, count in _spans(intervals):
        found = interval_words(domain, 0, low, high)
        by_reason.setdefault(_reason(domain, low, high, reasons), []).append(
            found if count == 1 else f"{found} in {count} intervals"
        )
    return "; ".join(
        f"{reason}: {' or '.join(found)}" if reason else " or ".join(found)
        for reason, found in by_reason.items()
    )


def _places(domain: Domain, intervals: _Intervals) -> str:
    """The intervals in words, without reasons."""
    spans = _spans(intervals)
    return " or ".join(interval_words(domain, 0, low, high) for low, high, _ in spans)


def _spans(intervals: _Intervals) -> list[tuple[int, int, int]]:
    """The first and the last number of each part that is put into words, and its number of
    intervals. The widest gaps separate the parts."""
    low, high = intervals
    if not len(low):
        return []
    gaps = low[1:] - high[:-1]
    cuts = np.sort(np.argsort(-gaps, kind="stable")[: _MOST_WORDS - 1])
    first = np.concatenate([[0], cuts + 1])
    last = np.concatenate([cuts, [len(low) - 1]])
    return [(int(low[i]), int(high[j]), int(j - i + 1)) for i, j in zip(first, last, strict=True)]


def _reason(domain: Domain, low: int, high: int, reasons: Reasons) -> str:
    """What changes from the last number outside to the first one inside."""
    if low > domain.low[0]:
        edge = low - 1, low
    elif high < domain.high[0]:
        edge = high + 1, high
    else:
        return ""
    right, failing = (domain.values(np.array([place], np.int64)) for place in edge)
    return reasons.what_changes(right, failing)


def interval_words(domain: Domain, place: int, low: int, high: int) -> str:
    """An interval in words, "x >= 88.722839", with so many digits that the numbers of the dtype
    differ. `place` is the element's place in the domain."""
    name, fmt = domain.names[place], domain.format
    digits = int(np.ceil(fmt.bits * 0.30103)) + 1
    first, last = (f"{number:.{digits}g}" for number in from_ordinals([low, high], fmt))
    if low == high:
        return f"{name} = {first}"
    if low == domain.low[place] and high == domain.high[place]:
        return f"every {name}"
    if high == domain.high[place]:
        return f"{name} >= {first}"
    if low == domain.low[place]:
        return f"{name} <= {last}"
    return f"{first} <= {name} <= {last}"
