"""JAX's primitives in exact arithmetic and in float64, by name. A kernel takes the operands in
order and the parameters by name.

A primitive that is missing here, or whose kernel raises TypeError, runs JAX's own kernel in
float64. JAX is not needed to read this.
"""

from __future__ import annotations

import string
from functools import partial
from typing import Any

import numpy as np

from gradcheck_cli.engines.jax.kernels import indexing, matrices
from gradcheck_cli.engines.jax.kernels.indexing import INDEXING
from gradcheck_cli.engines.jax.kernels.matrices import MATRICES
from gradcheck_cli.engines.jax.kernels.windows import WINDOWS
from gradcheck_cli.engines.trace import complex_kernels as complexes
from gradcheck_cli.engines.trace.complex_kernels import Pair
from gradcheck_cli.engines.trace.exact_kernels import (
    Kernel,
    as_floating,
    clamped,
    finite,
    polygamma,
    rest_of_quotient,
    row,
    row_without_keywords,
    running,
    running_logsumexp,
)

DATA_MOVEMENT = frozenset(
    [
        *("reshape", "squeeze", "expand_dims", "transpose", "broadcast_in_dim", "slice", "rev"),
        *("dynamic_slice", "dynamic_update_slice", "concatenate", "pad", "gather", "split", "tile"),
        *("copy", "copy_p", "stop_gradient", "optimization_barrier", "scatter"),
        *("stack", "unstack"),
    ]
)
"""Primitives that move numbers, and fill the remaining places with zeros."""

EXACT_SELECTIONS = frozenset(
    ["neg", "abs", "max", "min", "reduce_max", "reduce_min", "clamp", "select_n", "sort"]
)
"""Other primitives that do not round: they do more than move numbers."""


def numeric(*xs: Any) -> list[Any]:
    """The operands, masks and integers too, as balls if one is a ball, and otherwise as floats."""
    if all(isinstance(x, np.ndarray) for x in xs):
        return [x.astype(np.float64) for x in xs]
    return [as_floating(x) for x in xs]


def _numbers(name: str) -> Kernel:
    def kernel(*xs: Any, **how: Any) -> Any:
        if all(isinstance(x, np.ndarray) and x.dtype.kind in "biu" for x in xs):
            raise TypeError("only operations on floating-point numbers are supported")
        return row(name)(*numeric(*xs))

    return kernel


def _reduction(name: str) -> Kernel:
    def kernel(x: Any, axes: Any, **how: Any) -> Any:
        if isinstance(x, np.ndarray) and x.dtype.kind in "biu":
            raise TypeError("only reductions of floating-point numbers are supported")
        return row(name)(x, axis=tuple(axes))

    return kernel


def _running(name: str) -> Kernel:
    return lambda x, axis, reverse, **how: running(name, x, axis, reverse)


def _extreme(name: str, start: float) -> Kernel:
    """The larger or smaller operand. If one is `start`, return the other: `jax.nn.softmax` starts
    its maximum there."""

    def kernel(x: Any, y: Any, **how: Any) -> Any:
        if np.ndim(x) == 0 and isinstance(x, np.ndarray | float) and x == start:
            return y
        return row(name)(x, y)

    return kernel


def _running_logsumexp(x: Any, axis: int, reverse: bool, **how: Any) -> Any:
    return running_logsumexp(x, axis, partial(running, "cumsum", axis=axis, reverse=reverse))


def _round(x: Any, rounding_method: Any, **how: Any) -> Any:
    if getattr(rounding_method, "name", "") == "TO_NEAREST_EVEN":
        return row("round")(x)
    return row("sign")(x) * row("floor")(row("abs")(x) + 0.5)


def _reduce_precision(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    if exponent_bits < 11 or mantissa_bits < 52:
        raise TypeError("only float64 without a loss of precision is supported")
    return x


def _logical(name: str) -> Kernel:
    def kernel(*xs: Any, **how: Any) -> Any:
        if any(x.dtype != np.bool_ for x in xs):
            raise TypeError("only operations on booleans are supported")
        return row(name)(*xs)

    return kernel


def _select(chosen: Any, *cases: Any, **how: Any) -> Any:
    y, *others = cases
    if len(others) == 1:
        chosen = chosen.astype(np.bool_) if isinstance(chosen, np.ndarray) else chosen
        return row("where")(chosen, others[0], y)
    for i, case in enumerate(others, 1):
        y = row("where")(chosen == i, case, y)
    return y


def _dot_general(a: Any, b: Any, dimension_numbers: Any, **how: Any) -> Any:
    """A product by `einsum`: contracted axes share a letter, and so do batch axes, which come
    first."""
    (summed_a, summed_b), (batch_a, batch_b) = dimension_numbers
    letters = iter(string.ascii_letters)
    first = [next(letters) for _ in range(a.ndim)]
    second = [next(letters) for _ in range(b.ndim)]
    for mine, theirs in zip((*summed_a, *batch_a), (*summed_b, *batch_b), strict=True):
        second[theirs] = first[mine]
    batch = [first[i] for i in batch_a]
    rest = [c for i, c in enumerate(first) if i not in (*summed_a, *batch_a)]
    rest += [c for i, c in enumerate(second) if i not in (*summed_b, *batch_b)]
    subscripts = f"{''.join(first)},{''.join(second)}->{''.join((*batch, *rest))}"
    return row("einsum")(*numeric(a, b), subscripts=subscripts)


def _convert(x: Any, new_dtype: Any, **how: Any) -> Any:
    """A conversion to a floating dtype. Its rounding is an error of the operation itself."""
    if np.dtype(new_dtype).kind in "biu":
        raise TypeError("only conversions to floating-point dtypes are supported")
    return numeric(x)[0]


def _broadcast_in_dim(x: Any, shape: Any, broadcast_dimensions: Any, **how: Any) -> Any:
    sizes = [1] * len(shape)
    for axis, place in enumerate(broadcast_dimensions):
        sizes[place] = x.shape[axis]
    return np.broadcast_to(x.reshape(sizes), shape)


def _slice(x: Any, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    steps = strides or (1,) * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _pad(x: Any, value: Any, padding_config: Any) -> Any:
    if any(before < 0 or after < 0 or inside for before, after, inside in padding_config):
        raise TypeError("only padding outside the array is supported")
    widths = [(before, after) for before, after, _ in padding_config]
    return np.pad(x, widths, constant_values=value)


MOVED: dict[str, Kernel] = {
    "reshape": lambda x, new_sizes, **how: x.reshape(new_sizes),
    "squeeze": lambda x, dimensions, **how: np.squeeze(x, tuple(dimensions)),
    "expand_dims": lambda x, dimensions, **how: np.expand_dims(x, tuple(dimensions)),
    "transpose": lambda x, permutation: np.transpose(x, permutation),
    "broadcast_in_dim": _broadcast_in_dim,
    "slice": _slice,
    "rev": lambda x, dimensions: np.flip(x, tuple(dimensions)),
    "concatenate": lambda *xs, dimension: np.concatenate(xs, axis=dimension),
    "pad": _pad,
    **dict.fromkeys(("copy", "copy_p", "stop_gradient"), lambda x, **how: x),
}
"""Data movement by NumPy, for arrays of any elements."""

_SAME_NAME = (
    *("exp", "exp2", "expm1", "log", "log1p", "sqrt", "rsqrt", "cbrt", "square", "abs", "sign"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh"),
    *("acosh", "atanh", "erf", "erfc", "lgamma", "digamma", "floor", "ceil"),
)
_RENAMED = {
    "logistic": "sigmoid",
    "erf_inv": "erfinv",
    "pow": "power",
    "bessel_i0e": "i0e",
    "bessel_i1e": "i1e",
    "igamma": "gammainc",
    "igammac": "gammaincc",
    "regularized_incomplete_beta": "betainc",
    "zeta": "zeta",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "neg": "negative",
}

_EXTREMES = {"max": "maximum", "min": "minimum"}
_ARITHMETIC = {
    **{"add": "add", "add_any": "add", "sub": "subtract", "mul": "multiply", "div": "divide"},
}
_REDUCTIONS = {f"reduce_{name}": name for name in ("sum", "max", "min", "prod")}

FUNCTIONS: dict[str, Kernel] = {
    **{name: row(name) for name in ("expi", "dawsn", "expn")},
    "fresnel": lambda x: (row("fresnel_sin")(x), row("fresnel_cos")(x)),
    "sici": lambda x: (row("si")(x), row("ci")(x)),
}
"""Functions of JAX that state their derivative, by name. Each is recorded as one operation: the
series that JAX computes them by have thousands."""

ROWS: dict[str, str] = {
    **{name: name for name in (*_SAME_NAME, "stop_gradient", "cumsum", "cumprod")},
    **{name: name for name in ("expi", "dawsn")},
    **_RENAMED,
    **_EXTREMES,
    **_ARITHMETIC,
    **_REDUCTIONS,
    **{"integer_pow[y=2]": "square", "integer_pow[y=-1]": "reciprocal", "dot_general": "matmul"},
}
"""Primitives that equal a row of the op table and take their arrays in the same order."""

POINTWISE = ("integer_pow", "select_n", "convert_element_type", "copy", "stop_gradient")
"""Other primitives that work element by element."""

PERMUTED_ARGS: dict[str, tuple[str, tuple[int, ...]]] = {
    "select_n": ("where", (0, 2, 1)),
    "clamp": ("clip", (1, 0, 2)),
}
"""Primitives that equal a row with another order of arguments, and the primitive's argument for
each of the row's."""

KERNELS: dict[str, Kernel] = {
    **{name: row_without_keywords(name) for name in _SAME_NAME},
    **{name: row_without_keywords(ours) for name, ours in _RENAMED.items()},
    "max": _extreme("maximum", -np.inf),
    "min": _extreme("minimum", np.inf),
    **{name: _numbers(ours) for name, ours in _ARITHMETIC.items()},
    **{name: _reduction(ours) for name, ours in _REDUCTIONS.items()},
    **{name: _running(name) for name in ("cumsum", "cumprod", "cummax", "cummin")},
    **{
        "and": _logical("logical_and"),
        "or": _logical("logical_or"),
        "not": _logical("logical_not"),
    },
    "integer_pow": lambda x, y: row("power")(x, y),
    "select_n": _select,
    "clamp": lambda low, x, high, **how: clamped(x, low, high),
    "convert_element_type": _convert,
    "dot_general": _dot_general,
    "is_finite": finite,
    "rem": rest_of_quotient,
    "round": _round,
    "reduce_precision": _reduce_precision,
    "polygamma": polygamma,
    "cumlogsumexp": _running_logsumexp,
    **INDEXING,
    **WINDOWS,
    **MATRICES,
}


def _fft(x: Any, fft_type: Any, fft_lengths: Any) -> Any:
    """The transform along the last axes. An inverse is divided by the number of elements."""
    dim = range(-len(fft_lengths), 0)
    kind = fft_type.name
    if kind == "RFFT":
        return complexes.of_real(x, [d + x.ndim for d in dim], complexes.UNSCALED, onesided=True)
    if kind == "IRFFT":
        return complexes.to_real(x, dim, complexes.BY_COUNT, fft_lengths[-1])
    scale = complexes.UNSCALED if kind == "FFT" else complexes.BY_COUNT
    return complexes.of_complex(x, dim, scale, forward=kind == "FFT")


def _convert_complex(x: Any, new_dtype: Any, **how: Any) -> Any:
    if np.dtype(new_dtype).kind == "c":
        return x if isinstance(x, Pair) else complexes.as_pair(numeric(x)[0])
    return _convert(x.re, new_dtype)


_OF_PAIRS: dict[str, Kernel] = {
    "real": lambda z: z.re,
    "imag": lambda z: z.im,
    "conj": lambda z, **how: complexes.conjugate(complexes.as_pair(z)),
    "complex": Pair,
    "integer_pow": lambda z, y: complexes.power(z, y),
    "select_n": lambda chosen, a, b: complexes.where(chosen, b, a),
    "convert_element_type": _convert_complex,
    "fft": _fft,
    "dot_general": complexes.bilinear(_dot_general),
    "is_finite": lambda z: row("logical_and")(finite(z.re), finite(z.im)),
    **{name: complexes.linear(KERNELS[name]) for name in ("reduce_sum", "cumsum")},
}


of_pairs = partial(complexes.kernel_of, _OF_PAIRS, ROWS)


CHOSEN: dict[str, Kernel] = {**indexing.CHOSEN, **matrices.CHOSEN}
"""Kernels whose first argument is the run, which has the order and the signs. If a kernel returns
None for an integer result, the result of the run counts."""
