"""The regions of several kinds at once: their questions are answered in one call.

A region is a generator (`Asking`) that yields boxes (`absent`) and points (`fails`), and is sent
the answer for its kind. Kinds of one formula often fail at the same places, and a call for many
boxes costs little more than one for a few.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from gradcheck_cli.checks.protocol import Steps
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.search import Kind
from gradcheck_cli.search.box import Ordinals
from gradcheck_cli.search.budget import Budget
from gradcheck_cli.search.proof import Proof, bit_of

T = TypeVar("T")
_FEW = 1 << 13  # rows up to which equal ones are found and answered once


@dataclass(frozen=True, slots=True)
class Boxes:
    """Asks in which boxes (N, D) a kind is proven absent."""

    low: Ordinals
    high: Ordinals


@dataclass(frozen=True, slots=True)
class Points:
    """Asks at which points (N, D) the engine fails in a kind."""

    points: Ordinals


Asking = Generator["Boxes | Points", Array, T]
"""Yields a question, is sent an answer (N,), and ends with a T."""


def absent(low: Ordinals, high: Ordinals) -> Asking[Array]:
    """Mark the boxes in which the kind is proven absent."""
    return (yield Boxes(low, high))


def fails(points: Ordinals) -> Asking[Array]:
    """Mark the points that fail, by the estimate of the right answers."""
    return (yield Points(points))


def run_together(
    regions: Mapping[Kind, Asking[T]],
    proof: Proof,
    run: Callable[[Ordinals, Sequence[Kind]], Steps[Mapping[Kind, Array]]],
    budget: Budget,
) -> Steps[dict[Kind, T]]:
    """Run the regions of several kinds and return their results. `run` says which of the points
    fail in which kinds. When the budget is spent, nothing more is proven."""
    found: dict[Kind, T] = {}
    waiting: dict[Kind, Boxes | Points] = {}

    def go_on(kind: Kind, answer: Array | None) -> None:
        waiting.pop(kind, None)
        try:
            waiting[kind] = regions[kind].send(answer)  # type: ignore[arg-type]
        except StopIteration as end:
            found[kind] = end.value

    for kind in regions:
        go_on(kind, None)
    while waiting:
        boxes = {kind: one for kind, one in waiting.items() if isinstance(one, Boxes)}
        points = {kind: one.points for kind, one in waiting.items() if isinstance(one, Points)}
        if boxes:  # boxes first, until all regions wait for points
            corners, places = _unique_rows(
                np.stack([b.low, b.high], axis=1) for b in boxes.values()
            )
            proven = proof.proven(corners[:, 0], corners[:, 1], list(boxes), budget)
            answers = {kind: (proven & bit_of(kind)) != 0 for kind in boxes}
        else:
            corners, places = _unique_rows(points.values())
            answers = dict((yield from run(corners, list(points))))
        for kind, mine in zip(boxes or points, places, strict=True):
            go_on(kind, answers[kind][mine])
    return found


def _unique_rows(parts: Iterable[Array]) -> tuple[Array, list[Array]]:
    """The rows of several arrays, and for each array the places of its rows among them. Few rows
    are compared, and equal ones become one."""
    arrays = list(parts)
    rows = np.concatenate(arrays)
    places = np.arange(len(rows))
    if len(arrays) > 1 and len(rows) <= _FEW:
        rows, places = np.unique(rows, axis=0, return_inverse=True)
        places = places.ravel()
    ends = np.cumsum([len(one) for one in arrays])
    return rows, np.split(places, ends[:-1])
