"""Engines that treat subnormal inputs as 0, because they configure the processor to do so: answers
that this alone explains."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Evaluation
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.thresholds import ERROR_BITS
from gradcheck_cli.judge.findings import finding
from gradcheck_cli.judge.measures import Mask
from gradcheck_cli.judge.outputs import lost_rows


def flushed(case: Case) -> dict[str, Array]:
    """The inputs with zeros in the places of subnormal numbers; empty where there are none."""
    tiny = FORMATS[case.dtype].smallest_normal
    found = dict(case.values)
    any_flushed = False
    for name, value in case.values.items():
        if value.dtype.kind == "f":
            subnormal = (value != 0) & (np.abs(value) < tiny)
            found[name] = np.where(subnormal, 0.0, value)
            any_flushed |= bool(np.any(subnormal))
    return found if any_flushed else {}


def flushed_finding(case: Case, evaluation: Evaluation) -> Finding | None:
    """GC402 where the engine gives what the reference engine gives at 0, and not what that gives at
    the number, in the same dtype; None else: what both get wrong is the formula's."""
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


def _alike(case: Case, one: Evaluation, other: Evaluation) -> bool:
    """Whether all numbers agree in half of the digits; a nan agrees with nothing. Of a derivative
    whose output is lost nothing is asked."""
    if not np.all(_close(case, one.output, other.output)):
        return False
    requested = ~lost_rows(case, one)
    return all(
        np.all(_close(case, gradient.values, other.gradients[name].values) | ~requested)
        for name, gradient in one.gradients.items()
        if name in other.gradients
    )


def _close(case: Case, a: Array | None, b: Array | None) -> Mask:
    if a is None or b is None or a.shape != b.shape:
        return np.asarray(a is b)
    fmt = FORMATS[case.dtype]
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= fmt.ulp(b) * 2.0 ** (ERROR_BITS * fmt.bits)
    tiny = (np.abs(a) < fmt.smallest_normal) & (np.abs(b) < fmt.smallest_normal)
    return np.asarray(near | tiny | (a == b))
