"""Kernels of losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.trace.exact_kernels import Kernel, is_general, on_places, row

BOUNDED_BELOW = 2.0**-39
"""The smallest p (1 - p) at which PyTorch's binary cross-entropy certainly equals its formula: its
logarithms are at least -100, and its derivative divides by at least 1e-12 (2^-39.9)."""


def _averaged(x: Any, reduction: int) -> Any:
    """Reduce x by ATen's codes: 0 is none, 1 the mean, 2 the sum."""
    return x if reduction == 0 else row("mean" if reduction == 1 else "sum")(x)


def _cross_entropy(p: Any, y: Any, weight: Any = None, reduction: int = 1) -> Any:
    """Binary cross-entropy without the bounds that the kernel puts on its logarithms, which are its
    deviation from the formula. A program that must hold for other numbers is infinite if the bounds
    may matter."""
    terms = -(row("xlogy")(y, p) + row("xlog1py")(1 - y, -p))
    if is_general(p):
        terms = row("where")(p * (1 - p) >= BOUNDED_BELOW, terms, np.inf)
    return _averaged(terms if weight is None else terms * weight, reduction)


def _cross_entropy_of_logits(
    x: Any, y: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Any:
    likely = row("log_sigmoid")(x)
    if pos_weight is not None:
        likely = likely * ((pos_weight - 1) * y + 1)
    terms = (1 - y) * x - likely
    return _averaged(terms if weight is None else terms * weight, reduction)


_REDUCTIONS = ("none", "mean", "sum")


def _huber(x: Any, y: Any, reduction: int = 1, delta: float = 1) -> Any:
    return row("huber")(x, y, delta=float(delta), reduction=_REDUCTIONS[reduction])


def _smooth_l1(x: Any, y: Any, reduction: int = 1, beta: float = 1) -> Any:
    if beta == 0:
        return row("l1")(x, y, reduction=_REDUCTIONS[reduction])
    return _huber(x, y, reduction, beta) / beta


def _nll(log_p: Any, labels: Array, weight: Any, reduction: int, ignore_index: int) -> Any:
    """The loss, and the sum of the weights, which only the derivative reads."""
    axis = min(log_p.ndim - 1, 1)
    kept = labels != ignore_index
    places = np.where(kept, labels, 0)
    places_of = np.expand_dims(places, axis)
    if is_general(log_p):
        (chosen,) = on_places(lambda of: [np.take_along_axis(of[0], places_of, axis)], [log_p])
    else:
        chosen = row("take_along_axis")(log_p, places_of, axis=axis)
    weights: Any = np.asarray(kept, np.float64)
    if weight is not None:
        weights = row("take")(weight, places, axis=0) * weights
    terms = -row("reshape")(chosen, shape=labels.shape) * weights
    count: Any = None
    if is_general(log_p) and isinstance(weights, np.ndarray):
        count = log_p.writer.constant(np.asarray(0.0 if reduction == 0 else weights.sum()))
    if reduction == 0:
        return terms, count
    total = row("sum")(terms)
    return (total / weights.sum() if reduction == 1 else total), count


def _ctc(
    log_p: Any,
    targets: Array,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int = 0,
    zero_infinity: bool = False,
) -> Any:
    """The loss of each sequence: the probabilities of all alignments are added up over the time
    steps (Graves et al., Connectionist temporal classification, 2006). The probabilities of the
    parts, which the derivative reads, are those of the run."""
    losses, start = [], 0
    for n, (steps, length) in enumerate(zip(input_lengths, target_lengths, strict=True)):
        labels = targets[n, :length] if targets.ndim == 2 else targets[start : start + length]
        start += length
        states = np.full(2 * length + 1, blank, np.int64)
        states[1::2] = labels
        sequence = row("getitem")(log_p, index=(slice(0, int(steps)), n))
        p = row("exp")(row("take")(sequence, states, axis=1))
        alpha = row("getitem")(p, index=0) * (np.arange(len(states)) < 2).astype(np.float64)
        for t in range(1, int(steps)):
            alpha = row("matmul")(alpha, _followers(states)) * row("getitem")(p, index=t)
        ends = row("getitem")(alpha, index=slice(-2, None))
        losses.append(-row("log")(row("sum")(ends)))
    return row("stack")(*losses, axis=0), None


def _followers(states: Array) -> Array:
    """1 if the second state may follow the first: the same state, the next, or another label after
    a blank."""
    count = len(states)
    may = np.eye(count) + np.eye(count, k=1)
    for s in range(3, count, 2):
        may[s - 2, s] = states[s] != states[s - 2]
    return may


LOSSES: dict[str, Kernel] = {
    "binary_cross_entropy": _cross_entropy,
    "binary_cross_entropy_with_logits": _cross_entropy_of_logits,
    **{"huber_loss": _huber, "smooth_l1_loss": _smooth_l1},
    "mse_loss": lambda x, y, reduction=1: row("mse")(x, y, reduction=_REDUCTIONS[reduction]),
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), _nll),
    "_ctc_loss": _ctc,
}
