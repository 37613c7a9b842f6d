"""Find the custom gradient of a formula that is wrong."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.case import Case, TruthRequest
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Evaluation, Mode, Projection
from gradcheck_cli.domain.program import CUSTOM, Node
from gradcheck_cli.domain.report import Cause
from gradcheck_cli.domain.thresholds import DIFFERENT_GRADIENTS
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.explain.blame.single_op import single_op
from gradcheck_cli.explain.blame.values import two_texts

Both = dict[str, tuple[Array, Array]]
"""By argument: the derivative by the custom rule, and the right one."""


def blame_rule(case: Case, evaluation: Evaluation) -> Cause | None:
    """The first call of a custom gradient that is not the derivative of its forward.

    Each call is run alone, exactly if it can be enclosed, else in float64, at its own values and
    upstream cotangent (ones if no trace has it); in forward mode along the tangents of its
    arguments, one argument at a time.
    """
    program = case.spec.program
    trace = evaluation.trace
    if trace is None:
        return None
    for index, node in enumerate(program.nodes):
        if node.op != CUSTOM or any(i not in trace.values for i in node.args):
            continue
        args = [np.asarray(trace.values[i]) for i in node.args]
        if evaluation.mode == "forward":
            x_dots = [
                _usable(trace.derivatives.get(i), np.shape(a))
                for i, a in zip(node.args, args, strict=True)
            ]
            along = Projection(columns={f"a{k}": x_dot[None] for k, x_dot in enumerate(x_dots)})
        else:
            along = Projection(rows=_usable(trace.derivatives.get(index), node.shape)[None])
        difference = _compare(index, node, args, along, case.dtype)
        if difference is not None:
            return difference
    return None


def _usable(derivative: Array | None, shape: tuple[int, ...]) -> Array:
    """The derivative, or ones if it is missing, all zero or of another shape."""
    found = np.ones(shape) if derivative is None else np.asarray(derivative, dtype=np.float64)
    return found if found.shape == shape and np.any(found) else np.ones(shape)


def _compare(
    index: int, node: Node, args: list[Array], along: Projection, dtype: str
) -> Cause | None:
    assert node.custom is not None
    call = single_op(node, args)
    mode: Mode = "reverse" if along.columns is None else "forward"
    program = rounded(call.program, dtype)
    request = TruthRequest(program, call.values, {}, call.wrt, dtype, {mode: along})
    compared, how = _enclosed(request, mode), "exactly"
    if compared is None:
        compared, how = _in_float64(request, mode), "in float64"
    rule = "jvp" if mode == "forward" and node.custom.jvp else "custom gradient"
    for name, (stated, true) in compared.items():
        off = np.abs(stated - true) > DIFFERENT_GRADIENTS * np.abs(true)
        if np.any(off):
            at = int(np.argmax(off))
            parameter = list(node.custom.forward.inputs)[list(call.values).index(name)]
            given, right = two_texts(float(stated[at]), float(true[at]))
            detail = (
                f"your {rule} returns {given} for `{parameter}`; "
                f"the derivative of forward is {right}"
            )
            return Cause(
                op=node.custom.name,
                phase="backward",
                span=node.span,
                text=node.text,
                detail=detail,
                story=f"the {rule} of `{node.custom.name}` returns {given}; correct: {right}",
                kind="wrong rule",
                node=index,
                proven=True,
                proof=f"checked in isolation ({how}): the {rule} of `{node.custom.name}` is not "
                "the derivative of its forward",
            )
    return None


def _enclosed(request: TruthRequest, mode: Mode) -> Both | None:
    """The two derivatives exactly, so that rounding cannot be the fault; None if not enclosed."""
    from gradcheck_cli.truth.certified.enclose import certify, certify_stated

    stated, true = certify_stated(request), certify(request)
    keys = [(mode, name) for name in request.wrt]
    if not all(key in one and np.all(one[key].sure) for one in (stated, true) for key in keys):
        return None
    return {key[1]: (stated[key].value.reshape(-1), true[key].value.reshape(-1)) for key in keys}


def _in_float64(request: TruthRequest, mode: Mode) -> Both:
    from gradcheck_cli.engines.reference.engine import ReferenceEngine
    from gradcheck_cli.truth.gradients import float64_gradients

    found = float64_gradients(request, ReferenceEngine())
    keys = [(mode, name) for name in request.wrt]
    return {key[1]: (found.stated[key].reshape(-1), found.true[key].reshape(-1)) for key in keys}
