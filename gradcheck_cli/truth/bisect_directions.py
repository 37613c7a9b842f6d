"""Confirm a float64 gradient of many entries along random directions, and bisect where this
fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gradcheck_cli.domain import draws
from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import VAGUE_BAR
from gradcheck_cli.truth.blocks import Differences
from gradcheck_cli.truth.numerics.directions import Sampled, Slope

ENTRY_LIMIT = 256  # entries that get a difference each: 14 to 84 evaluations of the program for one
LEAF = 4  # entries of a failing support that get a difference each
BUDGET = 400  # directional differences in all; the entries that are left are undecided
TOO_MANY = f"too many entries need their own difference; only {BUDGET} were taken"


@dataclass(slots=True)
class _Entries:
    """Flat positions over several inputs, by input and entry."""

    names: list[str]
    sizes: list[int]

    def split(self, flat: Array) -> dict[str, Array]:
        result: dict[str, Array] = {}
        start = 0
        for name, size in zip(self.names, self.sizes, strict=True):
            inside = flat[(flat >= start) & (flat < start + size)] - start
            if inside.size:
                result[name] = inside
            start += size
        return result


def confirm(
    gradient: Mapping[str, Array],
    differences: Mapping[str, Differences],
    along_entry: Callable[[str, int, Array], Slope],
    rounded: Sampled,
    seed: int,
    everywhere: bool = False,
) -> None:
    """Fill `differences` (rows, columns by input) so that `merge` decides every entry.

    Two directions d over a set of entries are tried, one Gaussian and one Rademacher. If <gradient,
    d> lies within the error bar of the difference along both, the differences vouch for every entry
    of the set. The bar of entry j is the smallest error that would have been found, since it shows
    along d as error * d_j. Otherwise the set is halved, down to differences of single entries.
    `everywhere`: the set is also halved if the derivative holds only on a short stretch.
    """
    entries = _Entries(list(gradient), [g.shape[1] for g in gradient.values()])
    rng = generator(seed, 3)
    pending = [np.arange(sum(entries.sizes))]
    spent = 0
    while pending and spent < BUDGET:
        support = entries.split(flat := pending.pop())
        if flat.size <= LEAF:
            for name, columns in support.items():
                for column in columns:
                    slope = along_entry(name, int(column), gradient[name][:, column])
                    differences[name].put(int(column), slope)
                    spent += 1
            continue
        spent += 2
        if not _holds(support, gradient, differences, rounded, rng, everywhere):
            half = flat.size // 2
            pending.extend([flat[:half], flat[half:]])
    for flat in pending:
        for name in entries.split(flat):
            differences[name].reason = TOO_MANY


def _entry_bars(bar: Array, direction: Array) -> Array:
    """The error of a single entry that a direction with this bar would have shown, (rows,
    columns)."""
    return np.asarray(bar[:, None] / np.abs(direction)[None])


def _holds(
    support: Mapping[str, Array],
    gradient: Mapping[str, Array],
    differences: Mapping[str, Differences],
    sampled: Sampled,
    rng: np.random.Generator,
    everywhere: bool,
) -> bool:
    bars: list[dict[str, Array]] = []
    for turn in (0, 1):
        direction: dict[str, Array] = {}
        expected: Array = np.zeros(())
        mass: Array = np.zeros(())
        for name, columns in support.items():
            value = np.asarray(sampled.values[name], dtype=np.float64)
            size = np.abs(value.reshape(-1)[columns])
            draw = draws.direction(rng, columns.size, turn)
            weights = np.zeros(value.size)
            # each entry moves in proportion to its size, so that none leaves its own scale; an
            # infinite entry does not move
            size = np.where(size > 0, size, 1.0)
            weights[columns] = draw * np.where(np.isfinite(size), size, 0.0)
            direction[name] = weights.reshape(value.shape)
            expected = expected + gradient[name] @ weights
            mass = mass + np.abs(gradient[name]) @ np.abs(weights)
        slope = sampled.along(direction, expected)
        bar = slope.estimate.error + 2.0**-44 * mass  # rounding of the dot product itself
        good = np.abs(slope.estimate.value - expected) <= bar
        if not np.all(good & (bar <= VAGUE_BAR * mass)):
            return False
        if np.any(slope.sides.kind != 0) or (everywhere and np.any(np.isfinite(slope.reach))):
            return False
        bars.append({name: _entry_bars(bar, d.reshape(-1)) for name, d in direction.items()})
    for name, columns in support.items():
        block = differences[name]
        block.vouched[:, columns] = True
        block.error[:, columns] = np.minimum(bars[0][name], bars[1][name])[:, columns]
    return True
