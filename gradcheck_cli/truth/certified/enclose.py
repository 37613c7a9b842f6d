"""Enclose the exact gradient: run the program and its derivative in ball arithmetic.

Ziv's strategy: the precision doubles until every entry's radius is below 2^-8 ulp of the judged
dtype, or it is clear that more bits do not help. (Ziv, Fast evaluation of elementary mathematical
functions with correctly rounded last bit, ACM TOMS 17, 1991.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from operator import mul
from typing import Any, TypeAlias

import numpy as np

from gradcheck_cli.domain.blocks import HessianBlock
from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import FIRST_ORDER, SECOND, Mode, Projection
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import UNSEEN_ULPS
from gradcheck_cli.truth.certified.ball_program import LARGEST, BallProgram, has_value, operations
from gradcheck_cli.truth.certified.ties import Ties, around_jumps, groups, is_mild
from gradcheck_cli.truth.gradients import block_shapes, numbers_asked

FIRST_BITS = 117  # 64 more than float64 has
MOST_BITS = 4096  # x^2 beside 1 for the smallest x of float64 takes 2150; a cancelling y / y^2 more
OUTPUT = "output"
ABSORBED = 1074 + 53  # bits in which 1 + x differs from 1 for every x of float64

BUDGET = 300_000
"""Scalar operations of all passes together, at FIRST_BITS. An operation takes 0.3 (matrix products)
to 6 microseconds (transcendental functions), so this is a second or two."""

KINK = "an operation is exactly at a kink, a tie or a jump"
DOMAIN = "the derivative has no value in exact arithmetic: a pole, or a point outside the domain"
DOUBT = "rounding decides which value an operation has here, as with the rank of a matrix"
HUGE = "a number on the way is too large to be enclosed"
STRANGE = "an input is nan"
WIDE = f"the enclosure is still too wide at {MOST_BITS} bits"
TOO_MUCH = "enclosing it would take too many operations"


Along: TypeAlias = Mapping[str, Sequence[Sequence[Any]]]
"""Directions (k, n) of some inputs, each a list of balls."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The enclosure of one block, every array (rows, columns). Where `sure`, the exact derivative
    is within `radius` of `value` (float64). `reason` says why other entries are not sure. Entries
    without a value in exact arithmetic are `nowhere`; entries that depend on an operation at a
    kink, a tie or a jump are `tied`, or with the reason DOUBT on an operation whose value rounding
    decides."""

    value: Array
    radius: Array
    sure: Array
    nowhere: Array
    tied: Array
    reason: str


def certify(
    request: TruthRequest, budget: float = BUDGET, function: BallProgram | None = None
) -> dict[tuple[Mode, str], Certificate]:
    """Return a certificate for every block of every mode, within `budget` operations for each mode.

    `request.program` has its constants rounded already (`engines.kit.walker.rounded`); a custom
    gradient counts as its forward. `function` is the program of the request if it ran before.
    """
    certificates: dict[tuple[Mode, str], Certificate] = {}
    known: dict[object, dict[str, Certificate]] = {}
    function = function or BallProgram(request)
    for mode, projection in request.projections.items():
        key = numbers_asked(mode, projection)
        if key not in known:
            known[key] = Blocks(request, function, mode, projection).certificates(budget)
        for name, certificate in known[key].items():
            certificates[mode, name] = certificate
    return certificates


def certify_stated(request: TruthRequest) -> dict[tuple[Mode, str], Certificate]:
    """Return certificates for the program's custom gradients, to first order: for the `vjp` in
    reverse mode, for the `jvp` in forward mode. A mode is left out if its rules return another
    shape than they should."""
    from reference_engine.errors import ShapeError, WrongGradientShape

    function = BallProgram(request, stated=True)
    certificates: dict[tuple[Mode, str], Certificate] = {}
    for mode, projection in request.projections.items():
        if mode not in FIRST_ORDER:
            continue
        blocks = _Stated(request, function, mode, projection)
        with suppress(ShapeError, WrongGradientShape):
            certificates |= {(mode, name): one for name, one in blocks.certificates(BUDGET).items()}
    return certificates


def certify_output(
    request: TruthRequest, budget: float = BUDGET, function: BallProgram | None = None
) -> Certificate:
    """Return a certificate for the value of the program, with arrays in the shape of the output."""
    output = request.program.result.shape
    certificate = _Output(request, function or BallProgram(request)).certificates(budget)[OUTPUT]
    return Certificate(
        certificate.value.reshape(output),
        certificate.radius.reshape(output),
        certificate.sure.reshape(output),
        certificate.nowhere.reshape(output),
        certificate.tied.reshape(output),
        certificate.reason,
    )


class _Ziv(ABC):
    """Arrays of numbers that are enclosed at growing precision until each is narrow."""

    def __init__(
        self, request: TruthRequest, function: BallProgram, shapes: Mapping[str, tuple[int, int]]
    ) -> None:
        self._fmt = FORMATS[request.dtype]
        self._function = function
        self._xs = function.xs
        self._shapes = shapes
        self._value = {name: np.full(shape, np.nan) for name, shape in shapes.items()}
        self._radius = {name: np.full(shape, np.inf) for name, shape in shapes.items()}
        self._sure = {name: np.zeros(shape, np.bool_) for name, shape in shapes.items()}
        self._nowhere = {name: np.zeros(shape, np.bool_) for name, shape in shapes.items()}
        self._tied = {name: np.zeros(shape, np.bool_) for name, shape in shapes.items()}

    @abstractmethod
    def _passes(self) -> int:
        """The number of passes over the program."""

    @abstractmethod
    def _enclosed(self) -> Mapping[str, Any] | None:
        """Return the arrays of balls at the current precision and set `_tied`; None if every entry
        is tied."""

    def _defined(self, name: str) -> Array:
        """Mark the numbers that have a value at all, (rows * columns,)."""
        return np.ones(self._value[name].size, np.bool_)

    def certificates(self, budget: float) -> dict[str, Certificate]:
        reason = self._narrow(budget)
        return {
            name: Certificate(
                self._value[name],
                self._radius[name],
                self._sure[name],
                self._nowhere[name] & (reason == DOMAIN),
                self._tied[name],
                reason,
            )
            for name in self._shapes
        }

    def _narrow(self, budget: float) -> str:
        """Double the precision until all entries are sure; return the reason if some are not."""
        from reference_engine.arithmetic.arbs import (
            DecidedByRounding,
            NotInBalls,
            Undecided,
            precision,
        )

        if any(np.isnan(x).any() for x in self._xs):
            return STRANGE
        cost = operations(self._function.program) * self._passes()
        bits, spent, entries = FIRST_BITS, 0.0, None
        while bits <= MOST_BITS:
            spent += cost * bits / FIRST_BITS
            if spent > budget:
                return self._certify_cancelled(entries, TOO_MUCH)
            try:
                with precision(bits):
                    entries = self._enclosed()
                    if entries is None:
                        self._tied = self._hanging_on(None)
                        return KINK
                    finite = self._store_narrow(entries)
            except Undecided:
                bits *= 2
                continue
            except DecidedByRounding as refusal:
                self._tied = self._hanging_on(refusal.row)
                return DOUBT
            except NotInBalls as refusal:
                return str(refusal)
            if all((self._sure[name] | self._tied[name]).all() for name in self._shapes):
                return KINK if any(tied.any() for tied in self._tied.values()) else ""
            if not finite and bits > ABSORBED:
                with precision(bits):
                    return HUGE if self._function.leaves_range() else DOMAIN
            bits *= 2
        return self._certify_cancelled(entries, WIDE)

    def _certify_cancelled(self, entries: Mapping[str, Any] | None, reason: str) -> str:
        """Certify entries that cancel as 0: balls around 0, which no precision narrows relative to
        a number that is 0. They are narrow compared with the largest entry, by the square of
        float64's unit roundoff, which is far below the rounding of these terms in float64. Returns
        `reason` if other entries are open."""
        from reference_engine.arithmetic.balls import rounded_up

        if entries is None:
            return reason
        sizes = [np.abs(self._value[name][self._sure[name]]) for name in self._shapes]
        largest = max(float(np.max(one, initial=0.0, where=np.isfinite(one))) for one in sizes)
        limit = largest * 2.0 ** (-2 * FORMATS["float64"].bits)
        for name in self._shapes:
            value, radius = (part[name].reshape(-1) for part in (self._value, self._radius))
            sure = self._sure[name].reshape(-1)
            balls = np.reshape(np.asarray(entries[name], dtype=object), -1)
            for i in np.flatnonzero(~sure & ~self._tied[name].reshape(-1)):
                size = rounded_up(abs(balls[i]))
                if balls[i].contains(0) and size <= limit:
                    value[i], radius[i], sure[i] = 0.0, size, True
        done = all((self._sure[name] | self._tied[name]).all() for name in self._shapes)
        return "" if done and not any(tied.any() for tied in self._tied.values()) else reason

    def _hanging_on(self, row: str | None) -> dict[str, Array]:
        """Mark the numbers that depend on a jump of a row: here all, because nothing more is
        known."""
        return {name: np.ones(shape, np.bool_) for name, shape in self._shapes.items()}

    def _store_narrow(self, entries: Mapping[str, Any]) -> bool:
        """Keep the narrow entries as float64, each with a bound on its distance to the exact
        number. Return whether every entry is finite."""
        from flint import arb

        from reference_engine.arithmetic.balls import rounded_up

        finite = True
        narrow = float(np.finfo(np.float64).tiny) / UNSEEN_ULPS  # above it, limits fit float64
        for name in self._shapes:
            flat = np.reshape(np.asarray(entries[name], dtype=object), -1)
            parts = (self._value, self._radius, self._sure, self._nowhere)
            value, radius, sure, nowhere = (part[name].reshape(-1) for part in parts)
            open_ = np.flatnonzero(~sure & ~self._tied[name].reshape(-1))
            balls, defined = flat[open_].tolist(), self._defined(name)[open_].tolist()
            middles = [float(ball.mid()) for ball in balls]
            ulps = self._fmt.ulp(middles).tolist()
            for i, ball, middle, ulp, has_value_here in zip(
                open_.tolist(), balls, middles, ulps, defined, strict=True
            ):
                is_number = isfinite(middle)
                nowhere[i] = not (has_value_here and (is_number or has_value(ball)))
                if nowhere[i]:
                    finite = False
                elif not is_number:  # an infinity stands for a number beyond the range of float64
                    sure[i] = not abs(ball).lower() <= LARGEST
                    if sure[i]:
                        value[i], radius[i] = middle, 0.0
                else:
                    limit = ulp * UNSEEN_ULPS if ulp >= narrow else arb(ulp) * UNSEEN_ULPS
                    if ball.rad() <= limit:
                        sure[i] = True
                        value[i] = middle
                        radius[i] = rounded_up(abs(ball - middle))
        return finite


class _Output(_Ziv):
    """The value of the program."""

    def __init__(self, request: TruthRequest, function: BallProgram) -> None:
        size = int(np.prod(request.program.result.shape))
        super().__init__(request, function, {OUTPUT: (1, size)})

    def _passes(self) -> int:
        return 1

    def _enclosed(self) -> Mapping[str, Any]:
        return {OUTPUT: self._function.recorded(self._xs).output}


class Blocks(_Ziv):
    """The blocks of one projection."""

    _by_entries = True  # a tie spoils only the entries that depend on it

    def __init__(
        self, request: TruthRequest, function: BallProgram, mode: Mode, projection: Projection
    ) -> None:
        super().__init__(request, function, block_shapes(request, mode))
        self._wrt = request.wrt
        self._projection = projection
        self._mode = mode
        self._second = mode in SECOND
        self._whole = self._second or projection.rows is not None  # a row combines all outputs
        self._rows_defined = np.ones(1, np.bool_)
        self._output = request.program.result.shape

    def _passes(self) -> int:
        columns = self._tangent_count()
        return columns if self._second else min(self._row_count(), columns)

    def _defined(self, name: str) -> Array:
        rows, columns = self._shapes[name]
        if self._whole:
            return np.repeat(self._rows_defined[:1], rows * columns)
        return np.repeat(self._rows_defined, columns)

    def _enclosed(self) -> Mapping[str, Any] | None:
        ties = self._ties()
        if ties and (self._second or not self._by_entries):
            return None
        if self._second:
            return self._second_order()
        self._tied = self._tied_entries(ties)
        self._settle_zeros()
        return self._first_order(self._function)

    def _settle_zeros(self) -> None:
        """Set Jacobian entries of inputs that do not reach the output to exactly 0."""
        grouped = groups(self._function.program, self._wrt)
        if grouped is None or not self._shares_rows(self._function):
            return
        ends = np.cumsum([x.size for x in self._xs])[:-1]
        for name, reach in zip(self._wrt, np.split(grouped[0], ends, axis=1), strict=True):
            if name not in (self._projection.columns or {}):
                zero = self._rows_defined[:, None] & ~(reach | self._tied[name])
                self._value[name][zero] = self._radius[name][zero] = 0.0
                self._sure[name] |= zero

    def _row_count(self) -> int:
        rows = self._projection.rows
        return int(np.prod(self._output)) if rows is None else len(rows)

    def _tangent_count(self) -> int:
        given = self._projection.columns or {}
        return sum(
            len(given[name]) if name in given else x.size
            for name, x in zip(self._wrt, self._xs, strict=True)
        )

    def _ties(self) -> Ties:
        """Return the nodes on a kink, a tie or a jump, and note which outputs have a value."""
        from reference_engine.arithmetic.balls import exactly

        ran = self._function.recorded(self._xs)
        finite = np.array([has_value(ball) for ball in ran.output.ravel()], np.bool_)
        self._rows_defined = np.all(finite, keepdims=True) if self._whole else finite
        return self._function.ties([exactly(x) for x in self._xs]) if ran.meets_ties else {}

    def _tied_entries(self, ties: Ties) -> dict[str, Array]:
        """Mark the entries that depend on a tie. At a kink these are the entries that are unknown
        if the kink's derivative is. At a jump these are all entries from inputs before it to
        outputs after it."""
        program = self._function.program
        tied = {name: np.zeros(shape, np.bool_) for name, shape in self._shapes.items()}
        kinks = {index: mask for index, mask in ties.items() if is_mild(program, index)}
        if kinks:
            found = self._first_order(self._function.with_unknown(kinks))
            for name, mask in tied.items():
                mask.ravel()[:] = [not ball.is_finite() for ball in np.ravel(found[name])]
        if len(kinks) < len(ties):
            for name, mask in self._around_jumps(ties).items():
                tied[name] |= mask
        return tied

    def _hanging_on(self, row: str | None) -> dict[str, Array]:
        if row is None or self._second:
            return super()._hanging_on(row)
        nodes = enumerate(self._function.program.nodes)
        return self._around_jumps(
            {i: np.ones(node.shape, np.bool_) for i, node in nodes if node.op == row}
        )

    def _around_jumps(self, ties: Ties) -> dict[str, Array]:
        """Mark the entries from inputs before a jump to outputs after it."""
        after, before = around_jumps(self._function.program, ties)
        rows = np.full(1, np.any(after)) if self._whole else after.ravel()
        masks = {}
        for name in self._shapes:
            given = (self._projection.columns or {}).get(name)
            columns = before[name].ravel()
            if given is not None:
                along = np.asarray(given).reshape(len(given), -1)
                columns = np.any((along != 0) & columns, axis=1)
            masks[name] = rows[:, None] & columns
        return masks

    def _by_rows(self, function: Callable[..., Any]) -> Mapping[str, Any]:
        from reference_engine.enclosing import ball_vjp

        columns = _tangent_balls(self._projection.columns)
        if not self._shares_rows(function):
            own = function is self._function
            ran = self._function.recorded(self._xs) if own else None
            return self._pulled(ran.pull if ran else ball_vjp(function, self._xs)[1], columns)
        whole = self._jacobian()
        return {
            name: np.array([projected(row, columns[name]) for row in rows], dtype=object)
            if name in columns
            else rows
            for name, rows in whole.items()
        }

    def _shares_rows(self, function: Callable[..., Any]) -> bool:
        """Check whether the rows are rows of the program's Jacobian, which all modes share."""
        return self._by_entries and not self._whole and function is self._function

    def _jacobian(self) -> Mapping[str, Any]:
        """The Jacobian, computed once in each precision for all modes."""
        ran = self._function.recorded(self._xs)
        if not ran.jacobian:
            found = groups(self._function.program, self._wrt)
            ran.jacobian.update(self._in_groups(ran.pull, *(found or self._each_row())))
        return ran.jacobian

    def _each_row(self) -> tuple[Array, list[list[int]]]:
        """The groups if every input may reach every output: each row is a group."""
        rows, columns = self._row_count(), sum(x.size for x in self._xs)
        return np.ones((rows, columns), np.bool_), [[row] for row in range(rows)]

    def _pulled(self, pull: Callable[..., Any], columns: Along) -> dict[str, Any]:
        """Compute one row for each cotangent."""
        rows: dict[str, list[Any]] = {name: [] for name in self._wrt}
        for cotangent in self._projection.cotangents(self._output):
            for name, x_bar in zip(self._wrt, pull(cotangent), strict=True):
                rows[name].append(projected(x_bar.reshape(-1), columns.get(name)))
        return {name: np.array(found, dtype=object) for name, found in rows.items()}

    def _in_groups(
        self, pull: Callable[..., Any], reach: Array, groups: Sequence[Sequence[int]]
    ) -> Mapping[str, Any]:
        """Compute rows that have no input in common in one pass. (Curtis, Powell and Reid, On the
        estimation of sparse Jacobian matrices, J. Inst. Maths Applics 13, 1974.)"""
        from reference_engine.arithmetic.arbs import objects

        seeds = np.zeros((len(groups), len(reach)))
        for seed, group in zip(seeds, groups, strict=True):
            seed[group] = 1.0
        at_once = self._function.pulled(seeds)
        passed: Iterable[Any]
        if at_once is None:
            each = (pull(seed.reshape(self._output)) for seed in seeds)
            passed = (np.concatenate([x.reshape(-1) for x in one]) for one in each)
        else:
            passed = np.concatenate(at_once, axis=1)
        jacobian = np.empty(reach.shape, dtype=object)
        jacobian[...] = objects(0)
        for row, group in zip(passed, groups, strict=True):
            for place in group:
                jacobian[place, reach[place]] = row[reach[place]]
        ends = np.cumsum([x.size for x in self._xs])[:-1]
        return dict(zip(self._wrt, np.split(jacobian, ends, axis=1), strict=True))

    def _tangents(self) -> Iterable[tuple[str, Sequence[Array]]]:
        """Yield the input that moves, with one tangent for each input."""
        still = [np.zeros(x.shape) for x in self._xs]
        for i, (name, x) in enumerate(zip(self._wrt, self._xs, strict=True)):
            for moved in self._projection.tangents(name, x.shape):
                yield name, [*still[:i], moved, *still[i + 1 :]]

    def _by_columns(self, function: Callable[..., Any]) -> Mapping[str, Any]:
        from reference_engine.arithmetic.arbs import objects
        from reference_engine.enclosing import ball_jvp

        columns: dict[str, list[Any]] = {name: [] for name in self._wrt}
        rows = self._projection.rows
        weights = None if rows is None else objects(np.reshape(rows, (len(rows), -1)))
        for name, tangents in self._tangents():
            column = ball_jvp(function, self._xs, tangents)[1].reshape(-1)
            columns[name].append(column if weights is None else weights @ column)
        return self._as_matrices(columns)

    def _first_order(self, function: Callable[..., Any]) -> Mapping[str, Any]:
        known = self._shares_rows(function) and self._function.recorded(self._xs).jacobian
        if known or self._row_count() <= self._tangent_count():
            return self._by_rows(function)
        return self._by_columns(function)

    def _as_matrices(self, columns: Mapping[str, list[Any]]) -> Mapping[str, Any]:
        """The columns of each block as its matrix."""
        return {
            name: np.array(found, dtype=object).T if found else np.empty(self._shapes[name], object)
            for name, found in columns.items()
        }

    def _second_order(self) -> Mapping[str, Any]:
        from reference_engine.enclosing import ball_hvp

        rows = self._projection.rows
        weights = np.ones(self._output) if rows is None else np.reshape(rows[0], self._output)
        firsts = _tangent_balls(self._projection.firsts)
        columns: dict[str, list[Any]] = {name: [] for name in self._shapes}
        for second, tangents in self._tangents():
            found = ball_hvp(self._function, self._xs, tangents, weights)
            for first, x_dot in zip(self._wrt, found, strict=True):
                block = str(HessianBlock(first, second))
                if block in columns:
                    columns[block].append(projected(x_dot.reshape(-1), firsts.get(first)))
        return self._as_matrices(columns)


def _tangent_balls(directions: Mapping[str, Array] | None) -> Along:
    from reference_engine.arithmetic.arbs import objects

    given = directions or {}
    return {name: [objects(one).ravel().tolist() for one in along] for name, along in given.items()}


def projected(balls: Any, directions: Sequence[Sequence[Any]] | None) -> Any:
    """A flat array of balls, or its products with the directions."""
    if directions is None:
        return balls
    return [sum(map(mul, balls.tolist(), direction)) for direction in directions]


class _Stated(Blocks):
    """The blocks of a custom gradient, which may differ between the modes."""

    _by_entries = False

    def _passes(self) -> int:
        return self._row_count() if self._mode == "reverse" else self._tangent_count()

    def _first_order(self, function: Callable[..., Any]) -> Mapping[str, Any]:
        way = self._by_rows if self._mode == "reverse" else self._by_columns
        return way(function)
