"""Check forward mode of a layer with a large Jacobian: compare J @ direction with finite
differences, for all leaves together and then leaf by leaf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import field, replace
from typing import Literal

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.large.detection_power import Promise
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, aligned
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.thresholds import FIRST_ORDER_SLACK, ROUNDINGS
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.subject import Call, Spare, Subject
from gradcheck_cli.engines.tracebacks import as_failure, raise_if_internal
from gradcheck_cli.judge.failures import CODES_OF_FAILURES
from gradcheck_cli.judge.measures import Mask
from gradcheck_cli.truth.layers.beside import (
    Point,
    cost_beside,
    is_confirmed,
    points_beside,
    visits,
)
from gradcheck_cli.truth.layers.callables import ulp_perturbed
from gradcheck_cli.truth.layers.projections import Moving, Projections, single_vjp
from gradcheck_cli.truth.numerics.differences import Estimate, Float
from gradcheck_cli.truth.numerics.probes import moves
from gradcheck_cli.truth.numerics.verify_first import Probe

State = Literal["checked", "left out", "failed"]


@dataclass
class Forward:
    """Forward mode, compared with the differences of `truth` that were `seen` along directions by
    number, along which `moved` moved. `looks` are finished comparisons, with error bars that
    include the rounding of forward mode; `notes` say if there is no such mode. `reverse_passed`:
    nothing is wrong with the gradient by reverse mode in either dtype."""

    layer: BoundLayer
    truth: Projections
    moved: Mapping[int, Moving]
    seen: Mapping[int, Probe | None]
    reverse_passed: bool = False
    state: State = "checked"
    source = "finite-difference"
    looks: dict[int, Probe | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def findings(self) -> Iterator[Finding]:
        """The errors along the first direction that shows any."""
        for number, moving in self.moved.items():
            try:
                found = list(self._findings_along(number, self._direction(number, moving)))
            except Unsupported as error:
                yield from self._unsupported(error)
                return
            except Exception as error:
                raise_if_internal(error)
                yield self._failure_finding(error)
                return
            if found:
                yield from found
                return

    def _direction(self, number: int, moving: Moving) -> dict[str, Float]:
        """The direction of this number, (n,) for each leaf that moves."""
        with self.truth.as_at(moving):
            drawn = self.truth.narrow_direction(number)
        return {name: weights for name, weights in drawn.items() if moves(weights)}

    def _findings_along(self, number: int, along: dict[str, Float]) -> Iterator[Finding]:
        truth, highest = self.truth, self.truth.subject
        seen = self.seen[number]
        if seen is None:
            return
        if seen.rough:
            reason = "undecided: kinks prevent differences along random directions"
            yield self._finding(Codes.UNDECIDED, reason, None)
            return
        pushed = self._jvp_along(self.layer.narrow, along)
        odd = ~np.isfinite(pushed)
        if np.any(odd):
            yield from self._no_number(number, along, pushed)
            return
        wide = (
            pushed if highest is self.layer.narrow else self._jvp_along(highest, self._wide(along))
        )
        mine = truth.rows @ wide
        off = ~(np.abs(mine - seen.estimate.value) <= seen.estimate.error)
        if np.any(off):
            along = self._direction(number, self.moved[number])
            seen = self._widened(seen, along, mine, wide)
            off = ~(np.abs(mine - seen.estimate.value) <= seen.estimate.error)
        self.looks[number] = seen
        if np.any(off):
            yield from self._wrong(number, seen, int(np.argmax(off)), along)
        elif highest is not self.layer.narrow:
            yield from self._precision_loss(number, pushed, wide)

    def _wide(self, along: dict[str, Float]) -> Spare:
        """The same direction in float64, in the same memory; it is drawn again if needed."""
        self.truth.let_go()
        found = Spare()
        for name in list(along):
            part = along.pop(name)
            found[name] = aligned(part.shape, np.dtype(np.float64))
            found[name][:] = part
            del part  # before the next one is made
        self.truth.ran()  # so that the memory of the first run is returned to the system
        return found

    def _jvp_along(self, subject: Subject, along: Mapping[str, Float]) -> Float:
        """J @ direction, (m,); zero for outputs that are not finite."""
        shapes = {leaf.name: leaf.shape for leaf in subject.leaves}
        kind = Spare if isinstance(along, Spare) else dict
        pushed = subject.jvp(kind((n, part.reshape(shapes[n])) for n, part in along.items()))
        known = 0.0 if pushed is None else pushed
        return np.where(np.any(self.truth.rows != 0, axis=0), known, 0.0)

    def _widened(
        self, seen: Probe, along: Mapping[str, Float], mine: Float, pushed: Float
    ) -> Probe:
        """Widen the error bars by what rounding leaves open of J @ direction, where it is off by
        less than half of its digits: its change when all numbers move by a few ulps."""
        highest, rows = self.truth.subject, self.truth.rows
        near = FORMATS[highest.dtype].half * np.sqrt(rows**2 @ pushed**2)
        within = np.abs(mine - seen.estimate.value) <= near
        stirred = self.layer.bind(highest.dtype, ulp_perturbed(highest)) if np.any(within) else None
        if stirred is None:
            return seen
        with closing(stirred):
            there = rows @ self._jvp_along(stirred, along)
        spread = FIRST_ORDER_SLACK * ROUNDINGS * np.abs(there - mine)
        error = seen.estimate.error + np.where(within & np.isfinite(spread), spread, 0.0)
        return replace(seen, estimate=Estimate(seen.estimate.value, error))

    def caught(self) -> dict[str, float]:
        """For each leaf, the error of a single entry that would have been found; nothing if no
        comparison was finished."""
        if not self.looks:
            return {}
        return Promise(self.truth, self.looks).caught(self.layer.problem.power)

    # The messages

    def _wrong(
        self, number: int, seen: Probe, k: int, along: Mapping[str, Float]
    ) -> Iterator[Finding]:
        """Findings about the leaves that are wrong on their own, or else about all together."""
        row, highest = self.truth.rows[k], self.truth.subject
        half = FORMATS[highest.dtype].half
        told = False
        for name, part in along.items() if len(along) > 1 else ():
            pushed = self._jvp_along(highest, {name: part})
            mine = float(row @ pushed)
            apart, bar = self.truth.glance({name: part}, row, mine, seen.level)
            if abs(apart) > bar + half * float(np.linalg.norm(row * pushed)):
                told = True
                yield self._of_a_product(number, name, mine, mine + apart, bar)
        if not told:
            mine = float(row @ self._jvp_along(highest, along))
            right, bar = seen.estimate.value[k], seen.estimate.error[k]
            only = next(iter(along)) if len(along) == 1 else None
            yield self._of_a_product(number, only, mine, right, bar)

    def _of_a_product(
        self, number: int, name: str | None, mine: float, right: float, bar: float
    ) -> Finding:
        message = (
            f"{self._product(number, name)} by forward mode is {mine:.9g} on a random cotangent, "
            f"but finite differences give {right:.9g} ± {bar:.2g}"
        )
        return self._finding(Codes.WRONG_GRADIENT, message, name)

    def _no_number(
        self, number: int, along: Mapping[str, Float], pushed: Float
    ) -> Iterator[Finding]:
        """Findings about outputs with a tangent that is not finite, by the leaves that cause it."""
        alone = {
            name: self._jvp_along(self.layer.narrow, {name: part}) for name, part in along.items()
        }
        every: list[tuple[str | None, Float]] = [
            (name, one) for name, one in alone.items() if not np.all(np.isfinite(one))
        ]
        for name, found in every or [(None, pushed)]:
            odd = ~np.isfinite(found)
            code = Codes.NAN_GRADIENT if np.any(np.isnan(found)) else Codes.INFINITE_GRADIENT
            words = "nan" if code == Codes.NAN_GRADIENT else "infinite"
            message = (
                f"{self._product(number, name)} by forward mode is {words} in "
                f"{np.count_nonzero(odd)} of {odd.size} entries, where differences are finite"
            )
            yield self._finding(code, message, name)

    def _precision_loss(self, number: int, pushed: Float, wide: Float) -> Iterator[Finding]:
        """GC301 if the narrow dtype loses more than half of the digits of a product that is right
        in the highest precision, unless reverse mode has the same product and passed, or a move of
        the inputs by a few ulps takes it there; smaller losses are not reported here."""
        rows, dtype = self.truth.rows, self.layer.problem.dtype
        mine, right = rows @ pushed, rows @ wide
        allowed = FORMATS[dtype].half * np.sqrt(rows**2 @ wide**2)
        off = ~(np.abs(mine - right) <= allowed)
        if np.any(off) and self.reverse_passed:
            off &= ~(np.abs(mine - self._by_reverse(number)) <= allowed)
        if np.any(off):
            enough = (np.abs(mine - right) - allowed) / FIRST_ORDER_SLACK
            beside = self._slopes_beside(number, wide, enough)
            allowed = allowed + FIRST_ORDER_SLACK * beside  # a sum over several kinks
            off &= ~(np.abs(mine - right) <= allowed)
        if np.any(off):
            k = int(np.argmax(off))
            message = (
                f"{self._product(number, None)} by forward mode is {mine[k]:.9g} on a random "
                f"cotangent in {dtype}, and {right[k]:.9g} in {self.truth.subject.dtype}"
            )
            yield self._finding(Codes.PRECISION_LOSS, message, None)

    def _by_reverse(self, number: int) -> Float:
        """rows @ J @ direction, (r,), by reverse mode of the narrow layer."""
        truth, found = self.truth, []
        with truth.as_at(self.moved[number]):
            for row in truth.rows:
                pulled = single_vjp(self.layer.narrow, Call(cotangents=row[None]))
                gradient = {leaf.name: pulled.get(leaf.name) for leaf in truth.leaves}
                found.append(truth.product_along(gradient, number))
        return np.array(found)

    def _slopes_beside(self, number: int, wide: Float, enough: Float) -> Float:
        """How far each row @ J @ direction, (r,), may change when a few ulps of the narrow dtype
        move the leaves, and the slopes there are confirmed. Beside a kink, this is another slope.
        Moves end when they change each row by `enough`."""
        truth, rows, problem = self.truth, self.truth.rows, self.layer.problem
        found, along = np.zeros(len(rows)), self._direction(number, self.moved[number])
        confirmed: dict[Point, Mask] = {}
        pairs = points_beside(truth.leaves, problem.dtype, problem.seed)
        for at in visits(pairs, lambda point: self._jvp_at(point, along)):
            costs = np.abs(rows) @ cost_beside(wide, at.slope, at.opposite, at.times)
            if not np.any(costs > found):
                continue
            if truth.tangents is None and at.point not in confirmed:
                given = at.point(), along, rows, rows @ at.slope, rows @ wide
                confirmed[at.point] = is_confirmed(truth, problem.dtype, *given)
            known = confirmed.get(at.point, True)
            found = np.where(known, np.fmax(found, costs), found)
            if np.all(found >= enough):
                break
        return found

    def _jvp_at(self, point: Point, along: Mapping[str, Float]) -> Float:
        """J @ direction, (m,), where the leaves have moved; nan if the layer refuses the point."""
        if self.truth.tangents is not None:
            return self.truth.tangents.at(point(), along)
        with self.layer.at_values(self.truth.subject.dtype, point()) as there:
            if there is None:
                return np.full(self.truth.output.shape, np.nan)
            return self._jvp_along(there, along)

    def _product(self, number: int, name: str | None) -> str:
        part = f", the part of `{name}` alone," if name else ""
        return f"J @ direction {number} (seed {self.layer.problem.seed}){part}"

    def _finding(self, code: str, message: str, name: str | None) -> Finding:
        found = self.layer.finding(code, message, "forward")
        return replace(found, input=name, truth_source=self.source)

    def _unsupported(self, error: Unsupported) -> Iterator[Finding]:
        self.state = "left out"
        if self.layer.problem.named_modes:
            self.state = "failed"
            yield replace(
                self._finding(Codes.UNSUPPORTED_OPERATION, str(error), None), severity="error"
            )
        else:
            self.notes.append(f"{self.layer.name}: forward mode was left out: {error}")

    def _failure_finding(self, error: Exception) -> Finding:
        self.state = "failed"
        failure = as_failure(error)
        found = self._finding(CODES_OF_FAILURES[failure.kind], failure.message, None)
        return replace(found, detail=failure.detail, place=failure.place, truth_source=None)
