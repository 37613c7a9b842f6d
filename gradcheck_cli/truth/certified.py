"""The exact gradient, enclosed: the program and its derivative in ball arithmetic.

Ziv's strategy: the precision doubles until every entry's radius is below 2^-8 ulp of the judged
dtype, or it is clear that more bits do not help. (Ziv, Fast evaluation of elementary mathematical
functions with correctly rounded last bit, ACM TOMS 17, 1991.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Mode, Projection
from gradcheck_cli.domain.program import CONSTANT, INPUT, Program
from gradcheck_cli.truth.gradients import block_shapes
from gradcheck_cli.truth.plain import constant, inlined

SECOND: tuple[Mode, ...] = ("reverse-over-reverse", "forward-over-reverse")
FIRST_BITS = 117  # 64 more than float64 has
MOST_BITS = 4096  # x^2 beside 1 for the smallest x of float64 takes 2150; a cancelling y / y^2 more
NARROW = 8  # a radius of 2^-8 ulp cannot be seen in any figure that the user gets

BUDGET = 60_000
"""Scalar operations of all passes at FIRST_BITS together. A pass takes 0.3 (products of matrices)
to 6 microseconds (transcendental functions) an operation, so that this is a fraction of a
second."""

KINK = "an operation stands exactly on a kink, a tie or a jump"
DOMAIN = "the derivative has no value in exact arithmetic: a pole, or outside of the domain"
STRANGE = "an input is not a finite number"
BEYOND = "the exact derivative is larger than any float64"
WIDE = f"the enclosure is still too wide at {MOST_BITS} bits"
TOO_MUCH = "enclosing it would take too many operations"


@dataclass(frozen=True, slots=True)
class Certificate:
    """One block, every array (rows, columns): where `sure`, the exact derivative is within `radius`
    of `value` (float64). `reason` says why others are not sure."""

    value: Array
    radius: Array
    sure: Array
    reason: str


class BallProgram:
    """A program as a function of its differentiated inputs; everything else is exact."""

    def __init__(self, request: TruthRequest) -> None:
        from reference_engine.arithmetic.balls import exactly
        from reference_engine.op import TABLE

        self.program: Program = inlined(request.program)
        self.wrt = request.wrt
        self._rows = TABLE
        fmt = FORMATS[request.dtype]
        self._template: list[Any] = [None] * len(self.program.nodes)
        for index, node in enumerate(self.program.nodes):
            if node.op == CONSTANT:
                value = constant(node, fmt)
                self._template[index] = exactly(value) if node.kind == "float" else value
        for name, index in self.program.inputs.items():
            value = np.asarray(request.values[name])
            self._template[index] = exactly(value) if value.dtype.kind == "f" else value

    def __call__(self, *xs: Any) -> Any:
        from reference_engine.arithmetic.balls import exactly
        from reference_engine.traced import Traced

        slots = self._template.copy()
        for name, x in zip(self.wrt, xs, strict=True):
            slots[self.program.inputs[name]] = x
        for index, node in enumerate(self.program.nodes):
            if node.op in (CONSTANT, INPUT):
                continue
            args = [slots[i] for i in node.args]
            for k, wanted in enumerate(node.wants):
                if wanted == "float" and not isinstance(args[k], Traced):
                    whole = node.op == "power" and k == 1 and np.ndim(args[k]) == 0
                    # the rule for a whole exponent is shorter
                    args[k] = int(args[k]) if whole else exactly(args[k])
            slots[index] = self._rows[node.op](*args, **node.keywords)
        return slots[self.program.output]


def certify(request: TruthRequest, budget: float = BUDGET) -> dict[tuple[Mode, str], Certificate]:
    """A certificate for every block of every mode, in `budget` operations each.

    `request.program` has its constants rounded already (`engines.walker.rounded`); a custom
    gradient counts as its forward.
    """
    found: dict[tuple[Mode, str], Certificate] = {}
    known: dict[object, dict[str, Certificate]] = {}
    function = BallProgram(request)
    for mode, projection in request.projections.items():
        key = (mode in SECOND, id(projection.rows), id(projection.columns))
        if key not in known:
            known[key] = _Blocks(request, function, mode, projection).certificates(budget)
        for name, certificate in known[key].items():
            found[mode, name] = certificate
    return found


class _Blocks:
    """The blocks of one projection, at growing precision."""

    def __init__(
        self,
        request: TruthRequest,
        function: BallProgram,
        mode: Mode,
        projection: Projection,
    ) -> None:
        second = mode in SECOND
        self._fmt = FORMATS[request.dtype]
        self._function = function
        self._xs = [np.asarray(request.values[name], np.float64) for name in request.wrt]
        self._wrt = request.wrt
        self._projection = projection
        self._second = second
        self._whole = second or projection.rows is not None  # a row is made of all outputs
        self._defined = np.ones(1, np.bool_)  # which rows have a value at all
        self._shapes = block_shapes(request, mode)
        self._output = request.program.nodes[request.program.output].shape
        self._beyond = False  # whether an entry is larger than any float64
        self._value = {name: np.full(shape, np.nan) for name, shape in self._shapes.items()}
        self._radius = {name: np.full(shape, np.inf) for name, shape in self._shapes.items()}
        self._sure = {name: np.zeros(shape, np.bool_) for name, shape in self._shapes.items()}

    def certificates(self, budget: float) -> dict[str, Certificate]:
        reason = self._narrow(budget)
        return {
            name: Certificate(self._value[name], self._radius[name], self._sure[name], reason)
            for name in self._shapes
        }

    def _narrow(self, budget: float) -> str:
        """Double the precision until all is sure; else, why not."""
        from reference_engine.arithmetic.balls import NotInBalls, Undecided, precision

        if not all(np.all(np.isfinite(x)) for x in self._xs):
            return STRANGE
        cost = _operations(self._function.program) * self._passes()
        bits, spent, nowhere = FIRST_BITS, 0.0, False
        while bits <= MOST_BITS:
            spent += cost * bits / FIRST_BITS
            if spent > budget:
                return TOO_MUCH
            try:
                with precision(bits):
                    if self._stands_on_a_tie():
                        return KINK
                    finite = self._put(self._entries())
            except Undecided:
                bits *= 2
                continue
            except NotInBalls as refusal:
                return str(refusal)
            if all(np.all(sure) for sure in self._sure.values()):
                return ""
            if nowhere and not finite:
                return BEYOND if self._beyond else DOMAIN
            nowhere = not finite
            bits *= 2
        return WIDE

    def _passes(self) -> int:
        """How often a derivative of the program is taken."""
        columns = self._tangent_count()
        return columns if self._second else min(self._row_count(), columns)

    def _row_count(self) -> int:
        rows = self._projection.rows
        return int(np.prod(self._output)) if rows is None else len(rows)

    def _tangent_count(self) -> int:
        given = self._projection.columns or {}
        return sum(
            len(given[name]) if name in given else x.size
            for name, x in zip(self._wrt, self._xs, strict=True)
        )

    def _stands_on_a_tie(self) -> bool:
        from reference_engine.arithmetic.ball_choices import noting_ties
        from reference_engine.arithmetic.balls import exactly, unwrap

        with noting_ties() as ties:
            output = unwrap(self._function(*map(exactly, self._xs)))
        finite = np.array([ball.is_finite() for ball in output.ravel()], np.bool_)
        self._defined = np.all(finite, keepdims=True) if self._whole else finite
        return bool(ties)

    def _entries(self) -> Mapping[str, Any]:
        """Every block as an array of balls."""
        if self._second:
            return self._second_order()
        if self._row_count() <= self._tangent_count():
            return self._by_rows()
        return self._by_columns()

    def _by_rows(self) -> Mapping[str, Any]:
        from reference_engine.enclosing import ball_vjp

        _, pull = ball_vjp(self._function, self._xs)
        rows: dict[str, list[Any]] = {name: [] for name in self._wrt}
        for cotangent in self._cotangents():
            for name, x_bar in zip(self._wrt, pull(cotangent), strict=True):
                rows[name].append(self._projected(name, x_bar.reshape(-1)))
        return {name: np.array(found, dtype=object) for name, found in rows.items()}

    def _projected(self, name: str, gradient: Any) -> Any:
        columns = (self._projection.columns or {}).get(name)
        if columns is None:
            return gradient
        from reference_engine.arithmetic.balls import objects

        return [np.sum(gradient * objects(c).reshape(-1)) for c in columns]

    def _cotangents(self) -> Iterable[Array]:
        rows = self._projection.rows
        if rows is not None:
            return [np.asarray(row, np.float64).reshape(self._output) for row in rows]
        count = int(np.prod(self._output))
        return [row.reshape(self._output) for row in np.eye(count)]

    def _tangents(self) -> Iterable[tuple[str, Sequence[Array]]]:
        """The input that moves, and one tangent an input."""
        given = self._projection.columns or {}
        still = [np.zeros(x.shape) for x in self._xs]
        for i, (name, x) in enumerate(zip(self._wrt, self._xs, strict=True)):
            for tangent in given.get(name, np.eye(x.size)):
                moved = np.asarray(tangent, np.float64).reshape(x.shape)
                yield name, [*still[:i], moved, *still[i + 1 :]]

    def _by_columns(self) -> Mapping[str, Any]:
        from reference_engine.arithmetic.balls import objects
        from reference_engine.enclosing import ball_jvp

        columns: dict[str, list[Any]] = {name: [] for name in self._wrt}
        rows = self._projection.rows
        weights = None if rows is None else objects(np.reshape(rows, (len(rows), -1)))
        for name, tangents in self._tangents():
            column = ball_jvp(self._function, self._xs, tangents)[1].reshape(-1)
            columns[name].append(column if weights is None else weights @ column)
        return {
            name: np.array(found, dtype=object).T if found else np.empty(self._shapes[name], object)
            for name, found in columns.items()
        }

    def _second_order(self) -> Mapping[str, Any]:
        from reference_engine.enclosing import ball_hvp

        rows = self._projection.rows
        weights = np.ones(self._output) if rows is None else np.reshape(rows[0], self._output)
        columns: dict[str, list[Any]] = {name: [] for name in self._shapes}
        for second, tangents in self._tangents():
            found = ball_hvp(self._function, self._xs, tangents, weights)
            for first, x_dot in zip(self._wrt, found, strict=True):
                columns[f"{first}.{second}"].append(x_dot.reshape(-1))
        return {
            name: np.array(found, dtype=object).T if found else np.empty(self._shapes[name], object)
            for name, found in columns.items()
        }

    def _put(self, entries: Mapping[str, Any]) -> bool:
        """Keep what has become narrow enough; whether every entry is finite at all."""
        finite = True
        for name, shape in self._shapes.items():
            flat = np.reshape(np.asarray(entries[name], dtype=object), -1)
            value, radius, sure = (
                part[name].reshape(-1) for part in (self._value, self._radius, self._sure)
            )
            for i in np.flatnonzero(~sure):
                ball = flat[i]
                if not (ball.is_finite() and self._defined[0 if self._whole else i // shape[1]]):
                    finite = False
                    continue
                known = self._known(ball)
                if known is not None:
                    value[i], radius[i] = known
                    sure[i] = True
            finite &= not self._beyond
        return finite

    def _known(self, ball: Any) -> tuple[float, float] | None:
        """The ball as a float64 and a bound of the distance to it, where the ball is narrow; None
        also where no float64 is near."""
        from flint import arb

        middle, radius = ball.mid(), ball.rad()
        value = float(middle)
        if not np.isfinite(value):
            self._beyond = True
            return None
        ulp = arb(float(self._fmt.ulp(value)))
        if not radius * 2**NARROW <= ulp:
            return None
        distance = (radius + abs(middle - arb(value))).upper()
        return value, float(distance) * (1 + 2.0**-52)


def _operations(program: Program) -> float:
    """Scalar operations of one evaluation; those of products of matrices are cheaper."""
    total = 0.0
    for node in program.nodes:
        if node.op in (CONSTANT, INPUT):
            continue
        sizes = [int(np.prod(program.nodes[i].shape)) for i in node.args]
        size = max([int(np.prod(node.shape)), *sizes])
        if node.op in CONTRACTIONS and len(sizes) > 1:
            # the longest loop: sqrt(n k * k m * n m) = n k m
            product = sizes[0] * sizes[1] * int(np.prod(node.shape))
            size = max(size, int(np.sqrt(product) * CHEAPER))
        total += size
    return total


CONTRACTIONS = frozenset(
    [
        "matmul",
        "dot",
        "tensordot",
        "einsum",
        "conv1d",
        "conv2d",
        "conv_transpose2d",
        "linear",
        "solve",
    ]
)
CHEAPER = 0.15  # a product and a sum of balls, beside the average of other operations
