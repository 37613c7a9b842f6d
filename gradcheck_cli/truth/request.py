"""The truth of one spec at one point for one dtype, from differences and the reference engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Mode, Problem, Projection
from gradcheck_cli.domain.program import CONSTANT, Program
from gradcheck_cli.domain.truth import Hull, PointKind, Truth, TruthBlock
from gradcheck_cli.engines.reference import ReferenceEngine
from gradcheck_cli.engines.walker import rounded
from gradcheck_cli.truth.blocks import Differences, Merged, is_on_a_kink, merge, unconstrained
from gradcheck_cli.truth.certified import Certificate, certify, certify_output
from gradcheck_cli.truth.conditioning import Conditioning, conditioning, with_costs
from gradcheck_cli.truth.differences import Float
from gradcheck_cli.truth.directions import Sampled, Values
from gradcheck_cli.truth.gradients import Float64Gradients, block_shapes, float64_gradients
from gradcheck_cli.truth.halving import ENTRY_LIMIT, confirm
from gradcheck_cli.truth.hulls import hulls_of
from gradcheck_cli.truth.noise import from_size, from_sums, measured
from gradcheck_cli.truth.overlay import alone, overlaid, remembered
from gradcheck_cli.truth.plain import PlainFunction, frozen, inlined
from gradcheck_cli.truth.poles import swallowed_poles
from gradcheck_cli.truth.tape import output_noise_sums

SECOND: tuple[Mode, ...] = ("reverse-over-reverse", "forward-over-reverse")
NOISE_ROWS = 64  # rows for which the rounding of the output is summed up exactly, one walk each,
MOVED_ROWS = 4  # and at other points than the one in question, two a column
SWALLOWED = "float64 meets a pole on the way to the output, which is finite nevertheless"


@dataclass
class _Work:
    """What is shared between the blocks of one request."""

    request: TruthRequest
    engine: ReferenceEngine
    structural: bool
    on_the_way: float
    swallowed: Array
    difference_cache: dict[object, dict[str, Differences]] = field(default_factory=dict)
    rounding_cache: dict[tuple[Mode, str], Conditioning] | None = None
    evaluations: int = 0

    @cached_property
    def gradients(self) -> Float64Gradients:
        """Computed where they are asked for: not where everything is certified."""
        return float64_gradients(self.request, self.engine)

    def rounding(self, mode: Mode, name: str) -> Callable[[], tuple[Array, Array]]:
        """C and R of a block in float64, when they are asked for."""

        def of_block() -> tuple[Array, Array]:
            if self.rounding_cache is None:
                true = self.gradients.true
                self.rounding_cache = conditioning(self.request, true, self.engine, "float64")
            cost = self.rounding_cache[mode, name]
            return cost.condition, cost.floor

        return of_block


def compute(request: TruthRequest) -> Truth:
    """Truth for every mode in `request.projections`.

    Certified, where the exact derivative can be enclosed (`certified`). Elsewhere, and as a second
    opinion where the cost of rounding is asked for, differences. First order: Romberg-extrapolated
    central differences of the float64 program (`differences`), merged with the reference engine's
    float64 gradient (`blocks`). Second order: differences of that gradient. More than
    `halving.ENTRY_LIMIT` entries are confirmed along random directions instead of one by one.
    """
    started = time.perf_counter()
    engine = ReferenceEngine()
    engine.load()
    request = replace(request, program=rounded(request.program, request.dtype))
    truth = request.known
    if truth is None or (request.conditioning and _lacks_differences(truth)):
        truth = _truth(request, engine)
    if request.conditioning:
        truth = with_costs(truth, request, engine)
    return replace(truth, duration_s=time.perf_counter() - started)


def _lacks_differences(truth: Truth) -> bool:
    """Whether a block was certified, and no second opinion asked for."""
    return any(
        np.any(block.certified) and bool(np.all(np.isnan(block.difference)))
        for block in truth.blocks.values()
    )


def _truth(request: TruthRequest, engine: ReferenceEngine) -> Truth:
    """All of it but the costs of rounding."""
    program = inlined(request.program)
    at_point = PlainFunction(program, request.dtype).nodes(request.values)
    structural = is_on_a_kink(at_point, program)
    work = _Work(
        request,
        engine,
        structural,
        _on_the_way(program, at_point),
        swallowed_poles(program, at_point),
    )
    certificates: Mapping[tuple[Mode, str], Certificate] = {}
    if request.known is not None:
        certificates = remembered(request.known)
    elif not structural:
        certificates = certify(request)
    blocks: dict[tuple[str, str], TruthBlock] = {}
    reasons: dict[tuple[str, str], str] = {}
    hulls: dict[str, tuple[Hull, ...]] = {}
    for mode in request.projections:
        for name, merged, differences in _mode_blocks(work, mode, certificates):
            certificate = certificates.get((mode, name))
            blocks[mode, name] = _block(work, mode, name, merged, differences, certificate)
            if merged.reason:
                reasons[mode, name] = merged.reason
        hulls[mode] = _hulls(work, mode, blocks)
    output, output_error = _output(request, np.asarray(at_point[program.output], np.float64))
    return Truth(
        dtype=request.dtype,
        output=output,
        output_error=output_error,
        blocks=blocks,
        reasons=reasons,
        uncertified={key: c.reason for key, c in certificates.items() if c.reason},
        hulls=hulls,
        forward=work.evaluations,
    )


def _output(request: TruthRequest, plain: Array) -> tuple[Array, Array]:
    """The value of the program and its error bar; `plain` is what float64 gives."""
    if request.known is not None:
        return request.known.output, request.known.output_error
    certificate = certify_output(request)
    rough = from_size(plain, len(request.program.nodes))
    return (
        np.where(certificate.sure, certificate.value, plain),
        np.where(certificate.sure, certificate.radius, rough),
    )


def _forget(work: _Work, mode: Mode, merged: Merged) -> None:
    """Leave open what hangs on a pole that was swallowed."""
    rows = work.swallowed.reshape(-1, 1)
    if rows.shape[0] != merged.kind.shape[0] or mode in SECOND:  # rows are projections
        rows = np.full((1, 1), np.any(rows))
    unknown = rows & (merged.kind == PointKind.SMOOTH)
    if np.any(unknown):
        merged.kind[unknown] = int(PointKind.UNDECIDED)
        merged.error[unknown] = np.inf
        merged.reason = SWALLOWED


def _block(
    work: _Work,
    mode: Mode,
    name: str,
    merged: Merged,
    differences: Differences,
    certificate: Certificate | None,
) -> TruthBlock:
    zeros = change = np.zeros_like(merged.value)
    if work.request.program.has_custom_gradient:
        with np.errstate(all="ignore"):
            # both by the same engine in float64: what that loses to rounding, both lose
            change = work.gradients.stated[mode, name] - work.gradients.true[mode, name]
    taken = not np.all(np.isnan(differences.value))
    return TruthBlock(
        value=merged.value,
        error=merged.error,
        difference=differences.value,
        difference_error=np.where(np.isnan(differences.value), np.nan, differences.error),
        kind=merged.kind,
        lower=merged.lower,
        upper=merged.upper,
        condition=zeros,
        allowance=zeros,
        floor=zeros,
        stated=merged.value + change,
        confirmed=merged.confirmed,
        certified=zeros.astype(np.bool_) if certificate is None else certificate.sure,
        scale=_scale(work, name, differences) if taken else zeros,
    )


def _scale(work: _Work, name: str, differences: Differences) -> Array:
    with np.errstate(all="ignore"):
        return np.fmax(differences.steepest, _natural_size(work, name, differences.value.shape))


def _natural_size(work: _Work, name: str, shape: tuple[int, ...]) -> Array:
    """|output| / |input| by entry, in `shape`: a derivative as large as the function itself; second
    order, |output| / (|one input| |other input|). Where values cancel, the output is as large as
    those on the way."""
    outputs = np.abs(np.asarray(work.gradients.output, dtype=np.float64)).reshape(-1, 1)
    first, _, second = name.rpartition(".")
    if first or outputs.shape[0] != shape[0]:  # rows are projections
        outputs = np.full((1, 1), _largest(outputs))
    outputs = np.fmax(outputs, work.on_the_way)
    size = outputs / _sizes(work, second, shape[1]).T
    if first:
        size = size / _sizes(work, first, shape[0])
    return np.broadcast_to(np.where(np.isfinite(size), size, 0.0), shape)


def _on_the_way(program: Program, at_point: list[Array]) -> float:
    """The largest finite number that is computed on the way to the output."""
    nodes = zip(program.nodes, at_point, strict=True)
    return max((_largest(v) for n, v in nodes if n.kind == "float" and n.op != CONSTANT), default=0)


def _largest(values: Array) -> float:
    sizes = np.abs(np.asarray(values, dtype=np.float64))
    return float(np.max(sizes[np.isfinite(sizes)], initial=0.0))


def _sizes(work: _Work, name: str, count: int) -> Array:
    """Sizes of an input's entries, (count, 1), 1 for zeros; where `count` is not their number, the
    largest of them, (1, 1)."""
    sizes = np.abs(np.asarray(work.request.values[name], dtype=np.float64)).reshape(-1, 1)
    if len(sizes) != count:  # directions, not entries
        sizes = np.full((1, 1), np.max(sizes, initial=0.0))
    return np.where(sizes == 0, 1.0, sizes)


def _mode_blocks(
    work: _Work, mode: Mode, certificates: Mapping[tuple[Mode, str], Certificate]
) -> Iterator[tuple[str, Merged, Differences]]:
    """Every block of a mode, with differences where a second opinion is wanted or the certificate
    is not sure."""
    names = block_shapes(work.request, mode)
    mine = {name: certificates[mode, name] for name in names if (mode, name) in certificates}
    if mine and not work.request.conditioning and all(np.all(c.sure) for c in mine.values()):
        for name, certificate in mine.items():
            yield name, alone(certificate), Differences.empty(*names[name])
        return
    for name, merged, differences in _by_differences(work, mode):
        _forget(work, mode, merged)
        if name in mine:
            merged = overlaid(merged, mine[name])
        yield name, merged, differences


def _by_differences(work: _Work, mode: Mode) -> Iterator[tuple[str, Merged, Differences]]:
    for name, differences in _differences(work, mode).items():
        gradient = work.gradients.true[mode, name]
        spread = work.gradients.spread[mode, name]
        ulp = FORMATS[work.request.dtype].ulp(gradient)
        rounding = work.rounding(mode, name)
        merged = merge(gradient, spread, differences, work.structural, ulp, rounding)
        if mode in SECOND:
            merged = unconstrained(merged)
        yield name, merged, differences


def _differences(work: _Work, mode: Mode) -> dict[str, Differences]:
    projection = work.request.projections[mode]
    second = mode in SECOND
    key = (second, id(projection.rows), id(projection.columns))
    if key not in work.difference_cache:
        sampled, along = _sampled(work, mode, projection, second)
        work.difference_cache[key] = _take(work, mode, projection, sampled, along, second)
    # a merge may note in its differences what it settled, so every mode has its own
    return {
        name: replace(d, value=d.value.copy(), error=d.error.copy(), kind=d.kind.copy())
        for name, d in work.difference_cache[key].items()
    }


def _sampled(
    work: _Work, mode: Mode, projection: Projection, second: bool
) -> tuple[Sampled, Sampled]:
    """The function to be differentiated: with the noise of exact steps, and of rounded ones."""
    request = work.request
    program, values = frozen(inlined(request.program), request.values, request.dtype)
    if second:
        function = _gradient_function(work, projection)
    else:
        plain = PlainFunction(program, request.dtype)
        rows = (
            None if projection.rows is None else projection.rows.reshape(len(projection.rows), -1)
        )

        def function(at: Values) -> Float:
            flat = plain(at).reshape(-1)
            return flat if rows is None else rows @ flat

    def counted(at: Values) -> Float:
        work.evaluations += 1
        with np.errstate(all="ignore"):
            return function(at)

    zero = counted(values)
    bounds, smooth = request.bounds, not work.structural
    noise = _noise(work, program, values, counted, zero, projection, second)
    at_ops, rounded = noise(values, zero)
    return (
        Sampled(counted, values, bounds, at_ops, zero, lambda at, y: noise(at, y)[0], smooth),
        Sampled(counted, values, bounds, rounded, zero, lambda at, y: noise(at, y)[1], smooth),
    )


def _gradient_function(work: _Work, projection: Projection) -> Callable[[Values], Float]:
    """The float64 gradient of the scalarised output with respect to every input, flattened."""
    request = work.request
    program, _ = frozen(inlined(request.program), request.values, request.dtype)
    output = request.program.nodes[request.program.output].shape
    rows = np.ones((1, *output)) if projection.rows is None else projection.rows[:1]

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
            parts.append(empty if missing else gradient.values.reshape(-1))  # type: ignore[union-attr]
        return np.concatenate(parts) if parts else np.zeros(0)

    return function


def _noise(
    work: _Work,
    program: Program,
    values: Values,
    function: Callable[[Values], Float],
    start: Float,
    projection: Projection,
    second: bool,
) -> Callable[[Values, Float], tuple[Float, Float]]:
    """From inputs and the value there (at `values`: `start`), the noise of that value by its
    operations, and with that of inputs that were rounded too."""
    rounding, operations = work.request.dtype, len(program.nodes)

    def summed(at: Values, zero: Float) -> tuple[Float, Float]:
        at_ops, at_inputs = output_noise_sums(program, at, rounding, projection.rows)
        return from_sums(zero, at_ops), from_sums(zero, at_ops + at_inputs)

    output = program.nodes[program.output].shape
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
        # where the value changes, the operations that change it round at the size of the change
        with np.errstate(all="ignore"):
            more = from_size(zero - start, operations)
        return here[0] + more, here[1] + 2 * more

    return grown


def _take(
    work: _Work,
    mode: Mode,
    projection: Projection,
    exact: Sampled,
    rounded: Sampled,
    second: bool,
) -> dict[str, Differences]:
    """Differences of every block of a mode; a column is an entry, or a direction where columns are
    given."""
    request = work.request
    shapes = block_shapes(request, mode)
    columns = projection.columns or {}
    by_input = {
        name: Differences.empty(exact.zero.size, _columns(request, columns, name))
        for name in request.wrt
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
        confirm(whole, by_input, exact, rounded, request.seed)
    if not second:
        return by_input
    return {
        f"{a}.{b}": _rows_of(request, by_input[b], a)
        for a in request.wrt
        for b in request.wrt
        if f"{a}.{b}" in shapes
    }


def _expected(work: _Work, mode: Mode, name: str) -> Array:
    """The float64 gradient's columns for one input; second order, over the rows of all inputs."""
    true = work.gradients.true
    if mode not in SECOND:
        return true[mode, name]
    return np.concatenate([true[mode, f"{other}.{name}"] for other in work.request.wrt])


def _columns(request: TruthRequest, columns: object, name: str) -> int:
    if isinstance(columns, dict) and name in columns:
        return len(columns[name])
    return int(np.size(request.values[name]))


def _rows_of(request: TruthRequest, differences: Differences, name: str) -> Differences:
    """The rows of the flattened gradient that belong to input `name`."""
    start = 0
    for other in request.wrt:
        size = int(np.size(request.values[other]))
        if other == name:
            part = slice(start, start + size)
            return Differences(
                differences.value[part],
                differences.error[part],
                differences.kind[part],
                differences.above[part],
                differences.below[part],
                differences.side_error[part],
                differences.vouched[part],
                differences.steepest[part],
            )
        start += size
    raise KeyError(name)


def _hulls(work: _Work, mode: Mode, blocks: dict[tuple[str, str], TruthBlock]) -> tuple[Hull, ...]:
    """One-sided derivatives along directions through all entries at kinks, if there are several."""
    projection = work.request.projections[mode]
    if mode in SECOND or projection.columns is not None:
        return ()
    mine = {name: blocks[mode, name] for name in work.request.wrt}
    if sum(int(np.sum(b.kind == PointKind.KINK)) for b in mine.values()) < 2:
        return ()
    _, rounded = _sampled(work, mode, projection, False)
    return hulls_of(mine, _differences(work, mode), rounded, work.request.seed)
