"""Cells of a domain, and searches with known regions for the pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.domain.search import Box, ErrorLine, Region, Search, SearchResult, Witness
from gradcheck_cli.report.search_map import axes_of, cells, searches_at, thin

PLACE = ("torch", "float32")


def box(**sides: tuple[float, float]) -> Box:
    return {name: (np.array(low), np.array(high)) for name, (low, high) in sides.items()}


def found(
    boxes: Any, inner: Any = (), kind: Any = "gradient-nonfinite", entry: str = "x", **at: float
) -> Search:
    witness = Witness({name: np.array(value) for name, value in at.items()}, entry, 0.0, 1.0)
    region = Region(None if boxes is None else tuple(boxes), tuple(inner))
    return Search(*PLACE, kind, "found", witness, region)


def result(*searches: Search, **domain: tuple[float, float]) -> SearchResult:
    line = ErrorLine(*PLACE, "x", (0.0, 4.0, 8.0), (0.0, 1e-3, 1.0), 8.0)
    return SearchResult("odd", "odd.yaml", searches, domain=domain, lines=(line,))


def one_number() -> SearchResult:
    """Fails from 6 on, and at the one number 1.25."""
    return result(
        found([box(x=(1.25, 1.25)), box(x=(6, 8))], [box(x=(6, 8))], x=8.0),
        Search(*PLACE, "value-inaccurate", "undecided", region=Region((), open=(box(x=(2, 3)),))),
        Search(*PLACE, "undefined", "proven-absent"),
        x=(0, 8),
    )


def two_numbers() -> SearchResult:
    return result(found([box(x=(0, 4), y=(2, 4))], x=0.5, y=3.0), x=(0, 8), y=(0, 4))


def test_cells_say_what_is_known_of_them() -> None:
    seen = one_number()
    (axis,) = axes_of(seen, "float32")
    row = cells(searches_at(seen, PLACE), [axis], [8]).tolist()
    assert row == ["free", "may fail", "open", "free", "free", "free", "fails", "fails"]
    assert [(low, high) for _, low, high in thin(seen.searches, axis, 2)] == [(1.25, 1.25), (6, 8)]
    assert [(low, high) for _, low, high in thin(seen.searches, axis, 8)] == [(1.25, 1.25)]
    grid = cells(two_numbers().searches, axes_of(two_numbers(), "float32"), [2, 2]).tolist()
    assert grid == [["free", "may fail"], ["free", "free"]]


def test_without_a_region_all_is_open_but_the_witness() -> None:
    seen = result(found(None, x=7.5), x=(0, 8))
    assert cells(seen.searches, axes_of(seen, "float32"), [2]).tolist() == ["open", "may fail"]


def test_many_octaves_are_counted_in_numbers() -> None:
    (axis,) = axes_of(result(found(None, x=1.0), x=(2.0**-10, 2.0**10)), "float32")
    assert (axis.ordinals, axis.place(1.0), axis.place(2.0)) == (True, 0.5, 0.55)
    (below,) = axes_of(result(found(None, x=-1.0), x=(-(2.0**10), -(2.0**-10))), "float32")
    assert (below.ordinals, below.place(-2.0)) == (True, 0.45)
    (across,) = axes_of(result(found(None, x=1.0), x=(-100, 100)), "float32")
    assert not across.ordinals
