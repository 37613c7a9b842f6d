"""The op table in JAX's own functions, as a user would call them.

JAX is not imported here: each function receives it as its first argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.engines.jax import matrices, networks
from gradcheck_cli.engines.kit import compositions
from gradcheck_cli.engines.kit.lowerings import (
    Composed,
    Loss,
    Lowering,
    Missing,
    Renamed,
    Table,
    same_names,
)
from gradcheck_cli.engines.kit.signatures import (
    arange_args,
    contracted,
    leading,
    listed,
    running,
    shaped,
)

# Running sums, products and extremes


def cummax(jax: Any, x: Any, axis: int | None) -> Any:
    """jax.lax.cummax, which does not count axes from the end."""
    return jax.lax.cummax(x, axis=(axis or 0) % x.ndim)


def cummin(jax: Any, x: Any, axis: int | None) -> Any:
    return jax.lax.cummin(x, axis=(axis or 0) % x.ndim)


# Taking arrays apart and putting them together


def take(jax: Any, x: Any, indices: Any, axis: int | None) -> Any:
    return jax.numpy.take(x, indices, axis=axis or 0)


def scatter_add(jax: Any, x: Any, indices: Any, updates: Any, axis: int) -> Any:
    ranges = [jax.numpy.arange(n) for n in indices.shape]
    places = list(jax.numpy.meshgrid(*ranges, indexing="ij"))
    places[axis] = indices
    return x.at[tuple(places)].add(updates)


# Order statistics


def argsort(jax: Any, x: Any, axis: int, descending: bool) -> Any:
    return jax.numpy.argsort(x, axis=axis, descending=descending, stable=True)


def _top(jax: Any, x: Any, k: int, axis: int, largest: bool) -> tuple[Any, Any]:
    """The values and indices of the k largest or smallest elements. jax.lax.top_k finds the
    largest."""
    values, indices = jax.lax.top_k(x if largest else -x, k, axis=axis % x.ndim)
    return (values if largest else -values), indices.astype("int64")


def topk_values(jax: Any, x: Any, k: int, axis: int, largest: bool) -> Any:
    return _top(jax, x, k, axis, largest)[0]


def topk_indices(jax: Any, x: Any, k: int, axis: int, largest: bool) -> Any:
    return _top(jax, x, k, axis, largest)[1]


def part_of(name: str, part: int) -> Lowering:
    """One of the two results of a function of jax.scipy.special."""
    return lambda jax, x: getattr(jax.scipy.special, name)(x)[part]


# Other shapes for the same elements


def repeat(jax: Any, x: Any, repeats: Any, axis: int | None) -> Any:
    """Repeat elements. The counts must be constants, or the result would have no static shape."""
    return jax.numpy.repeat(x, np.asarray(repeats), axis=axis)


def pad(jax: Any, x: Any, pad_width: Any, value: float) -> Any:
    return jax.numpy.pad(x, pad_width, constant_values=value)


def trace(jax: Any, x: Any, offset: int) -> Any:
    return jax.numpy.trace(x, offset, axis1=-2, axis2=-1)


TABLE: Table = {
    **same_names(
        "numpy",
        """
        abs cbrt hypot reciprocal remainder sqrt square full_like ones_like zeros_like exp exp2
        expm1 log log10 log1p log2 logaddexp tanh take_along_axis cross dot kron matmul outer median
        sort ceil clip floor logical_and logical_not logical_or maximum minimum round sign where
        diag expand_dims flip moveaxis reshape roll squeeze tile transpose tril triu std var
        acos acosh asin asinh atan atan2 atanh cos cosh sin sinc sinh tan
        all any argmax argmin count_nonzero max mean min prod sum
        """,
    ),
    **same_names("numpy.linalg", "eigvalsh svdvals det cholesky inv matrix_power"),
    **same_names(
        "nn",
        """
        elu gelu leaky_relu log_sigmoid mish relu6 selu silu log1mexp sigmoid softplus one_hot
        log_softmax logsumexp softmax relu
        """,
    ),
    **same_names("lax", "rsqrt stop_gradient"),
    **same_names(
        "scipy.special",
        """
        i0 i0e i1 i1e xlog1py xlogy betaln digamma entr erf erfc erfcx erfinv gammainc gammaincc
        log_ndtr logit ndtr ndtri
        """,
    ),
    # Activation functions
    "hardtanh": "numpy.clip",
    "softsign": "nn.soft_sign",
    # Losses of classifiers, composed: JAX has none
    "cross_entropy": Loss(Composed(networks.cross_entropy)),
    "nll": Loss(Composed(networks.nll)),
    "soft_cross_entropy": Loss(Composed(compositions.soft_cross_entropy)),
    # Convolutions. JAX also has the channels on axis 1 by default
    "conv1d": networks.convolution,
    "conv2d": networks.convolution,
    "conv_transpose2d": networks.conv_transpose2d,
    # Arrays made from their shape alone
    "arange": arange_args("numpy.arange"),
    "eye": Renamed("numpy.eye", {"n": "N", "m": "M"}),
    "full": shaped("numpy.full"),
    "ones": shaped("numpy.ones"),
    "zeros": shaped("numpy.zeros"),
    # Running sums, products and extremes
    "cummax": cummax,
    "cummin": cummin,
    "cumprod": running("numpy.cumprod"),
    "cumsum": running("numpy.cumsum"),
    # Eigenvalues, singular values and their vectors, with the signs that the rows state
    "eigh_vectors": matrices.eigh_vectors,
    "svd_u": matrices.svd_u,
    "svd_vh": matrices.svd_vh,
    # Determinants
    "logdet": matrices.logdet,
    "slogdet_logabs": Renamed("numpy.linalg.slogdet", part="logabsdet"),
    "slogdet_sign": Renamed("numpy.linalg.slogdet", part="sign"),
    # Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse
    "pinv": matrices.pinv,
    "qr_q": matrices.qr_q,
    "qr_r": matrices.qr_r,
    # The logarithms of the gamma and beta functions, and the derivatives of the former
    "lgamma": "scipy.special.gammaln",
    "polygamma": leading("scipy.special.polygamma", "n"),
    # Incomplete functions, and Hurwitz' zeta function
    "betainc": Missing("jax.scipy.special.betainc has no derivative by a and b"),
    "zeta": Missing("jax.scipy.special.zeta has no derivative by s"),
    # Bessel functions of any order, and integrals without an elementary form
    **dict.fromkeys(
        ("bessel_i", "bessel_j", "bessel_y", "bessel_k", "bessel_ke"),
        Missing("jax.scipy.special has no Bessel function of any real order"),
    ),
    **same_names("scipy.special", "dawsn expi spence"),
    "expn": leading("scipy.special.expn", "n"),
    **{f"fresnel_{part}": part_of("fresnel", i) for i, part in enumerate(("sin", "cos"))},
    **{part: part_of("sici", i) for i, part in enumerate(("si", "ci"))},
    # Taking arrays apart and putting them together
    "concatenate": listed("numpy.concatenate"),
    "getitem": Composed(compositions.getitem),
    "scatter_add": scatter_add,
    "stack": listed("numpy.stack"),
    "take": take,
    # Layers of networks, composed
    "dropout": networks.dropout,
    "embedding": networks.embedding,
    "linear": networks.linear,
    "masked_attention": networks.masked_attention,
    "scaled_dot_product_attention": networks.scaled_dot_product_attention,
    # Products of vectors, matrices and arrays of any rank
    "einsum": leading("numpy.einsum", "subscripts"),
    "tensordot": contracted("numpy.tensordot"),
    # Losses that compare element by element, composed: JAX has none
    "bce": Loss(Composed(compositions.bce)),
    "bce_with_logits": Loss(Composed(networks.bce_with_logits)),
    "hinge": Loss(Composed(compositions.hinge)),
    "huber": Loss(Composed(compositions.huber)),
    "kl_div": Loss(Composed(compositions.kl_div)),
    "l1": Loss(Composed(compositions.l1)),
    "mse": Loss(Composed(networks.mse)),
    # Equations with matrices, and functions of square matrices
    "expm": "scipy.linalg.expm",
    "solve": matrices.solve,
    "triangular_solve": matrices.triangular_solve,
    # Normalisation of layers, composed
    "batch_norm": networks.batch_norm,
    "group_norm": networks.group_norm,
    "layer_norm": networks.layer_norm,
    "rms_norm": networks.rms_norm,
    # Lengths of vectors
    "norm": "numpy.linalg.vector_norm",
    # Order statistics
    "argsort": argsort,
    "topk_indices": topk_indices,
    "topk_values": topk_values,
    # Pooling, composed from windows
    "avg_pool2d": networks.avg_pool2d,
    "max_pool2d": networks.max_pool2d,
    # Other shapes for the same elements
    "broadcast_to": shaped("numpy.broadcast_to"),
    "pad": pad,
    "repeat": repeat,
    "trace": trace,
    # Directions of vectors, and how near they are
    "cosine_similarity": Composed(compositions.cosine_similarity),
    "normalize": matrices.normalize,
    "triplet": Loss(Composed(matrices.triplet)),
}
