"""The six kinds of failure, at points where an engine's answers and the right ones are known.

`suspects` says which points of many fail, and how badly, by an estimate. The limits are those of
the contract: eps is the spacing of the dtype's numbers at 1, half is sqrt(eps), tiny the smallest
normal number, top the largest entry of that input's gradient.
"""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.search import Kind
from gradcheck_cli.domain.thresholds import EXCUSED_MOVES, ROUNDED_AWAY
from gradcheck_cli.search.estimates import Answers


def eps(fmt: FloatFormat) -> float:
    """The spacing of numbers at 1."""
    return 2 * fmt.unit_roundoff


def half(fmt: FloatFormat) -> float:
    """A relative error of half the digits."""
    return float(np.sqrt(eps(fmt)))


def top_of(truth: Array) -> Array:
    """The largest |truth| among the entries (..., n) of one input's gradient, kept as an axis."""
    size = np.abs(truth)
    finite = np.where(np.isfinite(size), size, 0.0)
    return np.asarray(np.max(finite, axis=-1, keepdims=True, initial=0.0))


def lost_to_zero(computed: Array, truth: Array, top: Array, fmt: FloatFormat) -> Array:
    """How many times the least |truth| that counts an entry is, where it is 0; else 0."""
    limit = np.maximum(fmt.smallest_normal, ROUNDED_AWAY * eps(fmt) * top)
    size = np.abs(truth) / limit
    return np.where((computed == 0) & (size > 1), size, 0.0)


def inaccuracy(computed: Array, truth: Array, top: Array, fmt: FloatFormat) -> Array:
    """How many times the allowed error that of each entry is, where it fails; else 0."""
    size = np.abs(computed - truth) / (half(fmt) * top)
    fails = (top >= fmt.smallest_normal) & (size > 1) & np.isfinite(computed)
    return np.where(fails, size, 0.0)


def excused(error: float, moved: float) -> bool:
    """Whether an error is the problem's own: `moved` is what half an ulp of the inputs does."""
    return error <= EXCUSED_MOVES * moved


def suspects(answers: Answers, estimate: Answers, fmt: FloatFormat) -> dict[Kind, Array]:
    """By kind, how badly each point (N,) seems to fail; 0 where it does not."""
    with np.errstate(all="ignore"):
        value, right = answers.value, estimate.value
        lost = ~np.isfinite(value)
        found: dict[Kind, Array] = {
            "undefined": _any(~np.isfinite(right)),
            "value-nonfinite": _any(lost) + _any(lost & (np.abs(right) <= fmt.largest)),
            "value-inaccurate": _worst(inaccuracy(value, right, np.abs(right), fmt)),
        }
        zero = np.zeros(len(value))
        gone, small, off, pole = zero.copy(), zero.copy(), zero.copy(), found["undefined"]
        for name, gradient in answers.gradients.items():
            truth = estimate.gradients[name]
            top = top_of(truth)
            broken = ~np.isfinite(gradient)
            fits = np.abs(truth) <= fmt.largest
            gone = np.maximum(gone, _any(broken) + _any(broken & fits))
            small = np.maximum(small, _worst(lost_to_zero(gradient, truth, top, fmt)))
            off = np.maximum(off, _worst(inaccuracy(gradient, truth, top, fmt)))
            pole = np.maximum(pole, _any(~np.isfinite(truth)))
    found["undefined"] = pole
    found["gradient-nonfinite"] = gone
    found["gradient-underflow-to-zero"] = small
    found["gradient-inaccurate"] = off
    return {kind: sizes * answers.answered for kind, sizes in found.items()}


def relative_errors(answers: Answers, estimate: Answers) -> Array:
    """By point (N,), the largest error of the gradient relative to its largest entry, 1 at most;
    nan where there is no truth."""
    found = np.zeros(len(answers.value))
    with np.errstate(all="ignore"):
        for name, gradient in answers.gradients.items():
            truth = estimate.gradients[name]
            error = np.abs(gradient - truth) / top_of(truth)
            error = np.where(gradient == truth, 0.0, np.where(np.isfinite(gradient), error, 1.0))
            error = np.where(np.isfinite(truth), np.minimum(error, 1.0), np.nan)
            found = np.maximum(found, np.max(error.reshape(len(found), -1), axis=1))
    return np.asarray(found)


def _any(mask: Array) -> Array:
    return np.asarray(np.any(mask.reshape(len(mask), -1), axis=1), np.float64)


def _worst(sizes: Array) -> Array:
    flat = np.nan_to_num(sizes).reshape(len(sizes), -1)
    return np.asarray(np.max(flat, axis=1, initial=0.0))
