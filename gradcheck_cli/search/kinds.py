"""The six kinds of failure, decided from an engine's answers and the right ones.

`suspects` says which of many points fail by an estimate, and how badly. The limits are defined in
the documentation of searches: eps is the spacing of the dtype's numbers at 1, half is sqrt(eps),
tiny the smallest normal number, top the largest entry of that input's gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import numpy as np

from gradcheck_cli.domain.codes import NAN_OR_INFINITE, Codes
from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.search import KINDS, Kind
from gradcheck_cli.domain.thresholds import EXCUSED_MOVES
from gradcheck_cli.judge.failing import inaccuracy, lost_to_zero, top_of
from gradcheck_cli.search.estimates import Answers

_Size: TypeAlias = Callable[[Answers, Answers, FloatFormat], Array]

CODES_OF: Mapping[Kind, tuple[str, ...]] = {
    "undefined": (Codes.UNDEFINED_DERIVATIVE, Codes.DISCONTINUITY, Codes.NON_FINITE_OUTPUT),
    "value-nonfinite": (Codes.NON_FINITE_OUTPUT,),
    "gradient-nonfinite": NAN_OR_INFINITE,
    "gradient-underflow-to-zero": (Codes.UNDERFLOW_TO_ZERO,),
    "gradient-inaccurate": (Codes.PRECISION_LOSS, Codes.WRONG_GRADIENT),
    "value-inaccurate": (Codes.UNSTABLE_OUTPUT,),
}
KIND_OF: Mapping[str, Kind] = {code: kind for kind, codes in CODES_OF.items() for code in codes}
"""The kind of a finding by its code. A value that is not finite counts as such, although it may be
undefined, too."""


def excused(error: float, moved: float) -> bool:
    """Check whether an error is the problem's own: `moved` is the effect of half an ulp of the
    inputs."""
    return error <= EXCUSED_MOVES * moved


def suspects(
    answers: Answers,
    estimated: Callable[[], Answers],
    fmt: FloatFormat,
    kinds: Iterable[Kind] = KINDS,
) -> dict[Kind, Array]:
    """By kind, how badly each point (N,) seems to fail; 0 if it does not. The estimate is computed
    only if the answers alone do not show that no point fails."""
    found: dict[Kind, Array] = {}
    estimate: Answers | None = None
    for kind in kinds:
        if _is_plain(kind, answers):
            found[kind] = np.zeros(len(answers.value))
            continue
        estimate = estimate or estimated()
        found[kind] = _SIZES[kind](answers, estimate, fmt) * answers.answered
    return found


def _is_plain(kind: Kind, answers: Answers) -> bool:
    """Check whether the answers alone show that no point fails."""
    gradients = answers.gradients.values()
    if kind == "value-nonfinite":
        return bool(np.isfinite(answers.value).all())
    if kind == "gradient-nonfinite":
        return all(np.isfinite(gradient).all() for gradient in gradients)
    return kind == "gradient-underflow-to-zero" and all(gradient.all() for gradient in gradients)


def _undefined(answers: Answers, estimate: Answers, fmt: FloatFormat) -> Array:
    """Points whose estimate is infinite or nan."""
    return _most(
        _any_of(~np.isfinite(one)) for one in (estimate.value, *estimate.gradients.values())
    )


def _lost_value(answers: Answers, estimate: Answers, fmt: FloatFormat) -> Array:
    lost = ~np.isfinite(answers.value)
    return _any_of(lost) + _any_of(lost & (np.abs(estimate.value) <= fmt.largest))


def _lost_gradient(answers: Answers, estimate: Answers, fmt: FloatFormat) -> Array:
    return _most(
        _any_of(broken) + _any_of(broken & (np.abs(estimate.gradients[name]) <= fmt.largest))
        for name, gradient in answers.gradients.items()
        for broken in (~np.isfinite(gradient),)
    )


def _of_gradients(measure: Callable[[Array, Array, Array, FloatFormat], Array]) -> _Size:
    def size(answers: Answers, estimate: Answers, fmt: FloatFormat) -> Array:
        return _most(
            _worst(measure(gradient, truth, top_of(truth), fmt))
            for name, gradient in answers.gradients.items()
            for truth in (estimate.gradients[name],)
        )

    return size


def _value_error(answers: Answers, estimate: Answers, fmt: FloatFormat) -> Array:
    return _worst(inaccuracy(answers.value, estimate.value, np.abs(estimate.value), fmt))


_SIZES: dict[Kind, _Size] = {
    "undefined": _undefined,
    "value-nonfinite": _lost_value,
    "gradient-nonfinite": _lost_gradient,
    "gradient-underflow-to-zero": _of_gradients(lost_to_zero),
    "gradient-inaccurate": _of_gradients(inaccuracy),
    "value-inaccurate": _value_error,
}


def relative_errors(answers: Answers, estimate: Answers) -> Array:
    """By point (N,), the largest error of the gradient relative to its largest entry, at most 1;
    nan if there is no truth."""
    found = np.zeros(len(answers.value))
    for name, gradient in answers.gradients.items():
        truth = estimate.gradients[name]
        error = np.abs(gradient - truth) / top_of(truth)
        error = np.where(gradient == truth, 0.0, np.where(np.isfinite(gradient), error, 1.0))
        error = np.where(np.isfinite(truth), np.minimum(error, 1.0), np.nan)
        found = np.maximum(found, np.max(error.reshape(len(found), -1), axis=1))
    return np.asarray(found)


def _any_of(mask: Array) -> Array:
    return np.asarray(np.any(mask.reshape(len(mask), -1), axis=1), np.float64)


def _most(sizes: Iterable[Array]) -> Array:
    return np.asarray(np.max(list(sizes), axis=0))


def _worst(sizes: Array) -> Array:
    flat = np.nan_to_num(sizes).reshape(len(sizes), -1)
    return np.asarray(np.max(flat, axis=1, initial=0.0))
