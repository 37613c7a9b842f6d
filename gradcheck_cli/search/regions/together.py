"""The regions of several kinds at once: what they ask for is enclosed, or run, in one call.

A region is a generator (`Asking`) that yields boxes (`absent`) and points (`fails`), and is sent
what is known of its kind there. Kinds of one formula often fail at the same places, and a call for
many boxes costs little more than one for a few.
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
from gradcheck_cli.search.proof import Proof, bit_of

T = TypeVar("T")
_FEW = 1 << 13  # rows that are compared, so that equal ones are looked at once


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
    """In which boxes the kind is proven absent."""
    return (yield Boxes(low, high))


def fails(points: Ordinals) -> Asking[Array]:
    """Which points fail, by the estimate of what is right."""
    return (yield Points(points))


def together(
    regions: Mapping[Kind, Asking[T]],
    proof: Proof,
    run: Callable[[Ordinals, Sequence[Kind]], Steps[Mapping[Kind, Array]]],
) -> Steps[dict[Kind, T]]:
    """What the regions of several kinds end with. `run` says of points which of them fail
    in the kinds."""
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
        if boxes:  # until all wait for points
            corners, places = _once(np.stack([b.low, b.high], axis=1) for b in boxes.values())
            proven = proof.proven(corners[:, 0], corners[:, 1], list(boxes))
            answers = {kind: (proven & bit_of(kind)) != 0 for kind in boxes}
        else:
            corners, places = _once(points.values())
            answers = dict((yield from run(corners, list(points))))
        for kind, mine in zip(boxes or points, places, strict=True):
            go_on(kind, answers[kind][mine])
    return found


def _once(parts: Iterable[Array]) -> tuple[Array, list[Array]]:
    """The rows of several arrays, and by array the places of its own among them. Of a few, those
    that are equal are one."""
    arrays = list(parts)
    rows = np.concatenate(arrays)
    places = np.arange(len(rows))
    if len(arrays) > 1 and len(rows) <= _FEW:
        rows, places = np.unique(rows, axis=0, return_inverse=True)
        places = places.ravel()
    ends = np.cumsum([len(one) for one in arrays])
    return rows, np.split(places, ends[:-1])
