"""The op table in PyTorch's own functions, as a user would call them.

PyTorch is not imported here: each function receives it as its first argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcheck_cli.engines.kit import compositions
from gradcheck_cli.engines.kit.axes import axes_of, restored
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
from gradcheck_cli.engines.kit.signatures import (
    arange_args,
    contracted,
    leading,
    listed,
    running,
    shaped,
)
from gradcheck_cli.engines.torch import matrices, shapes

# Activation functions


def gelu(torch: Any, x: Any, approximate: bool) -> Any:
    return torch.nn.functional.gelu(x, approximate="tanh" if approximate else "none")


# Operations that pass a value on


def stop_gradient(torch: Any, x: Any) -> Any:
    return x.detach()


# The logarithms of the gamma and beta functions, and the derivatives of the former


def betaln(torch: Any, a: Any, b: Any) -> Any:
    """The formula of torch.distributions.Beta."""
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)


# aten/src/ATen/native/Math.h, trigamma: six steps of the recurrence, then a series up to x^-7
NINE_DIGITS = "its trigamma, a derivative here, is right to nine digits only"


# Layers of networks


def dropout(torch: Any, x: Any, mask: Any, rate: float) -> Any:
    """Dropout with a given mask: PyTorch draws its own masks, so the mask is multiplied."""
    return x * mask / (1 - rate)


# Losses that compare element by element


def _of_one_shape(name: str, **fixed: str) -> Callable[..., Any]:
    """A loss that PyTorch only computes for arrays of the same shape."""

    def loss(torch: Any, x: Any, y: Any, **keywords: Any) -> Any:
        both = torch.broadcast_tensors(x, y)
        return getattr(torch.nn.functional, name)(*both, **fixed, **keywords)

    return loss


# Normalised exponentials


def logsumexp(torch: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    return torch.logsumexp(x, dim=axes_of(axis, x.ndim), keepdim=keepdims)


# Normalisation of layers


def batch_norm(torch: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    functional = torch.nn.functional
    return functional.batch_norm(x, None, None, weight, bias, training=True, eps=eps)


def group_norm(torch: Any, x: Any, weight: Any, bias: Any, num_groups: int, eps: float) -> Any:
    return torch.nn.functional.group_norm(x, num_groups, weight, bias, eps)


def layer_norm(torch: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, eps)


def rms_norm(torch: Any, x: Any, weight: Any, eps: float) -> Any:
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


# Sums, products and extremes over axes


def _reduction(name: str) -> Lowering:
    def reduce(torch: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        call = getattr(torch, name)
        if axis is None and not keepdims:
            return call(x)
        return call(x, dim=axes_of(axis, x.ndim), keepdim=keepdims)

    return reduce


def prod(torch: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    if axis is None and not keepdims:
        return torch.prod(x)
    for dim in reversed(axes_of(axis, x.ndim)):  # torch.prod takes one axis at a time
        x = torch.prod(x, dim=dim, keepdim=keepdims)
    return x


def count_nonzero(torch: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    axes = axes_of(axis, x.ndim)
    count = torch.count_nonzero(x, dim=axes) if axes else torch.count_nonzero(x)
    return count.reshape(restored(x.shape, axes)) if keepdims else count


# Logic, and the functions that choose between their arguments


def clip(torch: Any, x: Any, min: Any, max: Any) -> Any:
    """torch.clamp, which requires at least one bound."""
    return x if min is None and max is None else torch.clamp(x, min, max)


# Variance and standard deviation


def _spread(name: str) -> Lowering:
    def spread(torch: Any, x: Any, axis: Any, correction: float, keepdims: bool) -> Any:
        dim = axes_of(axis, x.ndim)
        return getattr(torch, name)(x, dim=dim, correction=correction, keepdim=keepdims)

    return spread


TABLE: Table = {
    **same_names(
        "",
        """
        abs hypot reciprocal remainder rsqrt sqrt square full_like ones_like zeros_like logdet exp
        exp2 expm1 log log10 log1p log2 logaddexp sigmoid tanh xlogy kron matmul outer ceil floor
        logical_and logical_not logical_or maximum minimum relu round sign where erf erfc erfinv
        logit acos acosh asin asinh atan atan2 atanh cos cosh sin sinc sinh tan
        """,
    ),
    **same_names("linalg", "svdvals det pinv inv matrix_power"),
    **same_names(
        "nn.functional",
        """
        elu leaky_relu mish relu6 selu silu softsign cross_entropy conv1d conv2d conv_transpose2d
        softplus embedding linear scaled_dot_product_attention avg_pool2d max_pool2d
        """,
    ),
    **same_names("special", "i0 i0e i1 i1e xlog1py entr erfcx log_ndtr ndtr ndtri"),
    # Activation functions
    "gelu": gelu,
    "hardtanh": Renamed("nn.functional.hardtanh", {"min": "min_val", "max": "max_val"}),
    "log_sigmoid": "nn.functional.logsigmoid",
    # Arithmetic
    "cbrt": Composed(compositions.cbrt),
    # Losses of classifiers. PyTorch also has the classes on axis 1
    "nll": "nn.functional.nll_loss",
    "soft_cross_entropy": "nn.functional.cross_entropy",
    # Operations that pass a value on
    "stop_gradient": stop_gradient,
    # Arrays made from their shape alone
    "arange": arange_args("arange"),
    "eye": shapes.eye,
    "full": shaped("full"),
    "ones": shaped("ones"),
    "zeros": shaped("zeros"),
    # Running sums, products and extremes
    "cummax": running("cummax", "dim", part="values"),
    "cummin": running("cummin", "dim", part="values"),
    "cumprod": running("cumprod", "dim"),
    "cumsum": running("cumsum", "dim"),
    # Eigenvalues, singular values and their vectors, with the signs that the rows state
    "eigh_vectors": matrices.eigh_vectors,
    "eigvalsh": matrices.eigvalsh,
    "svd_u": matrices.svd_u,
    "svd_vh": matrices.svd_vh,
    # Determinants
    "slogdet_logabs": Renamed("linalg.slogdet", part="logabsdet"),
    "slogdet_sign": Renamed("linalg.slogdet", part="sign"),
    # Exponentials, logarithms, and the functions of the logistic family
    "log1mexp": Composed(compositions.log1mexp),
    # Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse
    "cholesky": matrices.cholesky,
    "qr_q": matrices.qr_q,
    "qr_r": matrices.qr_r,
    # The logarithms of the gamma and beta functions, and the derivatives of the former
    "betaln": Limited(betaln, NINE_DIGITS, constants="float32"),
    "digamma": Limited("digamma", NINE_DIGITS, constants="float32"),
    "lgamma": Limited("lgamma", NINE_DIGITS, constants="float32"),
    "polygamma": Limited(leading("special.polygamma", "n"), NINE_DIGITS, constants="float32"),
    # Incomplete functions, and Hurwitz' zeta function
    "gammainc": Missing("torch.special.gammainc has no derivative by a"),
    "gammaincc": Missing("torch.special.gammaincc has no derivative by a"),
    "betainc": Missing("PyTorch has no incomplete beta function"),
    "zeta": Missing("torch.special.zeta has no derivative by s"),
    # Bessel functions of any order, and integrals without an elementary form
    **dict.fromkeys(
        ("bessel_i", "bessel_j", "bessel_y", "bessel_k", "bessel_ke"),
        Missing("PyTorch has no derivatives of these Bessel functions"),
    ),
    **dict.fromkeys(
        ("dawsn", "expi", "expn", "spence", "fresnel_sin", "fresnel_cos", "si", "ci"),
        Missing("PyTorch has no such function"),
    ),
    # Taking arrays apart and putting them together
    "concatenate": listed("cat", "dim"),
    "getitem": shapes.getitem,
    "one_hot": shapes.one_hot,
    "scatter_add": shapes.scatter_add,
    "stack": listed("stack", "dim"),
    "take": shapes.take,
    "take_along_axis": shapes.take_along_axis,
    # Layers of networks
    "dropout": dropout,
    "masked_attention": "nn.functional.scaled_dot_product_attention",
    # Products of vectors, matrices and arrays of any rank
    "cross": matrices.cross,
    "dot": matrices.dot,
    "einsum": leading("einsum", "subscripts"),
    "tensordot": contracted("tensordot", "dims"),
    # Losses that compare element by element
    "bce": Limited(
        _of_one_shape("binary_cross_entropy"),
        "it adds 1e-12 to the denominators of its second derivative",
        second="float32",
    ),
    "bce_with_logits": _of_one_shape("binary_cross_entropy_with_logits"),
    "hinge": Loss(Composed(compositions.hinge)),
    "huber": _of_one_shape("huber_loss"),
    # Reduced afterwards: PyTorch warns that its own mean will change
    "kl_div": Loss(_of_one_shape("kl_div", reduction="none")),
    "l1": _of_one_shape("l1_loss"),
    # Reduced afterwards: the vjp of PyTorch's own mean has no forward derivative
    "mse": Loss(_of_one_shape("mse_loss", reduction="none")),
    # Equations with matrices, and functions of square matrices
    "expm": matrices.expm,
    "solve": matrices.solve,
    "triangular_solve": matrices.triangular_solve,
    # Normalised exponentials
    "log_softmax": Renamed("log_softmax", {"axis": "dim"}),
    "logsumexp": logsumexp,
    "softmax": Renamed("softmax", {"axis": "dim"}),
    # Normalisation of layers
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    # Lengths of vectors
    "norm": matrices.norm,
    # Order statistics
    "argsort": Renamed("argsort", {"axis": "dim"}, also={"stable": True}),
    "median": shapes.median,
    "sort": Renamed("sort", {"axis": "dim"}, also={"stable": True}, part="values"),
    "topk_indices": Renamed("topk", {"axis": "dim"}, part="indices"),
    "topk_values": Renamed("topk", {"axis": "dim"}, part="values"),
    # Sums, products and extremes over axes
    "all": _reduction("all"),
    "any": _reduction("any"),
    "argmax": Renamed("argmax", {"axis": "dim", "keepdims": "keepdim"}),
    "argmin": Renamed("argmin", {"axis": "dim", "keepdims": "keepdim"}),
    "count_nonzero": count_nonzero,
    "max": _reduction("amax"),
    "mean": _reduction("mean"),
    "min": _reduction("amin"),
    "prod": prod,
    "sum": _reduction("sum"),
    # Logic, and the functions that choose between their arguments
    "clip": clip,
    # Other shapes for the same elements
    "broadcast_to": shaped("broadcast_to"),
    "diag": Renamed("diag", {"k": "diagonal"}),
    "expand_dims": shapes.expand_dims,
    "flip": shapes.flip,
    "moveaxis": "movedim",
    "pad": shapes.pad,
    "repeat": shapes.repeat,
    "reshape": shaped("reshape"),
    "roll": Renamed("roll", {"shift": "shifts", "axis": "dims"}),
    "squeeze": shapes.squeeze,
    "tile": shaped("tile", "reps"),
    "trace": shapes.trace,
    "transpose": shapes.transpose,
    "tril": Renamed("tril", {"k": "diagonal"}),
    "triu": Renamed("triu", {"k": "diagonal"}),
    # Directions of vectors, and how near they are
    "cosine_similarity": Renamed("nn.functional.cosine_similarity", {"axis": "dim"}),
    "normalize": Renamed("nn.functional.normalize", {"ord": "p", "axis": "dim"}),
    "triplet": Renamed("nn.functional.triplet_margin_loss", {"ord": "p"}),
    # Variance and standard deviation
    "std": _spread("std"),
    "var": _spread("var"),
}
