"""Probes: points where formulas break, whatever the formula.

From the domain and the constants of the formula, `probes` makes rows of ordinals: ends, zeros,
powers of ten, the limits of the format and elementary functions of them, ties, and draws that are
uniform in the numbers or in the ordinals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from gradcheck_cli.domain.dtypes import FloatFormat
from gradcheck_cli.domain.program import CONSTANT, Program
from gradcheck_cli.search.box import Domain, Ordinals, from_ordinals, to_ordinals

_DRAWS = 400  # draws of each kind; a formula of twenty operations takes 20 ms for all
_AROUND = 2  # numbers on each side of a special one


def constants_of(program: Program) -> list[float]:
    """The numbers that are written in a formula."""
    return [
        float(node.value)
        for node in program.nodes
        if node.op == CONSTANT and node.value is not None and not isinstance(node.value, bool)
    ]


def special_numbers(fmt: FloatFormat, constants: Iterable[float]) -> list[float]:
    """Numbers beside which operations overflow, underflow, cancel or have poles."""
    u, most, least = fmt.unit_roundoff, fmt.largest, fmt.smallest_normal
    logs = [math.log(most), -math.log(least), -math.log(fmt.smallest_subnormal), -math.log(u)]
    found = [0.0, 1.0, 2.0, 0.5, u, math.sqrt(u), most, least, fmt.smallest_subnormal]
    found += [math.sqrt(most), math.sqrt(least), most / 2, 1 / least if 1 / least < most else most]
    found += [most ** (1 / 3), most**0.25, least ** (1 / 3), *logs, *(one / 2 for one in logs)]
    found += [k * math.pi / 4 for k in range(1, 9)] + [
        math.e,
        1 / 3,
        1.5,
        *map(float, range(3, 17)),
    ]
    found += [10.0**k for k in range(-8, 9, 2)]
    for c in constants:
        found += [c, math.sqrt(abs(c)), 1 / c if c else 0.0, c * c, c / 2, 2 * c]
    inside = [x for x in found if math.isfinite(x) and abs(x) <= most]
    return sorted({*inside, *(-x for x in inside)})


def probes(domain: Domain, constants: Iterable[float], rng: np.random.Generator) -> Ordinals:
    """Points of the domain (N, D), the file's own first."""
    menu = to_ordinals(special_numbers(domain.format, constants), domain.format)
    around = np.arange(-_AROUND, _AROUND + 1)
    menu = np.unique((menu[:, None] + around).ravel())
    ends = np.stack([domain.low, domain.high])
    parts = [domain.start[None], ends, domain.inside(_by_count(domain, rng, _DRAWS))]
    parts.append(_by_volume(domain, rng, _DRAWS))
    if domain.size == 1:
        parts.append(menu[:, None])
    else:
        parts += _mixed(domain, menu, rng)
    points = np.concatenate(parts)
    _, first = np.unique(points, axis=0, return_index=True)
    points = points[np.sort(first)]
    return points[domain.contains(points)]


def _by_count(domain: Domain, rng: np.random.Generator, count: int) -> Ordinals:
    """Points drawn uniformly from the numbers of the domain."""
    return rng.integers(domain.low, domain.high + 1, size=(count, domain.size), dtype=np.int64)


def _by_volume(domain: Domain, rng: np.random.Generator, count: int) -> Ordinals:
    """Points drawn uniformly by length in the domain."""
    low, high = from_ordinals(np.stack([domain.low, domain.high]), domain.format)
    drawn = rng.random((count, domain.size))
    return domain.inside(to_ordinals(low * (1 - drawn) + high * drawn, domain.format))


def _mixed(domain: Domain, menu: Ordinals, rng: np.random.Generator) -> list[Ordinals]:
    """Points of several elements: corners, special numbers in any mix, ties, and one that stands
    out."""
    size, count = domain.size, _DRAWS
    corners = np.where(rng.random((64, size)) < 0.5, domain.low, domain.high)
    mixed = domain.inside(rng.choice(menu, size=(2 * count, size)))
    equal = domain.inside(np.repeat(np.concatenate([menu, mixed[:64, 0]])[:, None], size, axis=1))
    drawn = _by_volume(domain, rng, count)
    one = rng.integers(size, size=count)
    other = (one + rng.integers(1, size, size=count)) % size
    rows = np.arange(count)
    paired, single, apart = drawn.copy(), drawn.copy(), equal[rng.integers(len(equal), size=count)]
    paired[rows, one] = paired[rows, other]
    single[rows, one] = domain.inside(rng.choice(menu, size=(count, size)))[rows, one]
    apart[rows, one] = mixed[rows, one]
    near = paired.copy()
    near[rows, one] += rng.integers(-4, 5, size=count)
    opposite = drawn.copy()
    opposite[rows, one] = -opposite[rows, other]
    return [corners, mixed, equal, paired, single, apart, near, opposite]
