"""Findings about the value of the program: not finite (GC203), far from the exact value (GC303), or
off by no more than rounding the inputs explains (GC502)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat, wider
from gradcheck_cli.domain.evaluation import SECOND, Evaluation, order_of
from gradcheck_cli.domain.indices import index_of
from gradcheck_cli.domain.report import SHOWN_ENTRIES, Entry, Finding
from gradcheck_cli.domain.thresholds import ERROR_BITS, EXCUSED_MOVES, FIRST_ORDER_SLACK
from gradcheck_cli.domain.truth import Cost, Documented, PointKind, Truth, TruthBlock
from gradcheck_cli.judge.findings import finding
from gradcheck_cli.judge.measures import Mask, error_in_ulps, legitimately_flushed, within_rounding
from gradcheck_cli.judge.wording import documented_of, documented_words, genuine_overflow


def lost_rows(case: Case, evaluation: Evaluation) -> Mask:
    """Mark the rows of the Jacobian whose output is nan or infinite, shape (rows, 1)."""
    output = _flat(evaluation)
    if output is None:  # forward mode of an input without entries runs nothing
        return np.zeros((1, 1), dtype=bool)
    finite = np.isfinite(output)
    if evaluation.mode in SECOND or case.projections[evaluation.mode].rows is not None:
        return np.asarray([[not np.all(finite)]])
    return np.asarray(~finite[:, None])


def without_derivative(case: Case, evaluation: Evaluation, block: TruthBlock) -> Mask:
    """Mark the entries of a block that are not judged because their output is lost, shape (rows, 1)
    or (rows, columns). An output that is rightly infinite may have a derivative that fits the
    dtype, like 2^x at its largest."""
    lost = lost_rows(case, evaluation)
    output, truth, fmt = _flat(evaluation), case.truth, FORMATS[case.dtype]
    if output is None or truth is None or not np.any(lost) or len(lost) != output.size:
        return lost
    rightly = np.isinf(output) & (output == fmt.round(np.ravel(truth.output)))
    fits = block.certified & np.isfinite(fmt.round(block.value))
    return np.asarray(lost & ~(rightly[:, None] & fits))


def worst_output(case: Case, evaluation: Evaluation) -> tuple[int, float | None] | None:
    """The place of the worst element in the flattened output, with its exact value if known; None
    if all elements are right. Elements that are not finite come first."""
    output = _flat(evaluation)
    if output is None or case.truth is None:
        return None
    exact = np.ravel(case.truth.output)
    lost = ~np.isfinite(output)
    if lost.any():
        place = int(np.argmax(lost))
    elif _speaks_for_its_engine(case, evaluation):
        ulps = error_in_ulps(output, exact, FORMATS[case.dtype])
        weighed = case.truth.output_cost is not None
        off = _unstable(case, output, ulps) if weighed else ~_accepted(case, output)
        if not np.any(off):
            return None
        place = int(np.argmax(np.where(off, ulps, -1.0)))
    else:
        return None
    right = float(exact[place])
    return place, right if np.isfinite(right) else None


def is_far_off(case: Case, evaluation: Evaluation) -> bool:
    """Check whether the cost of rounding the output matters: an element is not finite, or has lost
    more than half of its digits."""
    output = _flat(evaluation)
    if output is None or case.truth is None:
        return False
    ulps = error_in_ulps(output, np.ravel(case.truth.output), FORMATS[case.dtype])
    return not np.all(np.isfinite(output)) or bool(np.any(_without_half(case, output, ulps)))


def output_findings(case: Case, evaluation: Evaluation) -> Iterable[Finding]:
    """Yield the first of these that applies: GC203 for an element that is not finite, GC303 for one
    that lost its digits, GC305 if the engine documents the loss, GC502 if rounding the inputs
    explains it."""
    output = _flat(evaluation)
    if output is None:
        return
    lost = ~np.isfinite(output)
    if lost.any():
        yield _lost_output(case, evaluation, output, int(np.argmax(lost)))
    elif case.truth is None or case.truth.output_cost is None:
        return  # nothing is known to be far off
    elif _speaks_for_its_engine(case, evaluation):
        ulps = error_in_ulps(output, np.ravel(case.truth.output), FORMATS[case.dtype])
        unstable = _unstable(case, output, ulps)
        says = unstable & _documented_elements(case, evaluation, output)
        if np.any(unstable & ~says):
            yield _inaccurate(case, evaluation, output, ulps, unstable & ~says)
        elif np.any(says):
            yield _inaccurate(case, evaluation, output, ulps, says, Codes.DOCUMENTED_APPROXIMATION)
        elif np.any(sensitive := _sensitive(case, output, ulps)):
            yield _inaccurate(case, evaluation, output, ulps, sensitive, Codes.ILL_CONDITIONED)


def _flat(evaluation: Evaluation) -> Array | None:
    """The flattened output; None for third order, where the output is a derivative along a
    direction and not the value that the truth has."""
    if evaluation.output is None or order_of(evaluation.mode) > 2:
        return None
    return np.asarray(evaluation.output, dtype=np.float64).reshape(-1)


def _speaks_for_its_engine(case: Case, evaluation: Evaluation) -> bool:
    """Check whether this is the engine's first evaluation with an output. Every mode computes the
    same value, so it is judged once an engine."""
    mine = (e for e in case.evaluations if e.engine == evaluation.engine and e.output is not None)
    return next(mine, None) is evaluation


def _accepted(case: Case, output: Array) -> Mask:
    """Mark the elements that are right, or whose truth is not known."""
    truth, fmt = case.truth, FORMATS[case.dtype]
    assert truth is not None
    exact, bar = np.ravel(truth.output), np.ravel(truth.output_error)
    unknown = ~np.isfinite(exact) | (not truth.output_certified)
    right = within_rounding(output, exact, bar, fmt)
    return np.asarray(right | unknown | legitimately_flushed(output, exact, fmt))


def _unstable(case: Case, output: Array, ulps: Array) -> Mask:
    """Mark the elements that lost more than half of their digits to this way of computing them, and
    not to the rounding of the inputs or to a cancellation to zero. Benign operations excuse no more
    here than the problem does, because each may cost half of the digits of bfloat16."""
    far = _half_lost(case, output, ulps)
    if np.any(far):
        cost = _cost(case)
        benign = np.fmin(cost.allowance, EXCUSED_MOVES / FIRST_ORDER_SLACK * cost.condition)
        far &= ~_is_explained(case, output, np.fmax(cost.condition, benign))
    return far


def _sensitive(case: Case, output: Array, ulps: Array) -> Mask:
    """Mark the elements that lost more than half of their digits, as in any computation from
    rounded inputs."""
    far = _half_lost(case, output, ulps)
    if np.any(far):
        far &= _is_explained(case, output, _cost(case).known_condition)
    return far


def _cost(case: Case) -> Cost:
    assert case.truth is not None
    assert case.truth.output_cost is not None  # or nothing is far off
    return case.truth.output_cost


def _half_lost(case: Case, output: Array, ulps: Array) -> Mask:
    """Mark the elements that lost more than half of their digits; none until the cost of rounding
    is known."""
    assert case.truth is not None
    if case.truth.output_cost is None:
        return np.zeros(output.shape, dtype=bool)
    return _without_half(case, output, ulps)


def _without_half(case: Case, output: Array, ulps: Array) -> Mask:
    truth = case.truth
    assert truth is not None
    lost = np.log2(np.maximum(ulps, 1.0)) > ERROR_BITS * FORMATS[case.dtype].bits
    is_zero = np.abs(np.ravel(truth.output)) <= np.ravel(truth.output_error)
    return np.asarray(lost & ~_accepted(case, output) & ~is_zero)


def _documented_elements(case: Case, evaluation: Evaluation, output: Array) -> Mask:
    """Mark the elements that agree with an approximation that the engine documents."""
    documented = documented_of(case, evaluation)
    if documented is None:
        return np.zeros(output.shape, dtype=bool)
    return follows_output(output, documented, FORMATS[case.dtype])


def follows_output(output: Array, documented: Documented, fmt: FloatFormat) -> Mask:
    """Mark the elements of a flat output that agree with the documented ones up to rounding."""
    value, bar = np.ravel(documented.output), np.ravel(documented.output_error)
    cost = documented.output_cost
    assert cost is not None  # it is requested together with the numbers
    granted = np.ravel(np.fmax(cost.known_condition, cost.allowance))
    return within_rounding(output, value, bar, fmt, granted)


def _is_explained(case: Case, output: Array, cost: Array) -> Mask:
    """Mark the elements whose error this cost of rounding explains."""
    truth = case.truth
    assert truth is not None
    exact, bar = np.ravel(truth.output), np.ravel(truth.output_error)
    return within_rounding(output, exact, bar, FORMATS[case.dtype], np.ravel(cost))


def worst_first(off: Mask, ulps: Array) -> Array:
    """The places of `off`, shape (n,), with the largest error first."""
    places = np.flatnonzero(off)
    return places[np.argsort(-ulps[places], kind="stable")]


def output_entries(
    output: Array, truth: Truth, ulps: Array, places: Array, shape: tuple[int, ...]
) -> tuple[Entry, ...]:
    """The first `SHOWN_ENTRIES` of these places of the flattened output, with their truth."""
    exact, bar = np.ravel(truth.output), np.ravel(truth.output_error)
    cost = None if truth.output_cost is None else np.ravel(truth.output_cost.floor)
    return tuple(
        Entry(
            index=index_of(place, shape),
            computed=float(output[place]),
            truth=float(exact[place]),
            truth_error=float(bar[place]),
            ulps=float(ulps[place]),
            rounding=None if cost is None else float(cost[place]),
        )
        for place in places[:SHOWN_ENTRIES]
    )


def _inaccurate(
    case: Case,
    evaluation: Evaluation,
    output: Array,
    ulps: Array,
    far: Mask,
    code: str = Codes.UNSTABLE_OUTPUT,
) -> Finding:
    truth, fmt = case.truth, FORMATS[case.dtype]
    assert truth is not None
    places = worst_first(far, ulps)
    worst = int(places[0])
    exact = np.ravel(truth.output)
    many = "the output" if output.size == 1 else f"{len(places)} of {output.size} outputs"
    documented = documented_of(case, evaluation) if code == Codes.DOCUMENTED_APPROXIMATION else None
    if code == Codes.ILL_CONDITIONED:
        known = f"{output[worst]:.6g}; exact: {exact[worst]:.6g}"
        what = f"{known}; explained by rounding the inputs alone"
    elif documented is not None:
        what = f"{output[worst]:.6g}; exact: {exact[worst]:.6g}: {documented_words(documented)}"
    elif output[worst] == 0:
        what = f"zero, although {fmt.name} can hold the exact value"
    else:
        bits = min(np.log2(ulps[worst]), fmt.bits)
        what = f"{bits:.0f} of {fmt.bits} bits lost in {fmt.name}"
    entries = output_entries(output, truth, ulps, places, np.shape(truth.output))
    return finding(
        case,
        code,
        f"{many}: {what}",
        evaluation=evaluation,
        span=None if documented is None else documented.span,
        entries=entries,
        more=len(places) - len(entries),
        truth_source="certified",
    )


def _lost_output(case: Case, evaluation: Evaluation, output: Array, place: int) -> Finding:
    shape = np.shape(np.asarray(evaluation.output))
    index = index_of(place, shape)
    value = float(output[place])
    where = f" at {index}" if index else ""
    right = float(np.ravel(case.truth.output)[place]) if case.truth is not None else np.nan
    fmt = FORMATS[case.dtype]
    message = f"the output{where} is {value}"
    if (cut := _input_too_large(case)) is not None:
        message += f"; the input `{cut}` is too large for {case.dtype}"
    elif _infinite_everywhere(case, right):
        message += f", as it is in {wider('float32').name}"
        return finding(
            case, Codes.NON_FINITE_OUTPUT, message, severity="warning", evaluation=evaluation
        )
    elif _overflows(right, fmt):
        message += f": {genuine_overflow('its exact value', right, fmt)}"
        if fmt.round(right) == value:  # as it should
            return finding(
                case, Codes.NON_FINITE_OUTPUT, message, severity="warning", evaluation=evaluation
            )
    elif (slope := _gradient_that_overflows(case, evaluation)) is not None:
        # even a mended value would have no gradient in this dtype
        what = f"the size of the exact gradient of `{slope[0]}`"
        message += f"; {genuine_overflow(what, slope[1], fmt)}"
    return finding(case, Codes.NON_FINITE_OUTPUT, message, evaluation=evaluation)


def _gradient_that_overflows(case: Case, evaluation: Evaluation) -> tuple[str, float] | None:
    """An input whose largest derivative does not fit the dtype, and the size of that derivative."""
    for (mode, name), block in (case.truth.blocks if case.truth is not None else {}).items():
        if mode == evaluation.mode:
            known = np.isfinite(block.error) & (block.kind == PointKind.SMOOTH)
            largest = np.max(np.abs(block.value), where=known, initial=0.0)
            if _overflows(float(largest), FORMATS[case.dtype]):
                return name, float(largest)
    return None


def _infinite_everywhere(case: Case, right: float) -> bool:
    """Check whether the output is infinite in the highest precision, too, and not certified to be
    finite. The value itself may be infinite, like the logarithm of a probability of 0."""
    certified = case.truth is not None and case.truth.output_certified
    return bool(np.isinf(right)) and not certified


def _overflows(exact: float, fmt: FloatFormat) -> bool:
    return bool(np.isinf(fmt.round(exact)))


def _input_too_large(case: Case) -> str | None:
    for name, start in case.spec.points[case.point or 0].items():
        if np.any(np.isinf(case.values[name]) & np.isfinite(start.value)):
            return name
    return None
