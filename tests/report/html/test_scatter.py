"""Computed against truth: what is right lies on the diagonal."""

from __future__ import annotations

import re

import numpy as np

from gradcheck_cli.domain.report import Comparison
from gradcheck_cli.report.html.scatter import scatter


def drawn(truth: list[float], computed: list[float]) -> str | None:
    right, found = (np.array([numbers]) for numbers in (truth, computed))
    ulps = np.where(right == found, 0.0, 1e6)
    return scatter("x", Comparison((), (len(truth),), found, right, ulps), "float32")


def places(svg: str, mark: str) -> list[tuple[float, float]]:
    pattern = rf'<circle class="{mark}" cx="(\S+)" cy="(\S+)"'
    return [(float(x), float(y)) for x, y in re.findall(pattern, svg)]


def test_right_entries_lie_on_the_diagonal_whatever_their_size() -> None:
    numbers = [-1e30, -1.0, 0.0, 1e-20, 3.0, 1e300]
    svg = drawn(numbers, numbers)
    assert svg is not None
    left, bottom, right, top = map(
        float, re.search(r'diagonal" d="M(\S+) (\S+)L(\S+) (\S+)"', svg).groups()
    )
    found = places(svg, "right")
    assert len(found) == 6
    for x, y in found:
        assert abs((x - left) / (right - left) - (bottom - y) / (bottom - top)) < 1e-3


def test_a_wrong_sign_lies_across() -> None:
    svg = drawn([1.0, 2.0, 4.0], [1.0, -2.0, 4.0])
    assert svg is not None
    assert len(places(svg, "right")) == 2
    assert len(places(svg, "off")) == 1


def test_what_is_no_number_is_counted() -> None:
    svg = drawn([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, float("nan")])
    assert svg is not None
    assert "3 entries of x; 1 without a number are not drawn" in svg
    assert drawn([1.0, 2.0], [1.0, 2.0]) is None


def test_of_many_points_those_that_are_off_stay() -> None:
    truth = np.arange(1.0, 4001.0)
    computed = truth.copy()
    computed[7] = 9e9
    svg = drawn(truth.tolist(), computed.tolist())
    assert svg is not None
    assert svg.count("<circle") <= 600
    assert len(places(svg, "off")) == 1


def test_all_zeros() -> None:
    assert drawn([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]) is not None
