"""Engines that take subnormal inputs for 0, as their processor is told to: where that is all that
there is to say of an answer."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Evaluation
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.judge import limits
from gradcheck_cli.judge.findings import finding


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
    """GC402 where the engine gives what is right at 0, and something else is right at the number;
    None where it does not."""
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
        f"{words}: {evaluation.engine} takes numbers below {tiny:.3g} for 0, "
        "and gives what is right there"
    )
    return finding(case, "GC402", message, evaluation=evaluation, input=names[0])


def _alike(case: Case, one: Evaluation, other: Evaluation) -> bool:
    """Whether all numbers agree in half of the digits; what is no number agrees with any such."""
    pairs = [(one.output, other.output)]
    for name, gradient in one.gradients.items():
        more = other.gradients.get(name)
        pairs.append((gradient.values, None if more is None else more.values))
    return all(_close(case, a, b) for a, b in pairs)


def _close(case: Case, a: Array | None, b: Array | None) -> bool:
    if a is None or b is None:
        return a is b
    a, b = np.ravel(a), np.ravel(b)
    if a.shape != b.shape:
        return False
    fmt = FORMATS[case.dtype]
    with np.errstate(all="ignore"):
        off = np.abs(a - b) <= fmt.ulp(b) * 2.0 ** (limits.ERROR_BITS * fmt.bits)
        near = off | (np.abs(a) < fmt.smallest_normal) & (np.abs(b) < fmt.smallest_normal)
    lost = ~np.isfinite(a) & ~np.isfinite(b)
    return bool(np.all(near | lost))
