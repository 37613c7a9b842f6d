"""ATen's kernels in exact arithmetic, by the name of the overload's packet, called as ATen calls
them.

What is not here runs its float64 kernel. PyTorch is not needed to read this.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.engines.trace import exact_kernels as exact
from gradcheck_cli.engines.trace.exact_kernels import Kernel, row

DATA_MOVEMENT = frozenset(
    [
        *("view", "_unsafe_view", "reshape", "expand", "permute", "t", "transpose", "unsqueeze"),
        *("squeeze", "select", "slice", "clone", "detach", "alias", "lift_fresh", "contiguous"),
        *("cat", "stack", "flip", "roll", "index", "index_select", "gather", "diagonal"),
        *("diag_embed", "tril", "triu", "unbind", "split", "split_with_sizes", "repeat"),
        *("select_backward", "slice_backward", "diagonal_backward", "view_copy", "unfold"),
        *("_reshape_alias", "narrow", "movedim", "take", "copy", "copy_"),
    ]
)
"""They take numbers to other places, and put zeros where none come to."""

EXACT_SELECTIONS = frozenset(
    ["neg", "abs", "amax", "amin", "max", "min", "maximum", "minimum", "where"]
)
"""They round nothing either, but are more than a change of places."""

ZEROS = frozenset(
    [
        *("zeros", "zeros_like", "new_zeros", "scalar_tensor", "_efficientzerotensor", "ones"),
        *("ones_like", "full", "full_like", "_new_zeros_with_same_feature_meta", "eye", "arange"),
        *("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"),
    ]
)
"""They make arrays from nothing: constants, whose zeros no computation gave."""


def _scaled(x: Any, alpha: Any) -> Any:
    return x if alpha == 1 else x * alpha


def _add(a: Any, b: Any, alpha: Any = 1) -> Any:
    return _arithmetic("add")(a, _scaled(b, alpha))


def _sub(a: Any, b: Any, alpha: Any = 1) -> Any:
    return row("subtract")(a, _scaled(b, alpha))


def _rsub(a: Any, b: Any, alpha: Any = 1) -> Any:
    return row("subtract")(b, _scaled(a, alpha))


def _div(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return row("divide")(a, b)
    quotient = row("divide")(a, b)
    if rounding_mode == "floor":
        return row("floor")(quotient)
    return row("sign")(quotient) * row("floor")(row("abs")(quotient))


def _axes(dim: Any) -> Any:
    return None if dim is None or dim == [] else tuple(dim) if isinstance(dim, list) else dim


def _reduction(name: str) -> Kernel:
    def kernel(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        return row(name)(x, axis=_axes(dim), keepdims=keepdim)

    return kernel


def _spread(name: str) -> Kernel:
    def kernel(x: Any, dim: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Any:
        free = 1 if correction is None else correction
        return row(name)(x, axis=_axes(dim), correction=free, keepdims=keepdim)

    return kernel


def _norm(
    x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    return row("norm")(x, ord=ord, axis=_axes(dim), keepdims=keepdim)


def _running(name: str) -> Kernel:
    return lambda x, dim, dtype=None: row(name)(x, axis=dim)


def _clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    if min is not None:
        x = row("maximum")(x, min)
    return x if max is None else row("minimum")(x, max)


def _threshold_backward(g: Any, x: Any, threshold: float) -> Any:
    return exact.nothing_where(row("less_equal")(x, float(threshold)), g)


def _softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    return row("softplus")(x * beta) / beta


def _softplus_backward(g: Any, x: Any, beta: float, threshold: float) -> Any:
    return exact.softplus_grad(g, x * beta)


def _elu(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    return row("elu")(x * input_scale, alpha=float(alpha)) * scale


def _masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return row("where")(mask, float(value) if isinstance(value, int) else value, x)


def _addmm(c: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return _scaled(c, beta) + _scaled(row("matmul")(a, b), alpha)


def _logit(x: Any, eps: float | None = None) -> Any:
    return row("logit")(x if eps is None else _clamp(x, eps, 1 - eps))


def _log_sigmoid_backward(g: Any, x: Any, buffer: Any) -> Any:
    return g * row("sigmoid")(-x)


def _silu_backward(g: Any, x: Any) -> Any:
    return g * row("sigmoid")(x) * (1 + x * row("sigmoid")(-x))


def _gelu_backward(g: Any, x: Any, *, approximate: str = "none") -> Any:
    if approximate != "none":
        raise TypeError("only the exact gelu is restated")
    return g * (row("ndtr")(x) + x * row("normal_density")(x))


def _elu_backward(
    g: Any, alpha: float, scale: float, inner: float, from_result: bool, x: Any
) -> Any:
    """On the left g (y + alpha scale) from the result y, or g alpha scale exp(x)."""
    left = float(alpha) * float(scale)
    slope = x + left if from_result else left * row("exp")(x * inner)
    return row("where")(row("less_equal")(x, 0.0), g * inner * slope, g * scale)


def _leaky_relu_backward(g: Any, x: Any, slope: float, from_result: bool) -> Any:
    return row("where")(row("greater")(x, 0.0), g, g * float(slope))


def _hardtanh_backward(g: Any, x: Any, low: float, high: float) -> Any:
    outside = row("less_equal")(x, float(low)) | row("greater_equal")(x, float(high))
    return exact.nothing_where(outside, g)


def _mse_backward(g: Any, x: Any, y: Any, reduction: int) -> Any:
    return 2 * (x - y) * g / (x.size if reduction == 1 else 1)


def _huber_backward(g: Any, x: Any, y: Any, reduction: int, delta: float) -> Any:
    slope = _clamp(x - y, -float(delta), float(delta))
    return slope * g / (x.size if reduction == 1 else 1)


def _with_info(name: str) -> Kernel:
    """A factorisation that also says whether it was found: 0 is yes."""

    def kernel(x: Any, *how: Any, upper: bool = False, check_errors: bool = False) -> Any:
        if upper:
            raise TypeError("only the lower factor is restated")
        return row(name)(x), np.zeros(x.shape[:-2], np.int32)

    return kernel


def _solve_triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    if not left or unitriangular:
        raise TypeError("only x in a x = b is restated")
    return row("triangular_solve")(a, b, lower=not upper)


def _layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    mean = row("mean")(x, axis=axes, keepdims=True)
    scale = row("rsqrt")(row("var")(x, axis=axes, keepdims=True) + eps)
    y = (x - mean) * scale
    y = y if weight is None else y * weight
    return y if bias is None else y + bias, mean, scale


def _layer_norm_backward(
    g: Any, x: Any, shape: Any, mean: Any, scale: Any, weight: Any, bias: Any, wanted: Any
) -> Any:
    rank = x.ndim - len(shape)
    inner, outer = tuple(range(rank, x.ndim)), tuple(range(rank))
    y = (x - mean) * scale
    scaled = g if weight is None else g * weight
    average = row("mean")(scaled, axis=inner, keepdims=True)
    along = y * row("mean")(scaled * y, axis=inner, keepdims=True)
    bars = (
        scale * (scaled - average - along),
        row("sum")(g * y, axis=outer),
        row("sum")(g, axis=outer),
    )
    return tuple(bar for bar, asked in zip(bars, wanted, strict=True) if asked)


def _arithmetic(name: str) -> Kernel:
    """A row of two numbers, where a mask counts as numbers too."""
    return lambda a, b: row(name)(exact.as_numbers(a), exact.as_numbers(b))


def _averaged(x: Any, reduction: int) -> Any:
    """ATen's codes: 0 is none, 1 the mean, 2 the sum."""
    return x if reduction == 0 else row("mean" if reduction == 1 else "sum")(x)


def _cross_entropy(p: Any, y: Any, weight: Any = None, reduction: int = 1) -> Any:
    """Without the bounds that the kernel puts to its logarithms: they are its deviation."""
    terms = -(row("xlogy")(y, p) + row("xlog1py")(1 - y, -p))
    return _averaged(terms if weight is None else terms * weight, reduction)


def _cross_entropy_backward(g: Any, p: Any, y: Any, weight: Any = None, reduction: int = 1) -> Any:
    slope = (p - y) / (p * (1 - p))
    slope = slope if weight is None else slope * weight
    return g * slope / (p.size if reduction == 1 else 1)


_SAME_NAME = (
    *("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "reciprocal"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh"),
    *("atanh", "atan2", "sigmoid", "erf", "erfc", "erfinv", "lgamma", "digamma", "xlogy"),
    *("logaddexp", "maximum", "minimum", "abs", "sign", "floor", "ceil", "round", "hypot"),
    *("relu", "square", "sinc", "i0", "logical_and", "logical_or", "logical_not", "matmul"),
    *("where", "remainder", "trace"),
)
_RENAMED = {
    "neg": "negative",
    "pow": "power",
    "sgn": "sign",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_not": "logical_not",
    "mm": "matmul",
    "bmm": "matmul",
    "mv": "matmul",
    "special_ndtr": "ndtr",
    "special_log_ndtr": "log_ndtr",
    "special_erfcx": "erfcx",
    "special_i0e": "i0e",
    "special_i1": "i1",
    "special_i1e": "i1e",
    "special_ndtri": "ndtri",
    "special_xlog1py": "xlog1py",
    "special_entr": "entr",
}

ROWS: dict[str, str] = {
    **{name: name for name in (*_SAME_NAME, "add", "sum", "mean", "prod", "cumsum", "softplus")},
    **_RENAMED,
    **{"mul": "multiply", "sub": "subtract", "div": "divide", "linalg_vector_norm": "norm"},
}
"""The row of the op table that a kernel is, where it takes its arrays in the same order."""

PERMUTED_ARGS: dict[str, tuple[str, tuple[int, ...]]] = {
    "rsub": ("subtract", (1, 0)),
    "masked_fill": ("where", (1, 2, 0)),
}
"""The row, and which of the kernel's arrays are its arguments, where the order is another."""

KERNELS: dict[str, Kernel] = {
    **{name: row(name) for name in _SAME_NAME},
    **{name: row(ours) for name, ours in _RENAMED.items()},
    "mul": _arithmetic("multiply"),
    **{name: _reduction(name) for name in ("sum", "mean", "prod")},
    **{"amax": _reduction("max"), "amin": _reduction("min"), "logsumexp": _reduction("logsumexp")},
    **{"var": _spread("var"), "std": _spread("std"), "linalg_vector_norm": _norm},
    **{"cumsum": _running("cumsum"), "cumprod": _running("cumprod")},
    **{"add": _add, "sub": _sub, "rsub": _rsub, "div": _div, "clamp": _clamp, "addmm": _addmm},
    "clamp_min": lambda x, min: _clamp(x, min),
    "clamp_max": lambda x, max: _clamp(x, None, max),
    **dict.fromkeys(("_to_copy", "to"), lambda x, *how, **more: exact.as_numbers(x)),
    "polygamma": lambda n, x: row("polygamma")(x, n=n),
    "dot": exact.dot,
    "binary_cross_entropy": _cross_entropy,
    "binary_cross_entropy_backward": _cross_entropy_backward,
    "silu_backward": _silu_backward,
    "gelu_backward": _gelu_backward,
    "elu_backward": _elu_backward,
    "leaky_relu_backward": _leaky_relu_backward,
    "hardtanh_backward": _hardtanh_backward,
    "logit_backward": lambda g, x, eps=None: g / (x * (1 - x)),
    "mse_loss_backward": _mse_backward,
    "huber_loss_backward": _huber_backward,
    "linalg_cholesky_ex": _with_info("cholesky"),
    "linalg_inv_ex": _with_info("inv"),
    "linalg_solve_triangular": _solve_triangular,
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    "_safe_softmax": lambda x, dim, dtype=None: row("softmax")(x, axis=dim),
    "tanh_backward": exact.tanh_grad,
    "sigmoid_backward": exact.sigmoid_grad,
    "threshold_backward": _threshold_backward,
    "softplus": _softplus,
    "softplus_backward": _softplus_backward,
    "elu": _elu,
    "leaky_relu": lambda x, slope=0.01: row("leaky_relu")(x, negative_slope=float(slope)),
    "logit": _logit,
    "masked_fill": _masked_fill,
    "log_sigmoid_forward": lambda x: (exact.stable_log_sigmoid(x), x * 0),
    "log_sigmoid_backward": _log_sigmoid_backward,
    "_softmax": lambda x, dim, half: row("softmax")(x, axis=dim),
    "_log_softmax": lambda x, dim, half: row("log_softmax")(x, axis=dim),
    "_softmax_backward_data": lambda g, y, dim, dtype: exact.softmax_grad(g, y, dim),
    "_log_softmax_backward_data": lambda g, y, dim, dtype: exact.log_softmax_grad(g, y, dim),
}
