"""An engine that gave no answer, or not the kind of answer that was asked for."""

from __future__ import annotations

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.evaluation import Evaluation
from gradcheck_cli.domain.report import Finding, Severity
from gradcheck_cli.judge.findings import finding

CODES_OF_FAILURES = {
    "raised": "GC701",
    "crashed": "GC702",
    "timed-out": "GC703",
    "out-of-memory": "GC704",
    "unsupported": "GC705",
    "wrong-shape": "GC103",
}


def failure_finding(case: Case, evaluation: Evaluation) -> Finding:
    """The finding of an evaluation that failed."""
    failure = evaluation.failure
    assert failure is not None
    code = CODES_OF_FAILURES[failure.kind]
    node = None if failure.node is None else case.spec.program.nodes[failure.node]
    named = evaluation.engine in case.named or evaluation.mode in case.named_modes
    severity: Severity | None = "error" if code == "GC705" and named else None
    return finding(
        case,
        code,
        failure.message,
        severity=severity,
        evaluation=evaluation,
        span=node.span if node else None,
        detail=failure.detail,
    )


def dtype_finding(case: Case, evaluation: Evaluation, name: str, dtype: str) -> Finding:
    """The gradient came back in another dtype than its input has (GC103)."""
    message = f"the gradient of `{name}` is {dtype}, its input is {evaluation.dtype}"
    return finding(case, "GC103", message, evaluation=evaluation, input=name)
