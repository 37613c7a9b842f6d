"""What a check along random directions was certain to find, and what it takes to find more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.checks.large.detection_power import WIDER, Promise
from gradcheck_cli.truth.numerics.probes import COTANGENTS, SQUARE

TARGET = 1e-4


def promise(bar: float, cotangents: int, directions: int) -> Promise:
    """Of a gradient of norm 1, where every product has this bar."""
    draws = SimpleNamespace(by_entry=False)
    truth: Any = SimpleNamespace(drawn=cotangents, target=TARGET, draws=draws)
    look: Any = SimpleNamespace(estimate=SimpleNamespace(error=np.full(max(cotangents, 1), bar)))
    made = Promise(truth, dict.fromkeys(range(directions), look))
    made.squares = np.full(2, SQUARE)
    return made


@pytest.mark.parametrize("bar", [1e-12, 1e-9, 3e-9, 1e-8, 1e-7])
def test_as_many_cotangents_and_directions_are_asked_for_as_keep_the_promise(bar: float) -> None:
    cotangents, directions = promise(bar, 1, 1).more(0.999)
    assert promise(bar, cotangents, directions).holds(0.999)
    fewer = [(cotangents - 1, directions), (cotangents, directions - 1)]
    for k, d in fewer:
        assert 0 in (k, d) or not promise(WIDER * bar, k, d).holds(0.999)


def test_a_cotangent_is_asked_for_before_a_direction() -> None:
    bar = next(b for b in np.geomspace(1e-12, 1e-6, 200) if not promise(b, 1, 1).holds(0.999))
    assert promise(bar, 1, 1).more(0.999) == (2, 1)


def test_no_bar_is_too_wide_to_ask() -> None:
    assert promise(1.0, 1, 1).more(0.999) == (COTANGENTS, COTANGENTS)
    assert promise(1.0, COTANGENTS, COTANGENTS).more(0.999) == (COTANGENTS, COTANGENTS + 1)


def test_more_directions_alone_are_asked_for_where_no_cotangent_is_drawn() -> None:
    assert promise(1.0, 0, 1).more(0.999) == (0, 2)


def test_directions_alone_do_not_show_what_hides_from_the_only_cotangent() -> None:
    bar = 1e-8
    assert not promise(bar, 1, 8).holds(0.999)
    assert promise(bar, 2, 2).holds(0.999)
