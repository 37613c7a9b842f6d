"""The differences of one request, each taken once, and values that its blocks share."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradcheck_cli.domain.blocks import HessianBlock, hessian_blocks
from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.draws import generator, signs
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.evaluation import SECOND, Mode, Problem, Projection
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.truth import Cost
from gradcheck_cli.engines.reference.engine import ReferenceEngine
from gradcheck_cli.truth.bisect_directions import ENTRY_LIMIT, confirm
from gradcheck_cli.truth.blocks import Differences, on_a_kink, rows_by_input
from gradcheck_cli.truth.certified.cancelled_poles import swallowed_poles
from gradcheck_cli.truth.certified.enclose import Certificate, certify_stated
from gradcheck_cli.truth.certified.ties import STAIRS
from gradcheck_cli.truth.conditioning.rounding_cost import conditioning
from gradcheck_cli.truth.conditioning.tape import output_noise_sums
from gradcheck_cli.truth.gradients import (
    Float64Gradients,
    block_shapes,
    counts,
    float64_gradients,
    numbers_asked,
)
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.numerics.directions import Sampled
from gradcheck_cli.truth.numerics.noise import from_size, from_sums, measured
from gradcheck_cli.truth.numerics.pieces import Crossings
from gradcheck_cli.truth.plain import frozen, inlined, plain_function

NOISE_ROWS = 64  # rows for which rounding is summed exactly, by one walk of the tape each
MOVED_ROWS = 4  # rows for which it is summed at every other point, too, two a column


@dataclass
class Work:
    """The values that the blocks of one request share.

    `program` is the request's program without custom gradients. `nowhere` marks the elements of the
    output without a value in exact arithmetic. Everything that needs the numbers at the point is
    computed on demand, because a certified truth does not need it.
    """

    request: TruthRequest
    engine: ReferenceEngine
    program: Program
    nowhere: Array
    difference_cache: dict[object, dict[str, Differences]] = field(default_factory=dict)
    crossings: dict[object, Crossings] = field(default_factory=dict)
    rounding_cache: dict[tuple[Mode, str], Cost] | None = None
    evaluations: int = 0

    @cached_property
    def at_point(self) -> list[Any]:
        """The float64 value of every node."""
        return plain_function(self.program, self.request.dtype).nodes(self.request.values)

    @cached_property
    def output(self) -> Array:
        """The float64 value of the program."""
        return np.asarray(self.at_point[self.program.output], np.float64)

    @cached_property
    def _inputs_on_kinks(self) -> Set[str]:
        return on_a_kink(self.at_point, self.program, self.request.wrt)

    @property
    def structural(self) -> bool:
        """Whether some operation is exactly on a kink of its own."""
        return bool(self._inputs_on_kinks)

    @property
    def stairs(self) -> bool:
        """Whether all such operations have the value of one side there (`ties.STAIRS`)."""
        return self._inputs_on_kinks <= STAIRS

    @cached_property
    def terms(self) -> Float:
        """How large the terms are that add up to each output, (m, 1): the sum of |d output / d v|
        |v| over the results v of all operations that round and that a differentiated input moves.
        Where there are many outputs, the largest sum for some of them together, (1, 1)."""
        request = self.request
        program, values = frozen(self.program, request.values, request.dtype)
        count, rows = self.output.size, None
        if count > MOVED_ROWS:
            rng = generator(request.seed, 61)
            rows = [signs(rng, self.output.shape) for _ in range(MOVED_ROWS)]
        sums, _ = output_noise_sums(program, values, request.dtype, rows)
        terms = np.nan_to_num(sums / FORMATS["float64"].unit_roundoff, posinf=0.0)
        return terms[:, None] if rows is None else np.max(terms, keepdims=True)[:, None]

    @cached_property
    def swallowed(self) -> Array:
        """Mark the elements of the output, in its shape, that are finite although an intermediate
        number is at a pole."""
        return swallowed_poles(self.program, self.at_point)

    @cached_property
    def gradients(self) -> Float64Gradients:
        """The float64 gradients, computed on demand: a certified truth does not need them."""
        return float64_gradients(self.request, self.engine)

    @cached_property
    def stated(self) -> dict[tuple[Mode, str], Certificate]:
        """The certificates of the custom gradients."""
        return certify_stated(self.request)

    def rounding(self, mode: Mode, name: str) -> Callable[[], tuple[Array, Array]]:
        """Return a function that returns C and R of a block in float64."""

        def of_block() -> tuple[Array, Array]:
            if self.rounding_cache is None:
                true = self.gradients.true
                self.rounding_cache = conditioning(self.request, true, "float64")
            cost = self.rounding_cache[mode, name]
            return cost.condition, cost.floor

        return of_block


def largest(values: Array) -> float:
    """The size of the largest finite number; 0 if there is none."""
    sizes = np.abs(np.asarray(values, dtype=np.float64))
    return float(np.max(sizes[np.isfinite(sizes)], initial=0.0))


def differences_of(work: Work, mode: Mode) -> dict[str, Differences]:
    """Return the differences of every block of a mode."""
    projection = work.request.projections[mode]
    second = mode in SECOND
    key = numbers_asked(mode, projection)
    if key not in work.difference_cache:
        exact, along = sampled(work, mode, projection, second)
        work.difference_cache[key] = _take(work, mode, projection, exact, along, second)
    # a merge may change its differences, so every mode has its own copy
    return {
        name: replace(d, value=d.value.copy(), error=d.error.copy(), kind=d.kind.copy())
        for name, d in work.difference_cache[key].items()
    }


def crossings_of(work: Work, mode: Mode, name: str, tied: Array) -> Array:
    """Mark the `tied` entries of a block of second derivatives (rows, columns) that cross a kink of
    the gradient."""
    request, projection = work.request, work.request.projections[mode]
    block = HessianBlock.named(name, request.wrt)
    key = numbers_asked(mode, projection)
    if key not in work.crossings:
        exact, _ = sampled(work, mode, projection, True)
        rows = counts(request, projection.firsts)
        entries = all(np.size(request.values[n]) == count for n, count in rows.items())
        work.crossings[key] = Crossings(exact, rows_by_input(rows), entries, "float64")
    columns = (projection.columns or {}).get(block.columns, np.eye(tied.shape[1]))
    return work.crossings[key].of_block(block.rows, block.columns, columns, tied)


def sampled(
    work: Work, mode: Mode, projection: Projection, second: bool
) -> tuple[Sampled, Sampled]:
    """The function to be differentiated, with the noise of exact steps and with the noise of
    rounded ones."""
    request = work.request
    program, values = frozen(inlined(request.program), request.values, request.dtype)
    if second:
        function = _gradient_function(work, projection)
    else:
        plain = plain_function(program, request.dtype)
        rows = (
            None if projection.rows is None else projection.rows.reshape(len(projection.rows), -1)
        )

        def function(at: Values) -> Float:
            flat = plain(at).reshape(-1)
            return flat if rows is None else rows @ flat

    def counted(at: Values) -> Float:
        work.evaluations += 1
        return function(at)

    zero = counted(values)
    bounds = request.bounds
    noise = _noise(work, program, values, counted, zero, projection, second)
    at_ops, rounded = noise(values, zero)
    return (
        Sampled(counted, values, bounds, at_ops, zero, lambda at, y: noise(at, y)[0]),
        Sampled(counted, values, bounds, rounded, zero, lambda at, y: noise(at, y)[1]),
    )


def _gradient_function(work: Work, projection: Projection) -> Callable[[Values], Float]:
    """The float64 gradient of the scalarised output by every input, flattened, or along the
    requested directions."""
    request = work.request
    program, _ = frozen(inlined(request.program), request.values, request.dtype)
    output = request.program.result.shape
    rows = np.ones((1, *output)) if projection.rows is None else projection.rows[:1]
    firsts = {
        name: along.reshape(len(along), -1) for name, along in (projection.firsts or {}).items()
    }

    def function(at: Values) -> Float:
        answer = work.engine.evaluate(
            Problem(
                program, at, request.wrt, "float64", request.dtype, "reverse", Projection(rows=rows)
            )
        )
        parts = []
        for name in request.wrt:
            gradient = answer.gradients.get(name)
            size = int(np.size(request.values[name]))
            missing = gradient is None or gradient.values is None
            empty = np.full(size, np.nan) if answer.failure else np.zeros(size)
            own = empty if missing else gradient.values.reshape(-1)  # type: ignore[union-attr]
            parts.append(own if name not in firsts else firsts[name] @ own)
        return np.concatenate(parts) if parts else np.zeros(0)

    return function


def _noise(
    work: Work,
    program: Program,
    values: Values,
    function: Callable[[Values], Float],
    start: Float,
    projection: Projection,
    second: bool,
) -> Callable[[Values, Float], tuple[Float, Float]]:
    """Return a function from inputs and the value there (at `values`: `start`) to the noise of that
    value: from its operations alone, and with the rounding of the inputs added."""
    rounding, operations = work.request.dtype, len(program.nodes)

    def summed(at: Values, zero: Float) -> tuple[Float, Float]:
        at_ops, at_inputs = output_noise_sums(program, at, rounding, projection.rows)
        # At the point itself, an operation may be at a vertical tangent with an exact argument. At
        # a step, it is there only because the argument was rounded: acos(cos(1e-9)).
        unknown = from_size(zero, 1) if at is values else np.inf
        return from_sums(zero, at_ops, unknown), from_sums(zero, at_ops + at_inputs, unknown)

    output = program.result.shape
    count = int(np.prod(output)) if projection.rows is None else len(projection.rows)
    if not second and count <= MOVED_ROWS:
        return summed
    if second or count > NOISE_ROWS:
        least = from_size(start, operations)
        noise = np.fmax(least, measured(function, values, start))
        here = noise, np.fmax(2 * noise, measured(function, values, start, exact=False))
    else:
        here = summed(values, start)

    def grown(at: Values, zero: Float) -> tuple[Float, Float]:
        # operations that change the value round at the size of the change
        more = from_size(zero - start, operations)
        return here[0] + more, here[1] + 2 * more

    return grown


def _take(
    work: Work, mode: Mode, projection: Projection, exact: Sampled, rounded: Sampled, second: bool
) -> dict[str, Differences]:
    """Take the differences of every block of a mode. A column is an entry, or a direction if
    columns are given."""
    request = work.request
    shapes = block_shapes(request, mode)
    columns = projection.columns or {}
    by_input = {
        name: Differences.empty(exact.zero.size, count)
        for name, count in counts(request, columns).items()
    }
    entries = sum(int(np.size(request.values[n])) for n in request.wrt if n not in columns)
    for name, differences in by_input.items():
        expected = _expected(work, mode, name)
        if name in columns:
            for k, tangent in enumerate(columns[name]):
                slope = rounded.along({name: np.asarray(tangent)}, expected[:, k])
                differences.put(k, slope)
        elif entries <= ENTRY_LIMIT:
            for k in range(differences.value.shape[1]):
                differences.put(k, exact.along_entry(name, k, expected[:, k]))
    if entries > ENTRY_LIMIT and not second:
        whole = {n: work.gradients.true[mode, n] for n in request.wrt if n not in columns}
        confirm(whole, by_input, exact.along_entry, rounded, request.seed)
    if not second:
        return by_input
    rows = rows_by_input(counts(request, projection.firsts))
    return {
        str(block): by_input[block.columns].rows(rows[block.rows])
        for block in hessian_blocks(request.wrt)
        if str(block) in shapes
    }


def _expected(work: Work, mode: Mode, name: str) -> Array:
    """The float64 gradient's columns for one input. Second order: over the rows of all inputs, with
    zeros for blocks that are not requested."""
    true, request = work.gradients.true, work.request
    if mode not in SECOND:
        return true[mode, name]
    projection = request.projections[mode]
    columns = counts(request, projection.columns)[name]
    parts = []
    for first, rows in counts(request, projection.firsts).items():
        zeros = np.zeros((rows, columns))
        parts.append(true.get((mode, str(HessianBlock(first, name))), zeros))
    return np.concatenate(parts)
