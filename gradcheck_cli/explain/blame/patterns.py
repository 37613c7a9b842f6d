"""Recognise the pattern of a wrong gradient: sign, factor, transposition, a missing term. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.thresholds import MATCHES, NOTE_BITS

STRAIGHT_THROUGH = (
    "a slope where the forward has none (if this is meant, as in a straight-through estimator, "
    "declare a `surrogate`)"
)
SYMMETRIC = "right where the matrix stays symmetric (`kind: symmetric` or `positive_definite`)"


def name_pattern(
    g: Array,
    truth: Array,
    shape: tuple[int, ...],
    fmt: FloatFormat,
    sizes: Mapping[int, str],
    terms: Callable[[], Sequence[tuple[str, Array]]],
    complex_output: bool = False,
    complex_input: bool = False,
) -> str | None:
    """The pattern of a wrong block, or None.

    `g` and `truth` have shape (rows, columns), `shape` is the input's; columns may be directions
    instead of entries. `sizes` maps lengths of axes in the program to names ("axis 0 of x"), to
    recognise a mean instead of a sum. `terms` returns the summands of the truth by the text of each
    use, for an input that is used several times; it is called last. Rows of a `complex_output` and
    columns of a `complex_input` are real and imaginary parts in turn.
    """
    finite = np.isfinite(g) & np.isfinite(truth)
    if not np.all(finite) or np.all(np.abs(g - truth) <= fmt.ulp(truth)):
        return None
    if not np.any(truth):
        return STRAIGHT_THROUGH
    if not np.any(g):
        return "all zeros"
    if _matches(g, -truth, truth, fmt):
        return "wrong sign"
    if factor := _factor(g, truth, sizes):
        return factor
    for words, candidate in _conjugates(truth, complex_output, complex_input):
        if _matches(g, candidate, truth, fmt):
            return words
    square = len(shape) >= 2 and shape[-2] == shape[-1] > 1 and truth.shape[1] == math.prod(shape)
    if square and _transposed(g, truth, shape, fmt):
        return "transposed"
    if square and _symmetric(g, truth, shape, fmt):
        return SYMMETRIC
    for text, term in terms():
        if _matches(g, truth - term, truth, fmt):
            return f"the term through `{text}` is missing"
        if _matches(g, truth + term, truth, fmt):
            return f"the term through `{text}` is counted twice"
    return "computed in float32" if fmt.name == "float64" and _is_narrow(g, truth) else None


def _conjugates(
    truth: Array, complex_output: bool, complex_input: bool
) -> Iterator[tuple[str, Array]]:
    """The truth with its derivative, its gradient or the upstream gradient conjugated, by changing
    the signs of imaginary parts."""
    rows, columns = (np.where(np.arange(n) % 2, -1.0, 1.0) for n in truth.shape)
    if complex_output and complex_input:
        words = "the complex conjugate of the derivative: a conj() is missing or superfluous"
        yield words, rows[:, None] * truth * columns
    if complex_input:
        yield "the complex conjugate of the gradient", truth * columns
    if complex_output:
        yield "right for the complex conjugate of the upstream gradient", rows[:, None] * truth


def axis_sizes(shapes: Mapping[str, tuple[int, ...]]) -> dict[int, str]:
    """Lengths over which a sum or mean may run, with the names of their axes; of several equal axes
    of one array, the name does not say which."""
    sizes: dict[int, str] = {}
    for name, shape in shapes.items():
        for axis, size in enumerate(shape):
            which = f"axis {axis} of `{name}`"
            if shape.count(size) > 1:
                which = f"an axis of `{name}`, of length {size},"
            sizes.setdefault(size, which)
        if len(shape) > 1:
            sizes.setdefault(math.prod(shape), f"all of `{name}`")
    return sizes


def _is_narrow(g: Array, truth: Array) -> bool:
    """Whether all entries are float32 numbers, as close to the truth as float32 rounding allows."""
    narrow = FORMATS["float32"]
    near = np.abs(g - truth) <= narrow.lost(NOTE_BITS) * narrow.ulp(truth)
    return bool(np.all(near) and np.array_equal(g, narrow.round(g)))


def _matches(g: Array, candidate: Array, truth: Array, fmt: FloatFormat) -> bool:
    """Whether the candidate explains the error: g is much closer to it than to the truth, except
    where both are right."""
    rounding = fmt.lost(NOTE_BITS) * fmt.ulp(candidate)
    off, near = np.abs(g - truth), np.abs(g - candidate)
    explained = near <= MATCHES * off
    return bool(np.all(explained | (near <= rounding)) and np.any(explained & (off > rounding)))


def _factor(g: Array, truth: Array, sizes: Mapping[int, str]) -> str | None:
    used = truth != 0
    if np.any(g[~used] != 0):
        return None
    ratio = g[used] / truth[used]
    factor = float(np.median(ratio))
    spread = np.abs(ratio - factor)
    if factor in (0, 1) or not np.all(spread <= MATCHES * abs(factor - 1)):
        return None
    for size, axis in sizes.items():
        maybe = "perhaps " if size == 2 else ""  # the factor 2 is often forgotten for other reasons
        if size > 1 and abs(factor * size - 1) <= MATCHES / size:
            return f"factor 1/{size}: {maybe}a mean over {axis} where a sum is right"
        if size > 1 and abs(factor / size - 1) <= MATCHES / size:
            return f"factor {size}: {maybe}a sum over {axis} where a mean is right"
    digits = 6
    while float(f"{factor:.{digits}g}") == 1:
        digits += 1
    return f"factor {factor:.{digits}g}"


def _symmetric(g: Array, truth: Array, shape: tuple[int, ...], fmt: FloatFormat) -> bool:
    """Whether the derivative is right for moves of [i, j] and [j, i] together, as of a function
    that reads one triangle, such as `eigh`, and splits its gradient between the two."""
    error = (g - truth).reshape(-1, *shape)
    largest = np.max(np.abs(truth), initial=0.0)
    together = np.abs(error + error.swapaxes(-1, -2))
    apart = np.abs(error) + np.abs(error.swapaxes(-1, -2))
    rounding = fmt.lost(NOTE_BITS) * fmt.ulp(np.asarray(largest))
    return bool(
        np.all(together <= np.maximum(MATCHES * apart, rounding)) and np.any(apart > rounding)
    )


def _transposed(g: Array, truth: Array, shape: tuple[int, ...], fmt: FloatFormat) -> bool:
    turned = truth.reshape(-1, *shape).swapaxes(-1, -2).reshape(truth.shape)
    return _matches(g, turned, truth, fmt)
