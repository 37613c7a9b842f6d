"""The op table in JAX's own words: what a user would call.

JAX is not imported here: each function is given it as its first argument.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradcheck_cli.engines.kit import compositions
from gradcheck_cli.engines.kit.axes import Pair, each, singular_cutoff
from gradcheck_cli.engines.kit.compositions import classes_last
from gradcheck_cli.engines.kit.lowerings import Composed, Loss, Renamed, Table
from gradcheck_cli.engines.kit.signatures import (
    contracted,
    counted,
    leading,
    listed,
    running,
    shaped,
)

# Losses of classifiers, as one composes them: JAX itself has none


def cross_entropy(xp: Any, logits: Any, labels: Any, label_smoothing: float) -> Any:
    logits = classes_last(xp, logits)
    likely = xp.log_softmax(logits, axis=-1)
    if not label_smoothing:
        return -_chosen(xp, likely, labels)
    classes = logits.shape[-1]
    q = xp.one_hot(labels, num_classes=classes, dtype=logits.dtype)
    q = q * (1 - label_smoothing) + label_smoothing / classes
    return -xp.sum(q * likely, axis=-1)


def _chosen(xp: Any, likely: Any, labels: Any) -> Any:
    return xp.take_along_axis(likely, labels[..., None], axis=-1)[..., 0]


def nll(xp: Any, log_p: Any, labels: Any) -> Any:
    return -_chosen(xp, classes_last(xp, log_p), labels)


# Convolutions. JAX too has the channels on axis 1 by default


def convolution(
    jax: Any,
    x: Any,
    w: Any,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    axes = x.ndim - 2
    return jax.lax.conv_general_dilated(
        x,
        w,
        each(stride, axes),
        [(width, width) for width in each(padding, axes)],
        rhs_dilation=each(dilation, axes),
        feature_group_count=groups,
    )


def conv_transpose2d(
    jax: Any,
    x: Any,
    w: Any,
    stride: Pair = 1,
    padding: Pair = 0,
    output_padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    """A convolution of the array spread out by the strides, with the kernel turned around:
    jax.lax.conv_transpose knows no groups."""
    channels, out, *size = w.shape
    kernel = w.reshape(groups, channels // groups, out, *size).swapaxes(1, 2)
    kernel = kernel.reshape(groups * out, channels // groups, *size)
    around = zip(each(padding, 2), each(output_padding, 2), each(dilation, 2), size, strict=True)
    widths = [(step * (n - 1) - p, step * (n - 1) - p + extra) for p, extra, step, n in around]
    return jax.lax.conv_general_dilated(
        x,
        jax.numpy.flip(kernel, (2, 3)),
        (1, 1),
        widths,
        lhs_dilation=each(stride, 2),
        rhs_dilation=each(dilation, 2),
        feature_group_count=groups,
    )


# Sums, products and extremes of everything up to an element


def cummax(jax: Any, x: Any, axis: int | None = None) -> Any:
    """jax.lax counts no axes from the end."""
    return jax.lax.cummax(x, axis=(axis or 0) % x.ndim)


def cummin(jax: Any, x: Any, axis: int | None = None) -> Any:
    return jax.lax.cummin(x, axis=(axis or 0) % x.ndim)


# Eigenvalues, singular values and their vectors, with the signs that the rows state


def _signs_of_columns(jax: Any, v: Any) -> Any:
    """What makes the first large entry of every column positive."""
    if v.size == 0:
        return 1
    v = jax.lax.stop_gradient(v)
    size = jax.numpy.abs(v)
    first = jax.numpy.argmax(size >= 0.9 * size.max(axis=-2, keepdims=True), axis=-2, keepdims=True)
    decisive = jax.numpy.take_along_axis(v, first, axis=-2)
    return jax.numpy.where(decisive < 0, -1, 1).astype(v.dtype)


def eigh_vectors(jax: Any, x: Any) -> Any:
    v = jax.numpy.linalg.eigh(x).eigenvectors
    return v * _signs_of_columns(jax, v)


def svd_u(jax: Any, x: Any) -> Any:
    u = jax.numpy.linalg.svd(x, full_matrices=False).U
    return u * _signs_of_columns(jax, u)


def svd_vh(jax: Any, x: Any) -> Any:
    u, _, vh = jax.numpy.linalg.svd(x, full_matrices=False)
    signs = _signs_of_columns(jax, u)
    return vh if isinstance(signs, int) else vh * signs.mT


# Determinants


def logdet(jax: Any, x: Any) -> Any:
    sign, size = jax.numpy.linalg.slogdet(x)
    return jax.numpy.where(sign < 0, jax.numpy.nan, size)


# Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse


def pinv(jax: Any, x: Any, rtol: float | None = None) -> Any:
    rtol = singular_cutoff(x, x.dtype.name) if rtol is None else rtol
    return jax.numpy.linalg.pinv(x, rtol=rtol)


def _signs_of_diagonal(jax: Any, r: Any) -> Any:
    diagonal = jax.numpy.diagonal(jax.lax.stop_gradient(r), axis1=-2, axis2=-1)
    return jax.numpy.where(diagonal < 0, -1, 1).astype(r.dtype)


def qr_q(jax: Any, x: Any) -> Any:
    q, r = jax.numpy.linalg.qr(x)
    return q * _signs_of_diagonal(jax, r)[..., None, :]


def qr_r(jax: Any, x: Any) -> Any:
    r = jax.numpy.linalg.qr(x).R
    return r * _signs_of_diagonal(jax, r)[..., :, None]


# Taking arrays apart and putting them together


def take(jax: Any, x: Any, indices: Any, axis: int | None = None) -> Any:
    return jax.numpy.take(x, indices, axis=axis or 0)


def scatter_add(jax: Any, x: Any, indices: Any, updates: Any, axis: int = -1) -> Any:
    ranges = [jax.numpy.arange(n) for n in indices.shape]
    places = list(jax.numpy.meshgrid(*ranges, indexing="ij"))
    places[axis] = indices
    return x.at[tuple(places)].add(updates)


# Layers of networks, as one composes them


def dropout(jax: Any, x: Any, mask: Any, rate: float = 0.5) -> Any:
    return jax.numpy.where(mask, x / (1 - rate), 0)


def embedding(jax: Any, indices: Any, weight: Any) -> Any:
    return weight[indices]


def linear(jax: Any, x: Any, w: Any, b: Any) -> Any:
    return x @ w.T + b


def masked_attention(
    jax: Any, q: Any, k: Any, v: Any, mask: Any = None, scale: float | None = None
) -> Any:
    """jax.nn.dot_product_attention takes arrays of another order of axes."""
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = jax.numpy.where(mask, scores, -jax.numpy.inf)
    return jax.nn.softmax(scores, axis=-1) @ v


def scaled_dot_product_attention(
    jax: Any, q: Any, k: Any, v: Any, is_causal: bool = False, scale: float | None = None
) -> Any:
    mask = jax.numpy.tri(q.shape[-2], k.shape[-2], dtype=bool) if is_causal else None
    return masked_attention(jax, q, k, v, mask, scale)


# Losses that compare element by element, as one composes them: JAX itself has none


def bce_with_logits(xp: Any, x: Any, y: Any) -> Any:
    return -y * xp.log_sigmoid(x) - (1 - y) * xp.log_sigmoid(-x)


def mse(xp: Any, x: Any, y: Any) -> Any:
    return xp.square(x - y)


# Equations with matrices, and functions of square matrices


def solve(jax: Any, x1: Any, x2: Any) -> Any:
    """x2 is a vector only where it has one axis."""
    columns = x2[:, None] if x2.ndim == 1 else x2
    y = jax.numpy.linalg.solve(x1, columns[(None,) * (x1.ndim - columns.ndim)])
    return y[..., 0] if x2.ndim == 1 else y


def triangular_solve(jax: Any, x1: Any, x2: Any, lower: bool = True) -> Any:
    """jax.scipy.linalg.solve_triangular takes stacks of one shape."""
    columns = x2[:, None] if x2.ndim == 1 else x2
    batch = jax.numpy.broadcast_shapes(x1.shape[:-2], columns.shape[:-2])
    a, b = (jax.numpy.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (x1, columns))
    y = jax.lax.linalg.triangular_solve(a, b, left_side=True, lower=lower)
    return y[..., 0] if x2.ndim == 1 else y


# Normalisation of layers, as one composes it


def _normalised(jax: Any, x: Any, axes: tuple[int, ...], eps: float) -> Any:
    mean = x.mean(axis=axes, keepdims=True)
    variance = x.var(axis=axes, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + eps)


def _by_channel(x: Any, parameter: Any) -> Any:
    """A parameter of shape (C,) along axis 1 of x."""
    return parameter.reshape(-1, *(1,) * (x.ndim - 2))


def batch_norm(jax: Any, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    y = _normalised(jax, x, (0, *range(2, x.ndim)), eps)
    return y * _by_channel(x, weight) + _by_channel(x, bias)


def group_norm(jax: Any, x: Any, weight: Any, bias: Any, num_groups: int, eps: float = 1e-5) -> Any:
    size = math.prod(x.shape[1:]) // num_groups
    groups = x.reshape(x.shape[0], num_groups, size)
    y = _normalised(jax, groups, (2,), eps).reshape(x.shape)
    return y * _by_channel(x, weight) + _by_channel(x, bias)


def layer_norm(jax: Any, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    return _normalised(jax, x, tuple(range(-weight.ndim, 0)), eps) * weight + bias


def rms_norm(jax: Any, x: Any, weight: Any, eps: float = 1e-5) -> Any:
    axes = tuple(range(-weight.ndim, 0))
    return x * jax.lax.rsqrt((x * x).mean(axis=axes, keepdims=True) + eps) * weight


# Elements by their size


def argsort(jax: Any, x: Any, axis: int = -1, descending: bool = False) -> Any:
    return jax.numpy.argsort(x, axis=axis, descending=descending, stable=True)


def _top(jax: Any, x: Any, k: int, axis: int, largest: bool) -> tuple[Any, Any]:
    """jax.lax.top_k takes the largest."""
    values, indices = jax.lax.top_k(x if largest else -x, k, axis=axis % x.ndim)
    return (values if largest else -values), indices.astype("int64")


def topk_values(jax: Any, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    return _top(jax, x, k, axis, largest)[0]


def topk_indices(jax: Any, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    return _top(jax, x, k, axis, largest)[1]


# Pooling, as one composes it of windows


def _windows(kernel_size: Pair, stride: Pair | None, padding: Pair) -> tuple[Any, ...]:
    """Lengths, steps and widths over all four axes."""
    steps = each(kernel_size if stride is None else stride, 2)
    widths = [(0, 0), (0, 0), *((p, p) for p in each(padding, 2))]
    return (1, 1, *each(kernel_size, 2)), (1, 1, *steps), widths


def max_pool2d(
    jax: Any, x: Any, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0
) -> Any:
    windows = _windows(kernel_size, stride, padding)
    return jax.lax.reduce_window(x, -jax.numpy.inf, jax.lax.max, *windows)


def avg_pool2d(
    jax: Any,
    x: Any,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    count_include_pad: bool = True,
) -> Any:
    windows = _windows(kernel_size, stride, padding)
    total = jax.lax.reduce_window(x, 0.0, jax.lax.add, *windows)
    if count_include_pad:
        height, width = each(kernel_size, 2)
        return total / (height * width)
    return total / jax.lax.reduce_window(jax.numpy.ones_like(x), 0.0, jax.lax.add, *windows)


# Sums, products and extremes over axes


_REDUCTIONS = (
    "all",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "max",
    "mean",
    "min",
    "prod",
    "sum",
)


# Other shapes for the same elements


def repeat(jax: Any, x: Any, repeats: Any, axis: int | None = None) -> Any:
    """How often is known beforehand, or the result had no shape."""
    return jax.numpy.repeat(x, np.asarray(repeats), axis=axis)


def pad(jax: Any, x: Any, pad_width: Any, value: float = 0.0) -> Any:
    return jax.numpy.pad(x, pad_width, constant_values=value)


def trace(jax: Any, x: Any, offset: int = 0) -> Any:
    return jax.numpy.trace(x, offset, axis1=-2, axis2=-1)


# Directions of vectors, and how near they are


def normalize(jax: Any, x: Any, ord: float = 2, axis: int = -1, eps: float = 1e-12) -> Any:
    size = jax.numpy.linalg.vector_norm(x, ord=ord, axis=axis, keepdims=True)
    return x / jax.numpy.maximum(size, eps)


def triplet(xp: Any, *points: Any, **keywords: Any) -> Any:
    return xp.relu(compositions.triplet_excess(xp, *points, **keywords))


# Circular and hyperbolic functions


_TRIGONOMETRIC = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh"),
    *("cos", "cosh", "sin", "sinc", "sinh", "tan"),
)


TABLE: Table = {
    # Activation functions
    "elu": "nn.elu",
    "gelu": "nn.gelu",
    "hardtanh": "numpy.clip",
    "leaky_relu": "nn.leaky_relu",
    "log_sigmoid": "nn.log_sigmoid",
    "mish": "nn.mish",
    "relu6": "nn.relu6",
    "selu": "nn.selu",
    "silu": "nn.silu",
    "softsign": "nn.soft_sign",
    # Arithmetic
    "abs": "numpy.abs",
    "cbrt": "numpy.cbrt",
    "hypot": "numpy.hypot",
    "reciprocal": "numpy.reciprocal",
    "remainder": "numpy.remainder",
    "rsqrt": "lax.rsqrt",
    "sqrt": "numpy.sqrt",
    "square": "numpy.square",
    # Modified Bessel functions of the first kind
    "i0": "scipy.special.i0",
    "i0e": "scipy.special.i0e",
    "i1": "scipy.special.i1",
    "i1e": "scipy.special.i1e",
    # Losses of classifiers, as one composes them: JAX itself has none
    "cross_entropy": Loss(Composed(cross_entropy)),
    "nll": Loss(Composed(nll)),
    "soft_cross_entropy": Loss(Composed(compositions.soft_cross_entropy)),
    # Operations that pass a value on
    "stop_gradient": "lax.stop_gradient",
    # Convolutions. JAX too has the channels on axis 1 by default
    "conv1d": convolution,
    "conv2d": convolution,
    "conv_transpose2d": conv_transpose2d,
    # Arrays that are made of nothing but their shape
    "arange": counted("numpy.arange"),
    "eye": Renamed("numpy.eye", {"n": "N", "m": "M"}),
    "full": shaped("numpy.full"),
    "full_like": "numpy.full_like",
    "ones": shaped("numpy.ones"),
    "ones_like": "numpy.ones_like",
    "zeros": shaped("numpy.zeros"),
    "zeros_like": "numpy.zeros_like",
    # Sums, products and extremes of everything up to an element
    "cummax": cummax,
    "cummin": cummin,
    "cumprod": running("numpy.cumprod"),
    "cumsum": running("numpy.cumsum"),
    # Eigenvalues, singular values and their vectors, with the signs that the rows state
    "eigh_vectors": eigh_vectors,
    "eigvalsh": "numpy.linalg.eigvalsh",
    "svd_u": svd_u,
    "svd_vh": svd_vh,
    "svdvals": "numpy.linalg.svdvals",
    # Determinants
    "det": "numpy.linalg.det",
    "logdet": logdet,
    "slogdet_logabs": Renamed("numpy.linalg.slogdet", part="logabsdet"),
    "slogdet_sign": Renamed("numpy.linalg.slogdet", part="sign"),
    # Exponentials, logarithms, and the functions of the logistic family
    "exp": "numpy.exp",
    "exp2": "numpy.exp2",
    "expm1": "numpy.expm1",
    "log": "numpy.log",
    "log10": "numpy.log10",
    "log1mexp": "nn.log1mexp",
    "log1p": "numpy.log1p",
    "log2": "numpy.log2",
    "logaddexp": "numpy.logaddexp",
    "sigmoid": "nn.sigmoid",
    "softplus": "nn.softplus",
    "tanh": "numpy.tanh",
    "xlog1py": "scipy.special.xlog1py",
    "xlogy": "scipy.special.xlogy",
    # Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse
    "cholesky": "numpy.linalg.cholesky",
    "pinv": pinv,
    "qr_q": qr_q,
    "qr_r": qr_r,
    # The logarithm of the gamma function, its derivatives, and that of the beta function
    "betaln": "scipy.special.betaln",
    "digamma": "scipy.special.digamma",
    "lgamma": "scipy.special.gammaln",
    "polygamma": leading("scipy.special.polygamma", "n"),
    # Taking arrays apart and putting them together
    "concatenate": listed("numpy.concatenate"),
    "getitem": Composed(compositions.getitem),
    "one_hot": "nn.one_hot",
    "scatter_add": scatter_add,
    "stack": listed("numpy.stack"),
    "take": take,
    "take_along_axis": "numpy.take_along_axis",
    # Layers of networks, as one composes them
    "dropout": dropout,
    "embedding": embedding,
    "linear": linear,
    "masked_attention": masked_attention,
    "scaled_dot_product_attention": scaled_dot_product_attention,
    # Products of vectors, matrices and arrays of any rank
    "cross": "numpy.cross",
    "dot": "numpy.dot",
    "einsum": leading("numpy.einsum", "subscripts"),
    "kron": "numpy.kron",
    "matmul": "numpy.matmul",
    "outer": "numpy.outer",
    "tensordot": contracted("numpy.tensordot"),
    # Losses that compare element by element, as one composes them: JAX itself has none
    "bce": Loss(Composed(compositions.bce)),
    "bce_with_logits": Loss(Composed(bce_with_logits)),
    "hinge": Loss(Composed(compositions.hinge)),
    "huber": Loss(Composed(compositions.huber)),
    "kl_div": Loss(Composed(compositions.kl_div)),
    "l1": Loss(Composed(compositions.l1)),
    "mse": Loss(Composed(mse)),
    # Equations with matrices, and functions of square matrices
    "expm": "scipy.linalg.expm",
    "inv": "numpy.linalg.inv",
    "matrix_power": "numpy.linalg.matrix_power",
    "solve": solve,
    "triangular_solve": triangular_solve,
    # Normalised exponentials
    "log_softmax": "nn.log_softmax",
    "logsumexp": "nn.logsumexp",
    "softmax": "nn.softmax",
    # Normalisation of layers, as one composes it
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    # Lengths of vectors
    "norm": "numpy.linalg.vector_norm",
    # Elements by their size
    "argsort": argsort,
    "median": "numpy.median",
    "sort": "numpy.sort",
    "topk_indices": topk_indices,
    "topk_values": topk_values,
    # Pooling, as one composes it of windows
    "avg_pool2d": avg_pool2d,
    "max_pool2d": max_pool2d,
    # Sums, products and extremes over axes
    **{name: f"numpy.{name}" for name in _REDUCTIONS},
    # Logic, and the functions that choose between their arguments
    "ceil": "numpy.ceil",
    "clip": "numpy.clip",
    "floor": "numpy.floor",
    "logical_and": "numpy.logical_and",
    "logical_not": "numpy.logical_not",
    "logical_or": "numpy.logical_or",
    "maximum": "numpy.maximum",
    "minimum": "numpy.minimum",
    "relu": "nn.relu",
    "round": "numpy.round",
    "sign": "numpy.sign",
    "where": "numpy.where",
    # Other shapes for the same elements
    "broadcast_to": shaped("numpy.broadcast_to"),
    "diag": "numpy.diag",
    "expand_dims": "numpy.expand_dims",
    "flip": "numpy.flip",
    "moveaxis": "numpy.moveaxis",
    "pad": pad,
    "repeat": repeat,
    "reshape": "numpy.reshape",
    "roll": "numpy.roll",
    "squeeze": "numpy.squeeze",
    "tile": "numpy.tile",
    "trace": trace,
    "transpose": "numpy.transpose",
    "tril": "numpy.tril",
    "triu": "numpy.triu",
    # Directions of vectors, and how near they are
    "cosine_similarity": Composed(compositions.cosine_similarity),
    "normalize": normalize,
    "triplet": Loss(Composed(triplet)),
    # The error function, the normal distribution, log-odds and entropy
    "entr": "scipy.special.entr",
    "erf": "scipy.special.erf",
    "erfc": "scipy.special.erfc",
    "erfcx": "scipy.special.erfcx",
    "erfinv": "scipy.special.erfinv",
    "log_ndtr": "scipy.special.log_ndtr",
    "logit": "scipy.special.logit",
    "ndtr": "scipy.special.ndtr",
    "ndtri": "scipy.special.ndtri",
    # Variance and standard deviation
    "std": "numpy.std",
    "var": "numpy.var",
    # Circular and hyperbolic functions
    **{name: f"numpy.{name}" for name in _TRIGONOMETRIC},
}
