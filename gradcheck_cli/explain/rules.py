"""A derivative that the user stated: which of them is wrong?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Evaluation, Problem, Projection
from gradcheck_cli.domain.program import CUSTOM, Node
from gradcheck_cli.domain.report import Cause
from gradcheck_cli.explain.alone import alone
from gradcheck_cli.explain.values import apart

# Two float64 gradients of one function that differ by more than this part are not the same
# gradient: a quarter of the digits of float64 may be lost to rounding, no more (verdicts:
# precision-loss).
DIFFERENT = 2.0**-26


def blame_rule(case: Case, evaluation: Evaluation) -> Cause | None:
    """The first call of a custom gradient whose stated derivative is not that of its forward.

    Each is run alone, in float64, by the reference engine, at the values and the upstream cotangent
    that it had (ones where no trace is at hand).
    """
    program = case.spec.program
    trace = evaluation.trace
    if trace is None:
        return None
    for index, node in enumerate(program.nodes):
        if node.op != CUSTOM or any(i not in trace.values for i in node.args):
            continue
        y_bar = np.asarray(trace.derivatives.get(index, np.ones(node.shape)), dtype=np.float64)
        if np.shape(y_bar) != node.shape or not np.any(y_bar):
            y_bar = np.ones(node.shape)
        args = [np.asarray(trace.values[i]) for i in node.args]
        difference = _compare(index, node, args, y_bar, case.dtype)
        if difference is not None:
            return difference
    return None


def _compare(index: int, node: Node, args: list[Array], y_bar: Array, dtype: str) -> Cause | None:
    from gradcheck_cli.engines.reference import ReferenceEngine
    from gradcheck_cli.truth.plain import inlined

    assert node.custom is not None
    call = alone(node, args)
    values, wrt = call.values, call.wrt
    engine = ReferenceEngine()
    rows = Projection(rows=y_bar[None])
    answers = [
        engine.evaluate(Problem(p, values, wrt, "float64", dtype, "reverse", rows))
        for p in (call.program, inlined(call.program))
    ]
    if any(a.failure for a in answers):
        return None
    for name in wrt:
        stated, true = (_flat(a, name, values) for a in answers)
        with np.errstate(all="ignore"):
            off = np.abs(stated - true) > DIFFERENT * np.abs(true)
        if np.any(off):
            at = int(np.argmax(off))
            parameter = list(node.custom.forward.inputs)[wrt.index(name)]
            given, right = apart(float(stated[at]), float(true[at]))
            detail = (
                f"the stated derivative for `{parameter}` is {given}, that of the forward {right}"
            )
            return Cause(
                op=node.custom.name,
                phase="backward",
                span=node.span,
                text=node.text,
                detail=detail,
                story=f"the custom gradient of `{node.custom.name}` gives "
                f"{given} where {right} is right",
                kind="wrong rule",
                node=index,
                proven=True,
                proof=f"`{node.custom.name}` alone, in float64, is differentiated both ways",
            )
    return None


def _flat(answer: Evaluation, name: str, values: Mapping[str, Array]) -> Array:
    gradient = answer.gradients.get(name)
    if gradient is None or gradient.values is None:
        return np.zeros(int(np.size(values[name])))
    return gradient.values.reshape(-1)
