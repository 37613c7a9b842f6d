"""Findings about engines that gave no answer, or an answer of the wrong kind, and about bugs in
gradcheck."""

from __future__ import annotations

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import Codes, Severity
from gradcheck_cli.domain.evaluation import Evaluation, Failure
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.judge.findings import finding

CODES_OF_FAILURES = {
    "raised": Codes.ENGINE_RAISED,
    "crashed": Codes.ENGINE_CRASHED,
    "timed-out": Codes.ENGINE_TIMED_OUT,
    "out-of-memory": Codes.OUT_OF_MEMORY,
    "unsupported": Codes.UNSUPPORTED_OPERATION,
    "wrong-shape": Codes.WRONG_SHAPE_OR_DTYPE,
    "missing-output": Codes.MISSING_OUTPUT,
    "internal": Codes.INTERNAL,
}


def failure_finding(case: Case, evaluation: Evaluation) -> Finding:
    """The finding about an evaluation that failed."""
    failure = evaluation.failure
    assert failure is not None
    code = CODES_OF_FAILURES[failure.kind]
    node = None if failure.node is None else case.spec.program.nodes[failure.node]
    named = evaluation.engine in case.named or evaluation.mode in case.named_modes
    severity: Severity | None = "error" if code == Codes.UNSUPPORTED_OPERATION and named else None
    return finding(
        case,
        code,
        failure.message,
        severity=severity,
        evaluation=evaluation,
        span=node.span if node else None,
        detail=failure.detail,
    )


def internal_finding(case: Case, failure: Failure) -> Finding:
    """The finding about an exception in gradcheck's own truth, judge or explanation (GC706)."""
    return finding(case, Codes.INTERNAL, failure.message, detail=failure.detail)


def no_truth_finding(case: Case, failure: Failure | None) -> Finding:
    """The finding about a missing truth: GC706 for a bug in gradcheck, GC501 for a limit of the
    run."""
    if failure is not None and failure.kind == "internal":
        return internal_finding(case, failure)
    late = failure is None or failure.kind == "timed-out"
    why = " within the time limit" if late else f": {failure.message}"  # type: ignore[union-attr]
    return finding(case, Codes.UNDECIDED, f"undecided: the truth could not be computed{why}")


def dtype_finding(case: Case, evaluation: Evaluation, name: str, dtype: str) -> Finding:
    """The finding about a gradient in another dtype than its input has (GC103)."""
    message = f"the gradient of `{name}` is {dtype}, but its input is {evaluation.dtype}"
    return finding(case, Codes.WRONG_SHAPE_OR_DTYPE, message, evaluation=evaluation, input=name)
