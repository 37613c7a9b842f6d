"""The region of a kind over several searched numbers: boxes that contain every failing point.

`region` splits the domain and leaves out the boxes in which the proof shows that the kind is
absent. The reason is found at the last point before the witness that does not fail.
"""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.search import Region
from gradcheck_cli.search.box import Domain, Ordinals
from gradcheck_cli.search.budget import Budget
from gradcheck_cli.search.goals import midway
from gradcheck_cli.search.proof import halves
from gradcheck_cli.search.regions.intervals import interval_words
from gradcheck_cli.search.regions.joint_regions import Asking, absent, fails
from gradcheck_cli.search.regions.reasons import Reasons
from gradcheck_cli.search.runs import BATCH

_MOST_BOXES = 256  # in a report
_MOST_ENCLOSED = 1 << 12  # boxes of one kind that are enclosed, then they are split no further
_ROUNDS = 7  # of a line of 1024 points each: 2^64 numbers lie between its ends
_MOST_WORDS = 4
_CUTS = 7  # of a margin in one call: eight parts


def region(
    domain: Domain, reasons: Reasons, witness: Ordinals, points: Ordinals, budget: Budget
) -> Asking[Region]:
    """Find the region of a kind that fails at `witness` (D,). `points` (N, D) are some points of
    the domain, including some that do not fail."""
    low, high = yield from _undecided(domain, budget)
    fails_there, failing = yield from _failures(
        domain, low, high, np.concatenate([points, witness[None]])
    )
    reason = yield from _reason(domain, reasons, witness, points, failing)
    whole = domain.numbers(np.stack([domain.low, domain.high]))
    first, last = domain.numbers(low), domain.numbers(high)
    moving = whole[1] > whole[0]
    beyond = domain.numbers(np.minimum(high + 1, domain.high))  # where the next box begins
    shares = (beyond - first)[:, moving] / (whole[1] - whole[0])[moving]
    fraction = min(float(np.sum(np.prod(shares, axis=1))), 1.0)
    lows, highs = domain.arrays(first), domain.arrays(last)
    boxes, open_ = (
        tuple({n: (lows[n][i], highs[n][i]) for n in lows} for i in np.flatnonzero(mine))
        for mine in (fails_there, ~fails_there)
    )
    words = " and ".join(_hull(domain, low, high)[:_MOST_WORDS])
    predicate = f"{reason}: {words}" if reason and words else reason or words
    return Region(boxes, (), predicate, fraction, open_)


def covering(domain: Domain, low: Ordinals, high: Ordinals) -> tuple[Ordinals, Ordinals]:
    """Boxes (N, D) that contain all of these, at most as many as a report lists. Boxes that are
    near to each other are merged."""
    if len(low) <= _MOST_BOXES:
        return low, high
    groups = [np.arange(len(low))]
    while len(groups) < _MOST_BOXES:
        largest = max(range(len(groups)), key=lambda place: len(groups[place]))
        group = groups.pop(largest)
        first = low[group].astype(np.float64)
        whole = np.maximum(domain.high.astype(np.float64) - domain.low, 1.0)
        axis = int(np.argmax((first.max(axis=0) - first.min(axis=0)) / whole))
        order = group[np.argsort(first[:, axis], kind="stable")]
        groups += np.array_split(order, 2)
    lows = [np.min(low[group], axis=0) for group in groups]
    highs = [np.max(high[group], axis=0) for group in groups]
    return np.array(lows), np.array(highs)


def _failures(
    domain: Domain, low: Ordinals, high: Ordinals, points: Ordinals
) -> Asking[tuple[Array, Ordinals]]:
    """A mask of the boxes in which a point fails, and these points (N, D): of the known points, of
    the corners and the middle of each box, and of some points on its diagonal."""
    found = np.zeros(len(low), np.bool_)
    shares = np.array([0.5, 0.0, 1.0, 0.25, 0.75, 0.125, 0.875])
    inside = low + np.rint(shares[:, None, None] * (high - low).astype(np.float64)).astype(np.int64)
    inside = np.clip(inside, low, high).reshape(-1, domain.size)
    some = np.concatenate([inside, points[-BATCH:]])
    failing = some[(yield from fails(some))]
    for point in failing:
        found |= np.all((low <= point) & (point <= high), axis=1)
    return found, failing


def _undecided(domain: Domain, budget: Budget) -> Asking[tuple[Ordinals, Ordinals]]:
    """The boxes in which the kind is not proven absent, halved as long as they are few."""
    low, high = (end[None] for end in (yield from _shaved(domain, budget)))
    enclosed = 0
    while enclosed < _MOST_ENCLOSED and not budget.is_spent and np.any(low < high):
        several = np.any(low < high, axis=1)
        parts = halves(domain, low[several], high[several])
        lows = np.concatenate([low[~several], parts[0]])
        highs = np.concatenate([high[~several], parts[1]])
        enclosed += len(lows)
        left = ~(yield from absent(lows, highs))
        if np.sum(left) > _MOST_BOXES:
            break
        low, high = lows[left], highs[left]
    return low, high


def _shaved(domain: Domain, budget: Budget) -> Asking[tuple[Ordinals, Ordinals]]:
    """The domain without the widest margins, below and above in each element, that are proven."""
    size = domain.size
    below, above = domain.low - 1, domain.high + 1  # the last and the first number of a margin
    not_below, not_above = domain.high.copy(), domain.low.copy()
    elements = np.arange(size)
    while not budget.is_spent and np.any((not_below > below + 1) | (above > not_above + 1)):
        lasts, firsts = _cuts(below, not_below), _cuts(above, not_above)
        low, high = (
            np.tile(domain.low, (2, _CUTS, size, 1)),
            np.tile(domain.high, (2, _CUTS, size, 1)),
        )
        high[0][:, elements, elements] = np.maximum(lasts, domain.low)
        low[1][:, elements, elements] = np.minimum(firsts, domain.high)
        proven = yield from absent(low.reshape(-1, size), high.reshape(-1, size))
        proven = proven.reshape(2, _CUTS, size)
        below, not_below = _narrowed(below, lasts, not_below, proven[0])
        above, not_above = _narrowed(above, firsts, not_above, proven[1])
    return below + 1, above - 1


def _cuts(near: Ordinals, far: Ordinals) -> Ordinals:
    """Places (_CUTS, D) between two points, in order from the first."""
    places = np.stack([near, far])
    while len(places) < _CUTS + 2:
        between = midway(places[:-1], places[1:])
        places = np.insert(places, np.arange(1, len(places)), between, axis=0)
    return places[1:-1]


def _narrowed(
    margin: Ordinals, cuts: Ordinals, beyond: Ordinals, proven: Array
) -> tuple[Ordinals, Ordinals]:
    """The furthest end of a margin that is proven, and the place behind it."""
    places = np.concatenate([margin[None], cuts, beyond[None]])
    count = np.where(proven, np.arange(1, _CUTS + 1)[:, None], 0).max(axis=0)
    elements = np.arange(len(margin))
    return places[count, elements], places[count + 1, elements]


def _reason(
    domain: Domain, reasons: Reasons, witness: Ordinals, points: Ordinals, every: Ordinals
) -> Asking[str]:
    """What changes towards the witness, after the last point that does not fail; if possible, what
    is also so at the outermost of `every`, the points that are known to fail."""
    some = points[:BATCH]
    failing = yield from fails(some)
    if failing.all():
        return ""
    right = some[~failing]
    away = np.sum(np.abs(right.astype(np.float64) - witness), axis=1)
    begin, end = right[np.argmin(away)], witness
    for _ in range(_ROUNDS):
        line = _points_between(begin, end)
        failing = yield from fails(line)
        if not failing.any():  # only the witness fails
            begin = line[-1]
            break
        place = int(np.argmax(failing))
        begin, end = (line[place - 1] if place else begin), line[place]
    outermost = [*np.argmin(every, axis=0), *np.argmax(every, axis=0)] if len(every) else []
    others = [domain.values(every[place]) for place in dict.fromkeys(outermost)]
    return reasons.what_changes(domain.values(begin), domain.values(end), others)


def _points_between(begin: Ordinals, end: Ordinals) -> Ordinals:
    """Points of the line, in order, without its ends if they are far apart."""
    share = np.arange(1, BATCH)[:, None] / BATCH
    moved = np.rint(share * (end.astype(np.float64) - begin)).astype(np.int64)
    return np.asarray(begin + moved)


def _hull(domain: Domain, low: Ordinals, high: Ordinals) -> list[str]:
    """In words, the ends of all boxes together, for each element that does not span its whole
    domain."""
    first: Array = np.min(low, axis=0, initial=np.iinfo(np.int64).max)
    last: Array = np.max(high, axis=0, initial=np.iinfo(np.int64).min)
    return [
        interval_words(domain, place, first[place], last[place])
        for place in range(domain.size)
        if first[place] > domain.low[place] or last[place] < domain.high[place]
    ]
