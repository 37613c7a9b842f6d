"""Points that are easier to read than a witness: numbers with few digits, and the file's own
values.

`simpler` returns points of the domain that may fail like the witness, and `complexity` orders them.
Only a run decides which of them fail.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

import numpy as np

from gradcheck_cli.domain.decimals import shortest
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.search.box import Domain, Ordinals, to_ordinals

_DIGITS = 4
_POWERS = 12  # powers of ten above and below 1
_MOST_ELEMENTS = 8  # elements that are simplified one by one


def simpler(domain: Domain, point: Ordinals) -> Ordinals:
    """Points (N, D) that are simpler than a witness (D,), each once, the simplest first."""
    numbers = domain.numbers(point)
    found = [_rounded(numbers, digits) for digits in range(1, _DIGITS + 1)]
    if domain.size == 1:
        found.append(_short_decimals()[:, None])
    else:
        found.append(_one_element_changed(domain, numbers))
    points = domain.inside(to_ordinals(np.concatenate(found), domain.format))
    points = np.unique(points, axis=0)
    worth = np.array([complexity(domain, one) for one in points])
    order = np.argsort(worth, kind="stable")
    return points[order[worth[order] < complexity(domain, point)]]


def binary_digits(points: Ordinals) -> Array:
    """How many binary digits each of some points (N, D) has, all elements together. Exact zeros of
    differences, as poles are, are at points of few digits more often than beside them."""
    lowest = np.abs(points & -points).astype(np.float64)
    empty = np.where(points == 0, 63.0, np.log2(lowest))
    return np.asarray(np.sum(63.0 - empty, axis=1))


def complexity(domain: Domain, point: Ordinals) -> float:
    """How much there is to read: the digits of elements that differ from the file's, and their
    distance from 1. Less is simpler."""
    total = 0.0
    numbers = domain.numbers(point)
    for number in numbers[point != domain.start].tolist():
        total += _to_read(number, domain.dtype)
    return total


@lru_cache(1 << 14)  # short numbers recur
def _to_read(number: float, dtype: str) -> float:
    if number == 0:
        return 1.0
    written = Decimal(shortest(number, dtype)).normalize()
    count = len(written.as_tuple().digits)
    return 1 + count + 0.1 * abs(written.adjusted()) + 0.01 * (number < 0)


def _rounded(numbers: np.ndarray, digits: int) -> np.ndarray:
    """All elements with so many digits: rounded to nearest, down and up."""
    size = np.where(numbers == 0, 1.0, np.abs(numbers))
    unit = 10.0 ** (np.floor(np.log10(size)) - (digits - 1))
    steps = numbers / unit
    found = np.stack([np.round(steps), np.floor(steps), np.ceil(steps)]) * unit
    return np.nan_to_num(found)


def _short_decimals() -> np.ndarray:
    """Numbers of one or two digits, around 1."""
    tens = 10.0 ** np.arange(-_POWERS, _POWERS + 1)
    sizes = np.concatenate([np.outer(np.arange(1, 10), tens).ravel(), np.arange(10.0, 100.0)])
    return np.concatenate([[0.0], sizes, -sizes])


def _one_element_changed(domain: Domain, numbers: np.ndarray) -> np.ndarray:
    """Points with one element changed: to the file's own value, to 0 and 1, to fewer digits."""
    starts = domain.numbers(domain.start)
    found = [starts]
    for index in range(min(domain.size, _MOST_ELEMENTS)):
        near = [_rounded(numbers[index : index + 1], digits)[0, 0] for digits in (1, 2)]
        for number in (starts[index], 0.0, 1.0, *near):
            point = numbers.copy()
            point[index] = number
            found.append(point)
    return np.stack(found)
