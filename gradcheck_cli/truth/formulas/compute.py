"""The truth of one spec at one point for one dtype, from enclosures, differences and the reference
engine."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from gradcheck_cli.domain.blocks import HessianBlock
from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS, Array, quiet
from gradcheck_cli.domain.evaluation import SECOND, Mode, order_of
from gradcheck_cli.domain.records import replace
from gradcheck_cli.domain.truth import Hull, PointKind, Truth, TruthBlock
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.engines.reference.engine import ReferenceEngine
from gradcheck_cli.truth.blocks import Differences, Merged, merge, unconstrained
from gradcheck_cli.truth.certified.ball_program import BallProgram
from gradcheck_cli.truth.certified.clip_guards import guards_of
from gradcheck_cli.truth.certified.enclose import (
    DOMAIN,
    DOUBT,
    KINK,
    Certificate,
    certify,
    certify_output,
)
from gradcheck_cli.truth.certified.limiting import Limiting, limiting
from gradcheck_cli.truth.conditioning.rounding_cost import with_costs
from gradcheck_cli.truth.formulas.documented import documented
from gradcheck_cli.truth.formulas.merge_certificates import (
    as_merged,
    certificates_in,
    certified,
    overlaid,
    remembered_output,
)
from gradcheck_cli.truth.formulas.request_cache import (
    Work,
    crossings_of,
    differences_of,
    largest,
    sampled,
)
from gradcheck_cli.truth.gradients import block_shapes
from gradcheck_cli.truth.numerics.noise import from_size
from gradcheck_cli.truth.plain import inlined
from gradcheck_cli.truth.subdifferential import hulls_of

# Columns for which a difference is taken besides a certified truth: each costs some twenty
# evaluations, and no verdict depends on them.
SECOND_OPINION = 16
NOT_CERTIFIED = "a third derivative needs a certificate, but this one has none"
SWALLOWED = "float64 hits a pole on the way to the output, which is finite nevertheless"


@quiet
def compute(request: TruthRequest) -> Truth:
    """Return the truth for every mode in `request.projections`.

    The truth is certified if the exact derivative can be enclosed (`certified`). Otherwise, and as
    a second opinion if the cost of rounding is requested, it comes from differences. First order:
    Romberg-extrapolated central differences of the float64 program (`differences`), merged with the
    reference engine's float64 gradient (`blocks`). Second order: differences of that gradient. More
    than `bisect_directions.ENTRY_LIMIT` entries are confirmed along random directions instead of
    one by one.
    """
    started = time.perf_counter()
    engine = ReferenceEngine()
    engine.load()
    request = replace(request, program=rounded(request.program, request.dtype))
    truth = request.known
    if truth is None or (_wants_differences(request) and _lacks_differences(truth)):
        truth = _truth(request, engine)
    if request.conditioning:
        if request.suspects is not None:
            truth = _with_natural_scale(truth, request, engine)
        truth = with_costs(truth, request, engine)
        if request.suspects is None:
            truth = replace(truth, documented=documented(request, engine))
    return replace(truth, duration_s=time.perf_counter() - started)


def _with_natural_scale(truth: Truth, request: TruthRequest, engine: ReferenceEngine) -> Truth:
    """The truth with a natural size of its derivatives. Without differences, which would show how
    steep the function is, an entry that is exactly 0 has no other scale."""
    work = Work(request, engine, inlined(request.program), np.zeros_like(truth.output))
    blocks = {
        (mode, name): replace(
            block, scale=np.fmax(block.scale, _natural_size(work, name, block.value.shape))
        )
        for (mode, name), block in truth.blocks.items()
    }
    return replace(truth, blocks=blocks)


def _wants_differences(request: TruthRequest) -> bool:
    """Check whether certified entries need differences as a second opinion."""
    return request.conditioning and request.suspects is None


def _only_certified(block: TruthBlock) -> TruthBlock:
    """The block with all entries undecided that are not certified: differences of a second
    derivative see its rounding before they see the third derivative."""
    return block.undecided_at(~block.certified & (block.kind == PointKind.SMOOTH))


def _lacks_differences(truth: Truth) -> bool:
    """Check whether a block was certified without a second opinion."""
    return any(
        np.any(block.certified) and bool(np.all(np.isnan(block.difference)))
        for block in truth.blocks.values()
    )


def _truth(request: TruthRequest, engine: ReferenceEngine) -> Truth:
    """The truth without the costs of rounding."""
    program = inlined(request.program)
    known = request.known
    balls = BallProgram(request)
    if known is not None and known.output_certified:
        value = remembered_output(known)
    else:
        value = certify_output(request, function=balls)
    work = Work(request, engine, program, value.nowhere)
    certificates = certificates_in(known) if known else certify(request, function=balls)
    blocks: dict[tuple[str, str], TruthBlock] = {}
    reasons: dict[tuple[str, str], str] = {}
    hulls: dict[str, tuple[Hull, ...]] = {}
    for mode in request.projections:
        mine = _all_certified(work, mode, certificates)
        blocks |= {(mode, name): block for name, block in mine.items()}
        for name, merged, differences in () if mine else _mode_blocks(work, mode, certificates):
            certificate = certificates.get((mode, name))
            blocks[mode, name] = _block(work, mode, name, merged, differences, certificate)
            if merged.reason:
                reasons[mode, name] = merged.reason
            if order_of(mode) > 2 and not np.all(blocks[mode, name].certified):
                blocks[mode, name] = _only_certified(blocks[mode, name])
                reasons[mode, name] = NOT_CERTIFIED
            if certificate is not None and certificate.reason == DOUBT:
                blocks[mode, name] = blocks[mode, name].undecided_at(certificate.tied)
                reasons[mode, name] = DOUBT
        limits = limiting(request, mode, certificates, blocks)
        if limits is not None:
            for name in request.wrt:
                blocks[mode, name] = limits.widened(name, blocks[mode, name])
        hulls[mode] = _hulls(work, mode, blocks, limits)
    output, error = value.value, value.radius
    if not value.sure.all():
        output = np.where(value.sure, output, work.output)
        error = np.where(value.sure, error, from_size(work.output, len(program.nodes)))
    return Truth(
        dtype=request.dtype,
        output=output,
        output_error=error,
        fallback=_fallback(certificates.values()),
        output_certified=bool(np.all(value.sure)),
        blocks=blocks,
        reasons=reasons,
        uncertified={key: c.reason for key, c in certificates.items() if c.reason},
        tied={key: c.tied for key, c in certificates.items() if c.tied.any()},
        hulls=hulls,
        guards=known.guards
        if known
        else guards_of(request, program, lambda: work.at_point, blocks, work.engine),
        forward=work.evaluations,
    )


def _fallback(certificates: Iterable[Certificate]) -> str:
    """Why differences replace a certificate. A point without a derivative does not count: it has
    none by nature."""
    reasons = [c.reason for c in certificates if c.reason not in ("", KINK, DOMAIN, DOUBT)]
    return reasons[0] if reasons else ""


def _settle_outputs(work: Work, mode: Mode, merged: Merged) -> None:
    """Mark rows without an output value as UNDEFINED, and rows that depend on a swallowed pole as
    UNDECIDED."""
    nowhere = _rows(work.nowhere, merged, mode)
    unknown = _rows(work.swallowed, merged, mode) & (merged.kind == PointKind.SMOOTH) & ~nowhere
    merged.kind[nowhere] = int(PointKind.UNDEFINED)
    merged.kind[unknown] = int(PointKind.UNDECIDED)
    merged.error[nowhere | unknown] = np.inf
    merged.value[nowhere] = np.nan
    if np.any(unknown):
        merged.reason = SWALLOWED
    elif not np.any(merged.kind == PointKind.UNDECIDED):
        merged.reason = ""


def _rows(outputs: Array, merged: Merged, mode: Mode) -> Array:
    """Turn a mask over the output into a mask over a block."""
    rows = outputs.reshape(-1, 1)
    if rows.shape[0] != merged.kind.shape[0] or mode in SECOND:  # rows are projections
        rows = np.full((1, 1), np.any(rows))
    return np.broadcast_to(rows, merged.kind.shape)


def _block(
    work: Work,
    mode: Mode,
    name: str,
    merged: Merged,
    differences: Differences,
    certificate: Certificate | None,
) -> TruthBlock:
    zeros = np.zeros_like(merged.value)
    costly = work.request.conditioning  # then its size matters
    taken = not np.all(np.isnan(differences.value))
    known = {} if certificate is None else {"certified": certificate.sure}
    return merged.block(
        differences,
        stated=_custom_value(work, mode, name, merged.value),
        scale=scale(work, name, differences) if costly or taken else zeros,
        **known,
    )


def _custom_value(work: Work, mode: Mode, name: str, value: Array) -> Array:
    """The user's custom gradient compared with the true `value`: enclosed, or else the true value
    plus the change in float64 from following the custom gradient."""
    request = work.request
    if not request.program.has_custom_gradient:
        return value
    if request.known is not None:
        return request.known.blocks[mode, name].stated
    certificate = work.stated.get((mode, name))
    if certificate is not None and np.all(certificate.sure):
        return certificate.value
    # both come from the same engine in float64, so they lose the same to rounding
    change = work.gradients.stated[mode, name] - work.gradients.true[mode, name]
    found = value + change
    return found if certificate is None else np.where(certificate.sure, certificate.value, found)


def _all_certified(
    work: Work, mode: Mode, certificates: Mapping[tuple[Mode, str], Certificate]
) -> dict[str, TruthBlock]:
    """The blocks of a mode if every entry is certified and no costs are requested, else an empty
    dict."""
    names = block_shapes(work.request, mode)
    mine = {name: certificates[mode, name] for name in names if (mode, name) in certificates}
    if work.request.conditioning or not all(one.sure.all() for one in mine.values()):
        return {}
    return {
        name: certified(one, _custom_value(work, mode, name, one.value))
        for name, one in mine.items()
    }


def _mode_blocks(
    work: Work, mode: Mode, certificates: Mapping[tuple[Mode, str], Certificate]
) -> Iterator[tuple[str, Merged, Differences]]:
    """Yield every block of a mode, with differences if a second opinion is wanted or the
    certificate is not sure."""
    names = block_shapes(work.request, mode)
    mine = {name: certificates[mode, name] for name in names if (mode, name) in certificates}
    rows = 1 if mode not in SECOND else len(work.request.wrt)  # of blocks, with the same columns
    entries = sum(columns for _, columns in names.values()) // rows
    wanted = _wants_differences(work.request) and entries <= SECOND_OPINION
    if mine and not wanted and all(one.sure.all() for one in mine.values()):
        for name, certificate in mine.items():
            yield name, as_merged(certificate), Differences.empty(*names[name])
        return
    for name, merged, differences in _by_differences(work, mode, mine):
        _settle_outputs(work, mode, merged)
        if name in mine:
            merged = overlaid(merged, mine[name])
            _settle_poles(merged, mine[name], work.gradients.true[mode, name])
        yield name, merged, differences


def _settle_poles(merged: Merged, certificate: Certificate, gradient: Array) -> None:
    """Mark entries as UNDEFINED that have no derivative in exact arithmetic, an infinite one in
    float64, and no digit in the difference: a vertical tangent at the edge of the domain."""
    if certificate.reason != DOMAIN:
        return
    pole = ~certificate.sure & np.isinf(gradient) & (merged.error > np.abs(merged.value))
    pole &= merged.kind == PointKind.SMOOTH
    merged.kind[pole] = int(PointKind.UNDEFINED)
    merged.error[pole] = np.inf
    merged.value[pole] = np.nan


def _by_differences(
    work: Work, mode: Mode, certificates: Mapping[str, Certificate]
) -> Iterator[tuple[str, Merged, Differences]]:
    """Yield every block, merged from differences and the float64 gradient. Costs of rounding are
    computed only for blocks that are not certified."""
    sure = {name for name, certificate in certificates.items() if np.all(certificate.sure)}
    for name, differences in differences_of(work, mode).items():
        gradient = work.gradients.true[mode, name]
        spread = work.gradients.spread[mode, name]
        ulp = FORMATS[work.request.dtype].ulp(gradient)
        none = np.zeros_like(gradient)
        rounding = work.rounding(mode, name) if name not in sure else lambda none=none: (none, none)
        structural = _structural(work, certificates.get(name))
        merged = merge(gradient, spread, differences, structural, ulp, rounding, stairs=work.stairs)
        if mode in SECOND:
            tied = (merged.kind == PointKind.SMOOTH) & structural
            if np.any(tied):  # an engine may combine pieces that a kink separates
                merged.kind[crossings_of(work, mode, name, tied)] = int(PointKind.KINK)
            merged = unconstrained(merged)
        yield name, merged, differences


def _structural(work: Work, certificate: Certificate | None) -> Array | bool:
    """The entries that depend on a kink: exactly these if the program could be enclosed, else all
    if some operation is on a kink in float64."""
    if certificate is None or certificate.reason not in ("", KINK, DOMAIN):
        return work.structural
    return certificate.tied


def _hulls(
    work: Work, mode: Mode, blocks: dict[tuple[str, str], TruthBlock], limits: Limiting | None
) -> tuple[Hull, ...]:
    """Hulls along directions through all entries at kinks, if there are several."""
    projection = work.request.projections[mode]
    if mode in SECOND or projection.columns is not None:
        return ()
    mine = {name: blocks[mode, name] for name in work.request.wrt}
    if sum(int(np.sum(b.kind == PointKind.KINK)) for b in mine.values()) < 2:
        return ()
    _, rounded = sampled(work, mode, projection, False)
    return hulls_of(mine, differences_of(work, mode), rounded, work.request.seed, limits)


def scale(work: Work, name: str, differences: Differences) -> Array:
    """By entry: the steepest difference that was taken, or a derivative of natural size."""
    return np.fmax(differences.steepest, _natural_size(work, name, differences.value.shape))


def _natural_size(work: Work, name: str, shape: tuple[int, ...]) -> Array:
    """|output| / |input| by entry, in `shape`: a derivative as large as the function itself. Second
    order: |output| / (|one input| |other input|), where an input counts as 1 at most, because the
    function may bend on the scale of 1 although an input is larger, like softmax. An output counts
    as large as the terms that add up to it, which may cancel."""
    outputs = np.abs(work.output).reshape(-1, 1)
    inputs = work.request.wrt
    block = None if name in inputs else HessianBlock.named(name, inputs)
    terms = work.terms
    if block or outputs.shape[0] != shape[0]:  # rows are projections
        outputs, terms = (np.full((1, 1), largest(sizes)) for sizes in (outputs, terms))
    outputs = np.fmax(outputs, terms)
    if block is None:
        size = outputs / _sizes(work, name, shape[1]).T
    else:
        size = outputs / np.fmin(_sizes(work, block.columns, shape[1]), 1.0).T
        size = size / np.fmin(_sizes(work, block.rows, shape[0]), 1.0)
    return np.broadcast_to(np.where(np.isfinite(size), size, 0.0), shape)


def _sizes(work: Work, name: str, count: int) -> Array:
    """The sizes of an input's entries, (count, 1), 1 for zeros; if `count` is not their number, the
    largest of them, (1, 1)."""
    sizes = np.abs(np.asarray(work.request.values[name], dtype=np.float64)).reshape(-1, 1)
    if len(sizes) != count:  # directions, not entries
        sizes = np.full((1, 1), np.max(sizes, initial=0.0))
    return np.where(sizes == 0, 1.0, sizes)
