"""What a narrow dtype loses of a large gradient: entries of its products that are further from
those in the highest precision than rounding explains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.layer import LayerProblem, Leaf
from gradcheck_cli.engines.callables.subject import Call, Subject
from gradcheck_cli.truth.callables import MOVE, ROUNDINGS, signs
from gradcheck_cli.truth.differences import Float
from gradcheck_cli.truth.projections import Projections

FEW = 4.0  # ulps, below which a narrow gradient is not looked at again
SLACK = 4.0  # as in the judge: first order leaves out products of roundings
STIR = 0.94  # of the bits stay: a few ulps, which round everything on the way anew
NOISES = 8.0  # of these per ulp that was moved: a move of a few ulps shows rounding divided by that
KEPT = 32  # entries of one product that are judged: the ones that are off most


@dataclass
class Off:
    """Entries of one product row @ J by one leaf that are off in the dtype of the problem."""

    row: int
    leaf: Leaf
    flat: Array
    narrow: Float
    wide: Float
    cost: Float
    count: int


class Rounding:
    """Collects what is `off`, the largest error in `ulps` a leaf, and how many `backward` passes of
    the narrow layer that took."""

    def __init__(self, problem: LayerProblem, narrow: Subject, truth: Projections) -> None:
        self._problem = problem
        self._narrow = narrow
        self._truth = truth
        self._leaves = {leaf.name: leaf for leaf in truth.leaves}
        self.off: list[Off] = []
        self.ulps: dict[str, float] = dict.fromkeys(self._leaves, 0.0)
        self.backward = 0

    def compare(self, k: int, row: Float, wide: Mapping[str, Float | None]) -> None:
        """Keeps the entries of row @ J that are off in the narrow dtype, with what rounding costs
        there."""
        ran = self._narrow.run(Call(rows=row[None]))
        self.backward += 1
        fmt = FORMATS[self._problem.dtype]
        costs: dict[str, Float] | None = None
        noise: dict[str, Float] | None = None
        for name, right in wide.items():
            found = ran.gradients.get(name)
            if found is None or right is None:
                continue
            mine = found[0]
            with np.errstate(all="ignore"):
                off = np.abs(mine - right)
                # an entry of a product that cancels to nothing is measured against the others
                usual = float(np.sqrt(np.mean(np.square(right[np.isfinite(right)]))))
                felt = off / fmt.ulp(np.fmax(np.abs(right), usual))
                ulps = off / fmt.ulp(right)
            self.ulps[name] = max(
                self.ulps[name], float(np.max(felt[np.isfinite(felt)], initial=0.0))
            )
            if np.all(ulps <= FEW):
                continue
            costs = self._moved(k, row, wide, MOVE) if costs is None else costs
            cost = ROUNDINGS * costs[name]
            if np.any(~(off <= SLACK * cost + FEW * fmt.ulp(right))):
                # zero in exact arithmetic, an entry is nothing but rounding: done anew, it moves
                noise = self._moved(k, row, wide, STIR) if noise is None else noise
                cost = cost + NOISES * noise[name]
            self._keep(k, name, mine, right, ulps, cost)

    def _keep(self, k: int, name: str, mine: Float, right: Float, ulps: Float, cost: Float) -> None:
        fmt = FORMATS[self._problem.dtype]
        with np.errstate(all="ignore"):
            allowed = SLACK * cost + FEW * fmt.ulp(right)
            off = ~(np.abs(mine - right) <= allowed) & np.isfinite(right)
        places = np.flatnonzero(off)
        if not places.size:
            return
        size = np.where(np.isnan(ulps[places]), np.inf, ulps[places])
        worst = places[np.argsort(-size, kind="stable")[:KEPT]]
        leaf = self._leaves[name]
        self.off.append(Off(k, leaf, worst, mine[worst], right[worst], cost[worst], places.size))

    def _moved(
        self, k: int, row: Float, wide: Mapping[str, Float | None], bits: float
    ) -> dict[str, Float]:
        """How far row @ J moves, per half ulp of the dtype, when every number moves and keeps this
        part of its bits: of an entry by itself, and of the leaf at large, because one move of
        random signs may leave an entry where it was."""
        truth = self._truth
        rng = np.random.default_rng([self._problem.seed, 19, k])
        move = 2.0 ** -round(bits * FORMATS[self._truth.subject.dtype].bits)
        unit = FORMATS[self._problem.dtype].unit_roundoff
        values = {
            leaf.name: leaf.value * (1 + move * signs(rng, leaf.value.shape))
            for leaf in truth.leaves
        }
        there = truth.pulled(row * (1 + move * signs(rng, row.shape)), values)
        costs = {}
        for name, right in wide.items():
            moved = there[name]
            if right is None or moved is None:
                costs[name] = np.zeros(self._leaves[name].size)
                continue
            with np.errstate(all="ignore"):
                found = np.abs(moved - right) * (unit / move)
            found[~np.isfinite(found)] = 0.0
            found += float(np.sqrt(np.mean(found**2)))
            costs[name] = found
        return costs
