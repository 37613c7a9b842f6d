"""The op table in TensorFlow's own functions, as a user would call them.

TensorFlow is not imported here: each function receives it as its first argument.
"""

from __future__ import annotations

import math
from math import inf, prod, sqrt
from typing import Any

from gradcheck_cli.engines.kit import compositions
from gradcheck_cli.engines.kit.axes import axes_of
from gradcheck_cli.engines.kit.lowerings import (
    Composed,
    Limited,
    Loss,
    Lowering,
    Missing,
    Renamed,
    Table,
    same_names,
)
from gradcheck_cli.engines.kit.signatures import arange_args, contracted, listed, running, shaped
from gradcheck_cli.engines.tensorflow import matrices, networks, shapes

# Activation functions


def elu(tf: Any, x: Any, alpha: float) -> Any:
    """Elu with a scale for negative x, as Keras does it: tf.nn.elu has no alpha."""
    y = tf.nn.elu(x)
    return y if alpha == 1 else tf.where(x > 0, y, alpha * y)


def mish(tf: Any, x: Any) -> Any:
    return x * tf.tanh(tf.nn.softplus(x))


# Arithmetic


def hypot(tf: Any, x1: Any, x2: Any) -> Any:
    """The length of (x1, x2), divided by the larger so that no square overflows. The result does
    not depend on the divisor, so the divisor needs no gradient. The root never sees zero."""
    largest = tf.stop_gradient(tf.maximum(tf.abs(x1), tf.abs(x2)))
    one = tf.ones_like(largest)
    scale = tf.where(largest > 0, largest, one)
    squares = tf.square(x1 / scale) + tf.square(x2 / scale)
    return largest * tf.sqrt(tf.where(largest > 0, squares, one))


# Running sums, products and extremes


def _extreme(name: str, beyond: float) -> Lowering:
    """A running extreme, which TensorFlow does not have: the extreme of each row of a table, whose
    row i holds the elements up to i."""

    def extreme(tf: Any, x: Any, axis: int | None) -> Any:
        moved = shapes.moveaxis(tf, x, axis or 0, -1)
        n = moved.shape[-1]
        so_far = tf.range(n)[None, :] <= tf.range(n)[:, None]
        table = tf.where(so_far, moved[..., None, :], tf.constant(beyond, x.dtype))
        return shapes.moveaxis(tf, getattr(tf, name)(table, axis=-1), -1, axis or 0)

    return extreme


# Exponentials, logarithms, and the functions of the logistic family


def exp2(tf: Any, x: Any) -> Any:
    return tf.pow(tf.constant(2, x.dtype), x)


def log2(tf: Any, x: Any) -> Any:
    return tf.math.log(x) / math.log(2)


def log10(tf: Any, x: Any) -> Any:
    return tf.math.log(x) / math.log(10)


def logaddexp(tf: Any, x1: Any, x2: Any) -> Any:
    """The larger argument plus the amount that the smaller one adds to it."""
    first = x1 >= x2
    larger, smaller = tf.where(first, x1, x2), tf.where(first, x2, x1)
    return larger + tf.nn.softplus(smaller - larger)


# The logarithms of the gamma and beta functions, and the derivatives of the former


def betaln(tf: Any, a: Any, b: Any) -> Any:
    shape = tf.broadcast_dynamic_shape(tf.shape(a), tf.shape(b))
    both = [tf.broadcast_to(a, shape), tf.broadcast_to(b, shape)]
    return tf.math.lbeta(tf.stack(both, axis=-1))


def polygamma(tf: Any, x: Any, n: int) -> Any:
    return tf.math.polygamma(tf.cast(n, x.dtype), x)


# Sums, products and extremes over axes


def _argument(name: str) -> Lowering:
    def argument(tf: Any, x: Any, axis: int | None, keepdims: bool) -> Any:
        """tf.argmax or tf.argmin. Without an axis these take the first axis, not all."""
        call = getattr(tf, name)
        if axis is None:
            index = call(tf.reshape(x, [-1]), axis=0)
            return tf.reshape(index, (1,) * x.shape.rank) if keepdims else index
        index = call(x, axis=axis)
        return tf.expand_dims(index, axis) if keepdims else index

    return argument


# Logic, and the functions that choose between their arguments


def clip(tf: Any, x: Any, min: Any, max: Any) -> Any:
    if min is not None and max is not None:
        return tf.clip_by_value(x, min, max)
    x = x if min is None else tf.maximum(x, min)
    return x if max is None else tf.minimum(x, max)


# The error function, the normal distribution, log-odds and entropy


def entr(tf: Any, x: Any) -> Any:
    return -tf.math.xlogy(x, x)


def logit(tf: Any, x: Any) -> Any:
    return tf.math.log(x) - tf.math.log1p(-x)


def ndtr(tf: Any, x: Any) -> Any:
    return 0.5 * tf.math.erfc(-x / math.sqrt(2))


# Variance and standard deviation


def _corrected(x: Any, axis: Any, correction: float) -> float:
    """The factor between the variance of the population and the corrected variance."""
    count = prod(x.shape[a] for a in axes_of(axis, x.shape.rank))
    free = max(count - correction, 0)
    return count / free if free else inf


def var(tf: Any, x: Any, axis: Any, correction: float, keepdims: bool) -> Any:
    y = tf.math.reduce_variance(x, axis=axis, keepdims=keepdims)
    return y * _corrected(x, axis, correction) if correction else y


def std(tf: Any, x: Any, axis: Any, correction: float, keepdims: bool) -> Any:
    y = tf.math.reduce_std(x, axis=axis, keepdims=keepdims)
    return y * sqrt(_corrected(x, axis, correction)) if correction else y


# Circular and hyperbolic functions


# Below 1/2, (pi/2)^(2k) / (2k + 1)! is less than 2^-60 of the first term from k = 12 on.
_SINC = [(-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(12)]


def sinc(tf: Any, x: Any) -> Any:
    """sin(pi x) / (pi x). Near 0 it is the Taylor series, because the derivative of the quotient is
    a difference of two numbers of size 1 / x there."""
    near = tf.abs(x) < 0.5
    inside, outside = tf.where(near, x, tf.zeros_like(x)), tf.where(near, tf.ones_like(x), x)
    series = tf.math.polyval([tf.constant(c, x.dtype) for c in reversed(_SINC)], inside * inside)
    return tf.where(near, series, tf.sin(math.pi * outside) / (math.pi * outside))


TABLE: Table = {
    **same_names(
        "",
        """
        abs sqrt square stop_gradient ones_like zeros_like exp sigmoid tanh floor logical_and
        logical_not logical_or maximum minimum round sign where repeat squeeze
        """,
    ),
    **same_names(
        "math",
        """
        log_sigmoid reciprocal rsqrt expm1 log log1p xlog1py xlogy digamma lgamma count_nonzero ceil
        erf erfc erfinv ndtri acos acosh asin asinh atan atan2 atanh cos cosh sin sinh tan
        """,
    ),
    **same_names("linalg", "det expm inv"),
    **same_names("nn", "relu6 selu silu softplus log_softmax softmax relu"),
    # Activation functions
    "elu": elu,
    "gelu": Limited("nn.gelu", "it rounds its constants to float32", constants="float32"),
    "hardtanh": Renamed("clip_by_value", {"min": "clip_value_min", "max": "clip_value_max"}),
    "leaky_relu": Limited(
        Renamed("nn.leaky_relu", {"negative_slope": "alpha"}),
        "it rounds its slope to float32",
        constants="float32",
    ),
    "mish": mish,
    "softsign": Limited(
        "nn.softsign", "no gradient of SoftsignGrad is registered", reverse_only=True
    ),
    # Arithmetic
    "cbrt": Composed(compositions.cbrt),
    "hypot": hypot,
    "remainder": "math.floormod",
    # Modified Bessel functions of the first kind
    "i0": "math.bessel_i0",
    "i0e": "math.bessel_i0e",
    "i1": "math.bessel_i1",
    "i1e": "math.bessel_i1e",
    **dict.fromkeys(
        ("bessel_i", "bessel_j", "bessel_y", "bessel_k", "bessel_ke"),
        Missing("TensorFlow has Bessel functions of the orders 0 and 1 alone"),
    ),
    # Integrals without an elementary form
    **same_names("math.special", "dawsn spence fresnel_sin fresnel_cos"),
    "expi": Missing("TensorFlow's exponential integral is nan at negative numbers"),
    "expn": Missing("TensorFlow has no exponential integral of a given order"),
    "si": Missing("TensorFlow has no sine integral"),
    "ci": Missing("TensorFlow has no cosine integral"),
    # Losses of classifiers. TensorFlow has the classes on the last axis
    "cross_entropy": Loss(networks.cross_entropy),
    "nll": Loss(networks.nll),
    "soft_cross_entropy": Loss(Composed(compositions.soft_cross_entropy)),
    # Convolutions. TensorFlow's have the channels last on the CPU
    "conv1d": networks.conv1d,
    "conv2d": networks.conv2d,
    "conv_transpose2d": networks.conv_transpose2d,
    # Arrays made from their shape alone
    "arange": arange_args("range"),
    "eye": shapes.eye,
    "full": shapes.full,
    "full_like": shapes.full_like,
    "ones": shaped("ones"),
    "zeros": shaped("zeros"),
    # Running sums, products and extremes
    "cummax": _extreme("reduce_max", -inf),
    "cummin": _extreme("reduce_min", inf),
    "cumprod": running("math.cumprod"),
    "cumsum": running("cumsum"),
    # Eigenvalues, singular values and their vectors, with the signs that the rows state
    "eigh_vectors": matrices.eigh_vectors,
    "eigvalsh": matrices.eigvalsh,
    "svd_u": matrices.svd_u,
    "svd_vh": matrices.svd_vh,
    "svdvals": Renamed("linalg.svd", also={"compute_uv": False}),
    # Determinants
    "logdet": matrices.logdet,
    "slogdet_logabs": Renamed("linalg.slogdet", part="log_abs_determinant"),
    "slogdet_sign": matrices.slogdet_sign,
    # Exponentials, logarithms, and the functions of the logistic family
    "exp2": exp2,
    "log10": log10,
    "log1mexp": Composed(compositions.log1mexp),
    "log2": log2,
    "logaddexp": logaddexp,
    # Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse
    "cholesky": matrices.cholesky,
    "pinv": matrices.pinv,
    "qr_q": matrices.qr_q,
    "qr_r": matrices.qr_r,
    # The logarithms of the gamma and beta functions, and the derivatives of the former
    "betaln": betaln,
    "polygamma": polygamma,
    # Incomplete functions, and Hurwitz' zeta function
    "gammainc": Missing("the derivative of tf.math.igamma by a has no derivative, and few digits"),
    "gammaincc": Missing(
        "the derivative of tf.math.igammac by a has no derivative, and few digits"
    ),
    "betainc": Missing("tf.math.betainc has no derivative by a and b"),
    "zeta": Missing("tf.math.zeta has no derivative by s"),
    # Taking arrays apart and putting them together
    "concatenate": listed("concat"),
    "getitem": Composed(compositions.getitem),
    "one_hot": shapes.one_hot,
    "scatter_add": shapes.scatter_add,
    "stack": listed("stack"),
    "take": shapes.take,
    "take_along_axis": shapes.take_along_axis,
    # Layers of networks, composed without Keras
    "dropout": networks.dropout,
    "embedding": networks.embedding,
    "linear": networks.linear,
    "masked_attention": networks.masked_attention,
    "scaled_dot_product_attention": networks.scaled_dot_product_attention,
    # Products of vectors, matrices and arrays of any rank
    "cross": matrices.cross,
    "dot": matrices.dot,
    "einsum": matrices.einsum,
    "kron": matrices.kron,
    "matmul": matrices.matmul,
    "outer": Renamed("tensordot", also={"axes": 0}),
    "tensordot": contracted("tensordot"),
    # Losses that compare element by element, as Keras composes them
    "bce": Loss(Composed(compositions.bce)),
    "bce_with_logits": Loss(networks.bce_with_logits),
    "hinge": Loss(networks.hinge),
    "huber": Loss(Composed(compositions.huber)),
    "kl_div": Loss(Composed(compositions.kl_div)),
    "l1": Loss(Composed(compositions.l1)),
    "mse": Loss("math.squared_difference"),
    # Equations with matrices, and functions of square matrices
    "matrix_power": matrices.matrix_power,
    "solve": matrices.solve,
    "triangular_solve": matrices.triangular_solve,
    # Normalised exponentials
    "logsumexp": "reduce_logsumexp",
    # Normalisation of layers
    "batch_norm": networks.batch_norm,
    "group_norm": networks.group_norm,
    "layer_norm": networks.layer_norm,
    "rms_norm": networks.rms_norm,
    # Lengths of vectors
    "norm": matrices.norm,
    # Order statistics
    "argsort": shapes.argsort,
    "median": shapes.median,
    "sort": shapes.sort,
    "topk_indices": shapes.topk_indices,
    "topk_values": shapes.topk_values,
    # Pooling. TensorFlow's has the channels last on the CPU
    "avg_pool2d": networks.avg_pool2d,
    "max_pool2d": networks.max_pool2d,
    # Sums, products and extremes over axes
    "all": "reduce_all",
    "any": "reduce_any",
    "argmax": _argument("argmax"),
    "argmin": _argument("argmin"),
    "max": "reduce_max",
    "mean": "reduce_mean",
    "min": "reduce_min",
    "prod": "reduce_prod",
    "sum": "reduce_sum",
    # Logic, and the functions that choose between their arguments
    "clip": clip,
    # Other shapes for the same elements
    "broadcast_to": shaped("broadcast_to"),
    "diag": shapes.diag,
    "expand_dims": shapes.expand_dims,
    "flip": shapes.flip,
    "moveaxis": shapes.moveaxis,
    "pad": shapes.pad,
    "reshape": shaped("reshape"),
    "roll": shapes.roll,
    "tile": shapes.tile,
    "trace": shapes.trace,
    "transpose": shapes.transpose,
    "tril": shapes.tril,
    "triu": shapes.triu,
    # Directions of vectors, and how near they are
    "cosine_similarity": Composed(compositions.cosine_similarity),
    "normalize": matrices.normalize,
    "triplet": Loss(Composed(matrices.triplet)),
    # The error function, the normal distribution, log-odds and entropy
    "entr": entr,
    "erfcx": Missing("TensorFlow has no scaled complementary error function"),
    "log_ndtr": Missing(
        "TensorFlow has no log_ndtr, and no scaled complementary error function to write it with"
    ),
    "logit": logit,
    "ndtr": ndtr,
    # Variance and standard deviation
    "std": std,
    "var": var,
    # Circular and hyperbolic functions
    "sinc": sinc,
}
