"""Judge one case: compare every evaluation with the truth, then the evaluations with each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from gradcheck_cli.domain.blocks import blocks_in
from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.evaluation import SECOND, Evaluation, Mode, Operation, Trace, order_of
from gradcheck_cli.domain.implications import OF_A_CASE, without_implied
from gradcheck_cli.domain.records import dataclass, replace
from gradcheck_cli.domain.report import Check, Finding, Pass, Rule, Status
from gradcheck_cli.domain.thresholds import ERROR_BITS, FEW_ULPS
from gradcheck_cli.domain.truth import PointKind, Truth, TruthBlock
from gradcheck_cli.judge.agreement import engines_disagree, modes_disagree
from gradcheck_cli.judge.decision import Evidence, Judged, Verdict, judge_block
from gradcheck_cli.judge.failing import top_of
from gradcheck_cli.judge.failures import (
    dtype_finding,
    failure_finding,
    internal_finding,
    no_truth_finding,
)
from gradcheck_cli.judge.findings import (
    engine_findings,
    finding,
    finding_at,
    guard_findings,
    point_findings,
    source_of,
)
from gradcheck_cli.judge.gate import rules_of
from gradcheck_cli.judge.kinks import outside_hull
from gradcheck_cli.judge.measures import Mask, accepted, error_in_ulps
from gradcheck_cli.judge.outputs import (
    follows_output,
    lost_rows,
    output_findings,
    without_derivative,
)
from gradcheck_cli.judge.suspects import wide_of
from gradcheck_cli.judge.wording import DERIVATIVES, About, documented_of

ROUGH = {
    PointKind.KINK: Verdict.KINK,
    PointKind.UNDEFINED: Verdict.UNDEFINED,
    PointKind.JUMP: Verdict.JUMP,
}

# For each verdict: the verdict itself if it describes the point, otherwise CORRECT.
_OF_POINT = np.array(
    [int(v) if v in (*ROUGH.values(), Verdict.UNDECIDED) else int(Verdict.CORRECT) for v in Verdict]
)


@dataclass(slots=True)
class _Collected:
    checks: list[Check]
    findings: list[Finding]
    point: dict[tuple[Mode, str], Array]  # the verdicts that engines agree on for the point itself


def judge(case: Case) -> tuple[tuple[Check, ...], tuple[Finding, ...]]:
    """Return the checks and findings of one case: first the findings of engines, then those of the
    point, then disagreements of modes and engines."""
    got = _Collected([], [], {})
    for evaluation in case.evaluations:
        if evaluation.failure is not None:
            got.findings.append(failure_finding(case, evaluation))
            got.checks.extend(
                _check(case, evaluation, name, "error", None, "undecided")
                for name in _names(case, evaluation)
            )
        elif case.truth is None:
            lost = case.no_truth is not None and case.no_truth.kind == "internal"
            got.checks.extend(
                _check(case, evaluation, name, "error", None, "undecided")
                if lost
                else _unjudged(case, evaluation, name, "undecided")
                for name in _names(case, evaluation)
            )
        else:
            _judge_evaluation(case, evaluation, got)
    if case.truth is None and any(e.failure is None for e in case.evaluations):
        got.findings.append(no_truth_finding(case, case.no_truth))
    traced = (e.trace.fault for e in case.traced.values() if e.trace)
    faults = {fault.message: fault for fault in traced if fault}
    got.findings += [internal_finding(case, fault) for fault in faults.values()]
    findings = [*got.findings, *_without_engine(case, got)]
    return tuple(got.checks), tuple(without_implied(findings, OF_A_CASE))


def _without_engine(case: Case, got: _Collected) -> list[Finding]:
    """Findings of the point, and disagreements of modes and engines at undecided entries."""
    if case.truth is None:
        return []
    own = tuple(e for e in case.evaluations if not e.approximation)
    derived = replace(case, evaluations=own)
    agreement = [*modes_disagree(derived, got.point), *engines_disagree(derived, got.point)]
    return [*point_findings(case, got.point), *guard_findings(case), *agreement]


def _names(case: Case, evaluation: Evaluation) -> list[str]:
    if evaluation.mode in SECOND:
        return [str(block) for block in blocks_in(evaluation.mode, case.spec.wrt)]
    return list(case.spec.wrt)


def _check(
    case: Case,
    evaluation: Evaluation,
    name: str,
    status: Status,
    ulps: float | None,
    truth: str,
    known: float | None = None,
    passed_by: Sequence[Pass] = (),
) -> Check:
    return Check(
        engine=evaluation.engine,
        dtype=case.dtype,
        mode=evaluation.mode,
        input=name,
        status=status,
        point=case.point,
        max_ulps=ulps,
        passed_by=tuple(passed_by),
        truth=truth,
        truth_error_ulps=known,
        forward=evaluation.forward,
        backward=evaluation.backward,
        duration_s=evaluation.duration_s,
    )


def _unjudged(case: Case, evaluation: Evaluation, name: str, rule: Rule) -> Check:
    """Return a check that passes by `rule`, because no number was compared with a truth."""
    gradient = evaluation.gradients.get(name)
    values = None if gradient is None else gradient.values
    passed_by = [Pass(rule, 0 if values is None else int(values.size))]
    return _check(case, evaluation, name, "passed", None, "undecided", None, passed_by)


def _judge_evaluation(case: Case, evaluation: Evaluation, got: _Collected) -> None:
    if evaluation.approximation:
        checks, findings = _judge_approximation(case, evaluation)
        got.checks.extend(checks)
        got.findings.extend(findings)
        return
    flush = _flushed_finding(case, evaluation)
    if flush is not None:
        got.findings.append(flush)
        got.checks.extend(
            _unjudged(case, evaluation, name, "flushed input") for name in _names(case, evaluation)
        )
        return
    of_output = list(output_findings(case, evaluation))
    got.findings.extend(of_output)
    failed = any(f.severity == "error" for f in of_output)
    apart = outside_hull(case, evaluation)
    steepest = _steepest(case.truth, evaluation.mode)
    for name in _names(case, evaluation):
        block = case.truth.blocks.get((evaluation.mode, name))  # type: ignore[union-attr]
        gradient = evaluation.gradients.get(name)
        if block is None or gradient is None:
            continue
        if gradient.values is None:
            _judge_missing(case, evaluation, name, block, got)
            continue
        evidence = Evidence(
            gradient.values,
            block,
            wide_of(case, evaluation, name),
            without_derivative(case, evaluation, block),
            FORMATS[case.dtype],
            case.spec.tolerance,
            repairable=_repairable(case, evaluation),
            rounds=_rounds(case, evaluation),
            documented=_documented(case, evaluation, name),
            unweighed=case.unweighed,
            apart=apart.get(name, False),
            steepest=steepest,
        )
        _judge_gradient(case, evaluation, name, evidence, failed, got)


def _steepest(truth: Truth | None, mode: Mode) -> Array:
    """The largest finite derivative of each output by any input, shape (rows, 1). In higher orders,
    where inputs have different rows, that of all."""
    blocks = {} if truth is None else truth.blocks
    sizes = [top_of(block.steepest) for (of_mode, _), block in blocks.items() if of_mode == mode]
    if order_of(mode) > 1:
        sizes = [np.max(size, keepdims=True, initial=0.0) for size in sizes]
    return reduce(np.maximum, sizes, np.zeros((1, 1)))


def _judge_gradient(
    case: Case, evaluation: Evaluation, name: str, evidence: Evidence, failed: bool, got: _Collected
) -> None:
    """Add the findings and the check of one block. `failed`: the output is wrong, so the check
    fails."""
    gradient, block, fmt = evaluation.gradients[name], evidence.block, evidence.format
    findings = []
    if gradient.dtype not in (None, evaluation.dtype):
        findings.append(dtype_finding(case, evaluation, name, str(gradient.dtype)))
    judged = judge_block(evidence, settled=case.settled)
    findings += engine_findings(case, evaluation, name, block, judged)
    got.findings.extend(findings)
    _merge_point(got, evaluation.mode, name, block, judged)
    bad = failed or any(f.severity == "error" for f in findings)
    passes = rules_of(evidence.g, block, judged, fmt, evidence.tolerance)
    got.checks.append(
        _check(
            case,
            evaluation,
            name,
            "failed" if bad else "passed",
            _max_ulps(judged, block),
            source_of(case, block),
            _widest_bar(block, fmt),
            [one for one in passes if not (bad and one.rule == "none")],
        )
    )


def _widest_bar(block: TruthBlock, fmt: FloatFormat) -> float | None:
    """The widest error bar of the truth over smooth entries, in ulps; None if one is unbounded."""
    error, value = block.error, block.value
    if block.kind.any():
        smooth = block.kind == PointKind.SMOOTH
        error, value = error[smooth], value[smooth]
    bars = error / fmt.ulp(value)
    return float(bars.max()) if bars.size and np.isfinite(bars).all() else None


def _max_ulps(judged: Judged, block: TruthBlock) -> float | None:
    """Return the largest error over smooth entries in ulps; None if one of the errors is not
    finite, or if no entry is smooth."""
    smooth = (block.kind == PointKind.SMOOTH) & (judged.verdict != Verdict.OUTPUT_LOST)
    # a truth that cannot be distinguished from zero has no digits to count an error in
    known = block.error <= FORMATS["float64"].smallest_subnormal
    known |= judged.ulps <= FEW_ULPS
    smooth &= (np.abs(block.value) > block.error) | known
    errors = judged.ulps[smooth]
    if not np.isfinite(errors).all() or (block.value.size and not errors.size):
        return None
    return float(errors.max(initial=0.0))


def _merge_point(got: _Collected, mode: Mode, name: str, block: TruthBlock, judged: Judged) -> None:
    """Merge the verdicts of an engine into the verdicts for the point itself. These do not depend
    on the engine, unless its output was lost."""
    before = got.point.get((mode, name))
    if not (judged.verdict.any() or block.kind.any()):
        got.point.setdefault((mode, name), judged.verdict)
        return
    verdicts = _OF_POINT[judged.verdict]
    if np.any(block.kind):
        # an undefined or jumping entry stays one if an engine is right or fails there; so does a
        # kink if the engine returns no number
        lost = np.isin(judged.verdict, (Verdict.NAN, Verdict.INFINITE, Verdict.OUTPUT_LOST))
        for kind, verdict in ROUGH.items():
            at = (block.kind == kind) & (lost | (kind != PointKind.KINK))
            verdicts = np.where(at, int(verdict), verdicts)
    got.point[mode, name] = verdicts if before is None else np.maximum(before, verdicts)


def _judge_missing(
    case: Case, evaluation: Evaluation, name: str, block: TruthBlock, got: _Collected
) -> None:
    """Add the check of a gradient that an engine did not return: right only if the truth is
    zero."""
    nonzero = (np.abs(block.value) > block.error) & (block.kind == PointKind.SMOOTH)
    nonzero |= (block.kind == PointKind.KINK) & ((block.lower > 0) | (block.upper < 0))
    nonzero &= ~lost_rows(case, evaluation)  # a lost output needs no gradient
    missing = bool(np.any(nonzero))
    if missing:
        code, what = (
            Codes.MISSING_GRADIENT,
            f"no gradient for `{name}`, but its derivative is not zero",
        )
        if evaluation.mode == "forward":
            what = f"forward mode gives no tangent for `{name}`, but its derivative is not zero"
        if evaluation.mode in SECOND:
            code, what = (
                Codes.WRONG_SECOND_DERIVATIVE,
                f"no {DERIVATIVES[order_of(evaluation.mode)]} for `{name}`, but it is not zero",
            )
        places = np.argwhere(nonzero)
        places = places[np.argsort(-np.abs(block.value[nonzero]), kind="stable")]
        about = About(case, evaluation.mode, name, block, places, evaluation)
        found = finding_at(about, code, what)
        got.findings.append(replace(found, truth_source=source_of(case, block)))
    of_point = Judged(np.zeros(block.kind.shape, np.int64), np.zeros(block.kind.shape))
    _merge_point(got, evaluation.mode, name, block, of_point)
    status: Status = "failed" if missing else "passed"
    passed_by = () if missing else [Pass("no gradient", int(block.value.size))]
    source = source_of(case, block)
    got.checks.append(_check(case, evaluation, name, status, None, source, None, passed_by))


def _documented(case: Case, evaluation: Evaluation, name: str) -> TruthBlock | None:
    """Return the block that the engine's documented approximation computes, if the output of the
    engine follows the same approximation. An output with another value belongs to another function,
    whose derivative the user may have written."""
    documented = documented_of(case, evaluation)
    if documented is None or evaluation.output is None:
        return None
    output, fmt = np.ravel(evaluation.output), FORMATS[case.dtype]
    if not np.all(follows_output(output, documented, fmt)):
        return None
    return documented.blocks.get((evaluation.mode, name))


def _repairable(case: Case, evaluation: Evaluation) -> bool | None:
    """Whether rounding may cause the error of the worst entry: True if an operation was found that
    causes it, False if the error remains when all operations are enclosed, None if unknown."""
    traced = case.traced.get((evaluation.engine, evaluation.mode))
    unknown = case.truth is None or case.truth.output_cost is None
    if unknown or traced is None or traced.trace is None:
        return None
    if traced.trace.enclosed:
        return False
    return True if traced.trace.culprits else None


def _rounds(case: Case, evaluation: Evaluation) -> bool:
    """Check `only_rounds` for the worst entry. If no operation was blamed for a second derivative,
    another one of the engine decides, because the forward run is the same."""
    fmt = FORMATS[case.dtype]
    mine = case.traced.get((evaluation.engine, evaluation.mode))
    if evaluation.mode in SECOND and (
        mine is None or mine.trace is None or not mine.trace.culprits
    ):
        others = (one for (name, _), one in case.traced.items() if name == evaluation.engine)
        return any(one.mode in SECOND and only_rounds(one.trace, fmt) for one in others)
    return mine is not None and only_rounds(mine.trace, fmt)


def only_rounds(trace: Trace | None, fmt: FloatFormat) -> bool:
    """Check whether a trace proves that the traced entry is right as soon as some operations do not
    round. Each of these operations loses only the last digits of its inputs, like 1 - 1 in place of
    5e-19. A wrong kernel or derivative rule loses more."""
    if trace is None or trace.repaired is None:
        return False
    operations = [trace.operations[place] for place in trace.culprits]
    return bool(operations) and all(_loses_last_digits(one, fmt) for one in operations)


def _loses_last_digits(operation: Operation, fmt: FloatFormat) -> bool:
    inputs = np.abs([x for x in operation.exact_inputs if np.isfinite(x)])
    off = operation.error * fmt.ulp(np.float64(operation.exact))
    return bool(off <= FEW_ULPS * fmt.ulp(np.max(inputs, initial=0.0)))


def flushed(case: Case) -> dict[str, Array]:
    """The inputs with zeros in place of subnormal numbers; an empty dict if no input is
    subnormal."""
    tiny = FORMATS[case.dtype].smallest_normal
    values = dict(case.values)
    any_flushed = False
    for name, value in case.values.items():
        if value.dtype.kind == "f":
            subnormal = (value != 0) & (np.abs(value) < tiny)
            values[name] = np.where(subnormal, 0.0, value)
            any_flushed |= bool(np.any(subnormal))
    return values if any_flushed else {}


def _flushed_finding(case: Case, evaluation: Evaluation) -> Finding | None:
    """Return GC402 if the engine's result is the result of the reference engine at 0 in the same
    dtype, and differs from the result at the subnormal number itself; None otherwise. An error that
    the reference engine shares is the formula's."""
    mode = evaluation.mode
    kept, zero = case.kept.get(mode), case.zero.get(mode)
    if kept is None or zero is None or _alike(case, kept, zero):
        return None
    if not _alike(case, evaluation, zero):
        return None
    names = [n for n, v in flushed(case).items() if np.any(v != case.values[n])]
    words = " and ".join(f"`{name}`" for name in names)
    tiny = FORMATS[case.dtype].smallest_normal
    message = (
        f"{words}: {evaluation.engine} treats numbers below {tiny:.3g} as 0, and returns the "
        "right result for 0"
    )
    return finding(case, Codes.UNDEFINED_DERIVATIVE, message, evaluation=evaluation)


def _alike(case: Case, first: Evaluation, second: Evaluation) -> bool:
    """Check whether all numbers agree in half of the digits. A nan agrees with nothing. Derivatives
    of a lost output are not compared."""
    if not np.all(_close(case, first.output, second.output)):
        return False
    requested = ~lost_rows(case, first)
    return all(
        np.all(_close(case, gradient.values, second.gradients[name].values) | ~requested)
        for name, gradient in first.gradients.items()
        if name in second.gradients
    )


def _close(case: Case, a: Array | None, b: Array | None) -> Mask:
    if a is None or b is None or a.shape != b.shape:
        return np.asarray(a is b)
    fmt = FORMATS[case.dtype]
    near = np.abs(a - b) <= fmt.ulp(b) * fmt.lost(ERROR_BITS)
    tiny = (np.abs(a) < fmt.smallest_normal) & (np.abs(b) < fmt.smallest_normal)
    return np.asarray(near | tiny | (a == b))


def _judge_approximation(case: Case, evaluation: Evaluation) -> tuple[list[Check], list[Finding]]:
    """Return a check for each input of an engine that takes difference quotients, and GC304 for
    each input with entries that are off."""
    assert case.truth is not None
    checks, findings = [], []
    for name, gradient in evaluation.gradients.items():
        block = case.truth.blocks.get((evaluation.mode, name))
        if block is None or gradient.values is None:
            continue
        g = gradient.values
        ulps = error_in_ulps(g, block.value, FORMATS[case.dtype])
        known = block.kind == PointKind.SMOOTH
        worst = float(np.max(ulps[known])) if np.any(known) else np.inf
        off = ~accepted(g, block, FORMATS[case.dtype], case.spec.tolerance)
        passed_by = [Pass("approximation", int(np.count_nonzero(off)))] if np.any(off) else []
        most, source = worst if np.isfinite(worst) else None, source_of(case, block)
        checks.append(_check(case, evaluation, name, "passed", most, source, None, passed_by))
        if not np.any(off):
            continue
        about = About(case, evaluation.mode, name, block, np.argwhere(off), evaluation)
        message = f"{evaluation.approximation}: {_size(g, block)}"
        code = Codes.DIFFERENCE_ERROR
        found = finding_at(about, code, message, g=g, ulps=ulps)
        findings.append(replace(found, truth_source=source))
    return checks, findings


def _size(g: np.ndarray, block: TruthBlock) -> str:
    """Describe the largest error, also relative to the largest entry of the truth."""
    known = (block.kind == PointKind.SMOOTH) & np.isfinite(block.value)
    largest = float(np.max(np.abs(block.value), initial=0.0, where=known))
    error = float(np.max(np.abs(g - block.value), initial=0.0, where=known))
    if not np.any(known):
        return "at a point without a derivative"
    if largest == 0 or not np.isfinite(error):
        return f"off by {error:.2g}"
    return f"off by {error:.2g}, {error / largest:.1g} of the gradient"
