"""The op table in JAX's own words: what a user would call.

JAX is not imported here: each function is given it as its first argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.engines.jax import matrices, networks
from gradcheck_cli.engines.kit import compositions
from gradcheck_cli.engines.kit.lowerings import Composed, Loss, Renamed, Table
from gradcheck_cli.engines.kit.signatures import (
    contracted,
    counted,
    leading,
    listed,
    running,
    shaped,
)

# Sums, products and extremes of everything up to an element


def cummax(jax: Any, x: Any, axis: int | None = None) -> Any:
    """jax.lax counts no axes from the end."""
    return jax.lax.cummax(x, axis=(axis or 0) % x.ndim)


def cummin(jax: Any, x: Any, axis: int | None = None) -> Any:
    return jax.lax.cummin(x, axis=(axis or 0) % x.ndim)


# Taking arrays apart and putting them together


def take(jax: Any, x: Any, indices: Any, axis: int | None = None) -> Any:
    return jax.numpy.take(x, indices, axis=axis or 0)


def scatter_add(jax: Any, x: Any, indices: Any, updates: Any, axis: int = -1) -> Any:
    ranges = [jax.numpy.arange(n) for n in indices.shape]
    places = list(jax.numpy.meshgrid(*ranges, indexing="ij"))
    places[axis] = indices
    return x.at[tuple(places)].add(updates)


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
    "cross_entropy": Loss(Composed(networks.cross_entropy)),
    "nll": Loss(Composed(networks.nll)),
    "soft_cross_entropy": Loss(Composed(compositions.soft_cross_entropy)),
    # Operations that pass a value on
    "stop_gradient": "lax.stop_gradient",
    # Convolutions. JAX too has the channels on axis 1 by default
    "conv1d": networks.convolution,
    "conv2d": networks.convolution,
    "conv_transpose2d": networks.conv_transpose2d,
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
    "eigh_vectors": matrices.eigh_vectors,
    "eigvalsh": "numpy.linalg.eigvalsh",
    "svd_u": matrices.svd_u,
    "svd_vh": matrices.svd_vh,
    "svdvals": "numpy.linalg.svdvals",
    # Determinants
    "det": "numpy.linalg.det",
    "logdet": matrices.logdet,
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
    "pinv": matrices.pinv,
    "qr_q": matrices.qr_q,
    "qr_r": matrices.qr_r,
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
    "dropout": networks.dropout,
    "embedding": networks.embedding,
    "linear": networks.linear,
    "masked_attention": networks.masked_attention,
    "scaled_dot_product_attention": networks.scaled_dot_product_attention,
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
    "bce_with_logits": Loss(Composed(networks.bce_with_logits)),
    "hinge": Loss(Composed(compositions.hinge)),
    "huber": Loss(Composed(compositions.huber)),
    "kl_div": Loss(Composed(compositions.kl_div)),
    "l1": Loss(Composed(compositions.l1)),
    "mse": Loss(Composed(networks.mse)),
    # Equations with matrices, and functions of square matrices
    "expm": "scipy.linalg.expm",
    "inv": "numpy.linalg.inv",
    "matrix_power": "numpy.linalg.matrix_power",
    "solve": matrices.solve,
    "triangular_solve": matrices.triangular_solve,
    # Normalised exponentials
    "log_softmax": "nn.log_softmax",
    "logsumexp": "nn.logsumexp",
    "softmax": "nn.softmax",
    # Normalisation of layers, as one composes it
    "batch_norm": networks.batch_norm,
    "group_norm": networks.group_norm,
    "layer_norm": networks.layer_norm,
    "rms_norm": networks.rms_norm,
    # Lengths of vectors
    "norm": "numpy.linalg.vector_norm",
    # Elements by their size
    "argsort": argsort,
    "median": "numpy.median",
    "sort": "numpy.sort",
    "topk_indices": topk_indices,
    "topk_values": topk_values,
    # Pooling, as one composes it of windows
    "avg_pool2d": networks.avg_pool2d,
    "max_pool2d": networks.max_pool2d,
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
    "normalize": matrices.normalize,
    "triplet": Loss(Composed(matrices.triplet)),
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
