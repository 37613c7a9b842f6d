"""The op table in PyTorch's own words: what a user would call.

PyTorch is not imported here: each function is given it as its first argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcheck_cli.engines.kit import compositions
from gradcheck_cli.engines.kit.axes import axes_of, from_the_start, new_axes, restored, widths_of
from gradcheck_cli.engines.kit.lowerings import Composed, Limited, Loss, Lowering, Renamed, Table
from gradcheck_cli.engines.kit.signatures import (
    contracted,
    counted,
    leading,
    listed,
    running,
    shaped,
)

# Activation functions


def gelu(torch: Any, x: Any, approximate: bool = False) -> Any:
    return torch.nn.functional.gelu(x, approximate="tanh" if approximate else "none")


# Operations that pass a value on


def stop_gradient(torch: Any, x: Any) -> Any:
    return x.detach()


# Arrays that are made of nothing but their shape


def eye(torch: Any, n: int, m: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    columns = n if m is None else m
    if k == 0:
        return torch.eye(n, columns, dtype=dtype)
    return (torch.arange(columns) - torch.arange(n)[:, None] == k).to(dtype)


# Eigenvalues, singular values and their vectors, with the signs that the rows state


def _symmetric(x: Any) -> Any:
    """PyTorch reads one triangle, and differentiates as if the other were its image."""
    return 0.5 * (x + x.mT)


def _signs_of_columns(torch: Any, v: Any) -> Any:
    """What makes the first large entry of every column positive."""
    if v.numel() == 0:
        return 1
    v = v.detach()
    large = v.abs() >= 0.9 * v.abs().amax(dim=-2, keepdim=True)
    first = large.to(torch.uint8).argmax(dim=-2, keepdim=True)
    return torch.where(v.gather(-2, first) < 0, -1, 1).to(v.dtype)


def eigh_vectors(torch: Any, x: Any) -> Any:
    v = torch.linalg.eigh(_symmetric(x)).eigenvectors
    return v * _signs_of_columns(torch, v)


def eigvalsh(torch: Any, x: Any) -> Any:
    return torch.linalg.eigvalsh(_symmetric(x))


def svd_u(torch: Any, x: Any) -> Any:
    u = torch.linalg.svd(x, full_matrices=False).U
    return u * _signs_of_columns(torch, u)


def svd_vh(torch: Any, x: Any) -> Any:
    u, _, vh = torch.linalg.svd(x, full_matrices=False)
    signs = _signs_of_columns(torch, u)
    return vh if isinstance(signs, int) else vh * signs.mT


# Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse


def cholesky(torch: Any, x: Any) -> Any:
    """Of the symmetric part, which PyTorch takes for granted where it differentiates."""
    return torch.linalg.cholesky(0.5 * (x + x.mT))


def _signs_of_diagonal(torch: Any, r: Any) -> Any:
    diagonal = torch.diagonal(r.detach(), dim1=-2, dim2=-1)
    return torch.where(diagonal < 0, -1, 1).to(r.dtype)


def qr_q(torch: Any, x: Any) -> Any:
    q, r = torch.linalg.qr(x)
    return q * _signs_of_diagonal(torch, r).unsqueeze(-2)


def qr_r(torch: Any, x: Any) -> Any:
    r = torch.linalg.qr(x).R
    return r * _signs_of_diagonal(torch, r).unsqueeze(-1)


# The logarithm of the gamma function, its derivatives, and that of the beta function


def betaln(torch: Any, a: Any, b: Any) -> Any:
    """As torch.distributions.Beta has it."""
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)


# aten/src/ATen/native/Math.h, trigamma: six steps of the recurrence, then a series up to x^-7
NINE_DIGITS = "its trigamma, a derivative here, is right to nine digits only"


# Taking arrays apart and putting them together


def getitem(torch: Any, x: Any, index: tuple[Any, ...]) -> Any:
    """PyTorch's slices have positive steps only: a negative one flips that axis first."""
    used = sum(part is not None and part is not Ellipsis for part in index)
    axis = 0
    parts: list[Any] = []
    for part in index:
        if part is Ellipsis:
            axis += x.ndim - used
        elif isinstance(part, slice) and part.step is not None and part.step < 0:
            size = x.shape[axis]
            taken = range(*part.indices(size))
            x = torch.flip(x, (axis,))
            first = size - 1 - taken.start
            part = slice(first, first + len(taken) * -part.step, -part.step)
            axis += 1
        elif part is not None:
            axis += 1
        parts.append(part)
    return x[tuple(parts)]


def take(torch: Any, x: Any, indices: Any, axis: int | None = None) -> Any:
    return x[(*(slice(None),) * ((axis or 0) % x.ndim), indices)]


def take_along_axis(torch: Any, x: Any, indices: Any, axis: int = -1) -> Any:
    return torch.take_along_dim(x, from_the_start(torch, indices, x.shape[axis]), dim=axis)


def scatter_add(torch: Any, x: Any, indices: Any, updates: Any, axis: int = -1) -> Any:
    return torch.scatter_add(x, axis, from_the_start(torch, indices, x.shape[axis]), updates)


def one_hot(torch: Any, indices: Any, num_classes: int, axis: int = -1, dtype: Any = None) -> Any:
    """torch.nn.functional.one_hot refuses indices outside the classes, and gives integers."""
    place = axis % (indices.ndim + 1)
    classes = torch.arange(num_classes).reshape(-1, *(1,) * (indices.ndim - place))
    return (indices.unsqueeze(place) == classes).to(dtype)


# Layers of networks


def dropout(torch: Any, x: Any, mask: Any, rate: float = 0.5) -> Any:
    """PyTorch draws its own masks; a given one is multiplied."""
    return x * mask / (1 - rate)


# Products of vectors, matrices and arrays of any rank


def cross(torch: Any, x1: Any, x2: Any, axis: int = -1) -> Any:
    """It broadcasts, but not between different numbers of axes."""
    rank = max(x1.ndim, x2.ndim)
    x1, x2 = (x[(None,) * (rank - x.ndim)] for x in (x1, x2))
    return torch.linalg.cross(x1, x2, dim=axis)


def dot(torch: Any, x1: Any, x2: Any) -> Any:
    """numpy.dot: torch.dot takes vectors only."""
    if x1.ndim == 0 or x2.ndim == 0:
        return x1 * x2
    if x1.ndim == x2.ndim == 1:
        return torch.dot(x1, x2)
    if x2.ndim <= 2:
        return torch.matmul(x1, x2)
    return torch.tensordot(x1, x2, dims=([-1], [-2]))


# Losses that compare element by element


def _of_one_shape(name: str, **fixed: str) -> Callable[..., Any]:
    """PyTorch wants both arrays in one shape."""

    def loss(torch: Any, x: Any, y: Any, **keywords: Any) -> Any:
        both = torch.broadcast_tensors(x, y)
        return getattr(torch.nn.functional, name)(*both, **fixed, **keywords)

    return loss


# Equations with matrices, and functions of square matrices


def expm(torch: Any, x: Any) -> Any:
    """In narrow formats torch.linalg.matrix_exp reads memory that nobody wrote (2.13, CPU): nan,
    1e30 or what happens to lie there."""
    if x.dtype.itemsize < 4:
        raise NotImplementedError(f"torch.linalg.matrix_exp gives no numbers in {x.dtype}")
    return torch.linalg.matrix_exp(x)


def solve(torch: Any, x1: Any, x2: Any) -> Any:
    """x2 is a vector only where it has one axis; PyTorch would also take a matrix for a stack of
    vectors where it fits, but not beside as many axes as x1 has."""
    columns = x2.unsqueeze(-1) if x2.ndim == 1 else x2
    y = torch.linalg.solve(x1, columns[(None,) * (x1.ndim - columns.ndim)])
    return y.squeeze(-1) if x2.ndim == 1 else y


def triangular_solve(torch: Any, x1: Any, x2: Any, lower: bool = True) -> Any:
    if x2.ndim == 1:
        columns = x2.unsqueeze(-1)
        return torch.linalg.solve_triangular(x1, columns, upper=not lower).squeeze(-1)
    return torch.linalg.solve_triangular(x1, x2, upper=not lower)


# Normalised exponentials


def logsumexp(torch: Any, x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    return torch.logsumexp(x, dim=axes_of(axis, x.ndim), keepdim=keepdims)


# Normalisation of layers


def batch_norm(torch: Any, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    functional = torch.nn.functional
    return functional.batch_norm(x, None, None, weight, bias, training=True, eps=eps)


def group_norm(
    torch: Any, x: Any, weight: Any, bias: Any, num_groups: int, eps: float = 1e-5
) -> Any:
    return torch.nn.functional.group_norm(x, num_groups, weight, bias, eps)


def layer_norm(torch: Any, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, eps)


def rms_norm(torch: Any, x: Any, weight: Any, eps: float = 1e-5) -> Any:
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


# Lengths of vectors


def norm(torch: Any, x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    dim = None if axis is None else axes_of(axis, x.ndim)
    return torch.linalg.vector_norm(x, ord=ord, dim=dim, keepdim=keepdims)


# Elements by their size


def median(torch: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """torch.median takes the lower of two middle elements; their mean comes from sorting."""
    axes = axes_of(axis, x.ndim)
    kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    moved = torch.movedim(x, axes, tuple(range(x.ndim - len(axes), x.ndim)))
    ordered = torch.sort(moved.flatten(len(kept)) if axes else moved[None], dim=-1).values
    n = ordered.shape[-1]
    y = 0.5 * ordered[..., (n - 1) // 2] + 0.5 * ordered[..., n // 2]
    last = ordered[..., -1]
    y = torch.where(torch.isnan(last), last, y)
    return y.reshape(restored(x.shape, axes)) if keepdims else y.reshape(kept)


# Sums, products and extremes over axes


def _reduction(name: str) -> Lowering:
    def reduce(torch: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        call = getattr(torch, name)
        if axis is None and not keepdims:
            return call(x)
        return call(x, dim=axes_of(axis, x.ndim), keepdim=keepdims)

    return reduce


def prod(torch: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    if axis is None and not keepdims:
        return torch.prod(x)
    for dim in reversed(axes_of(axis, x.ndim)):  # torch.prod takes one axis at a time
        x = torch.prod(x, dim=dim, keepdim=keepdims)
    return x


def count_nonzero(torch: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    axes = axes_of(axis, x.ndim)
    count = torch.count_nonzero(x, dim=axes) if axes else torch.count_nonzero(x)
    return count.reshape(restored(x.shape, axes)) if keepdims else count


# Logic, and the functions that choose between their arguments


def clip(torch: Any, x: Any, min: Any = None, max: Any = None) -> Any:
    """torch.clamp wants a bound at least."""
    return x if min is None and max is None else torch.clamp(x, min, max)


# Other shapes for the same elements


def expand_dims(torch: Any, x: Any, axis: Any) -> Any:
    for dim in new_axes(axis, x.ndim):
        x = torch.unsqueeze(x, dim)
    return x


def squeeze(torch: Any, x: Any, axis: Any = None) -> Any:
    return torch.squeeze(x) if axis is None else torch.squeeze(x, dim=axes_of(axis, x.ndim))


def transpose(torch: Any, x: Any, axes: Any = None) -> Any:
    return torch.permute(x, tuple(reversed(range(x.ndim))) if axes is None else tuple(axes))


def flip(torch: Any, x: Any, axis: Any = None) -> Any:
    return torch.flip(x, axes_of(axis, x.ndim))


def repeat(torch: Any, x: Any, repeats: Any, axis: int | None = None) -> Any:
    times = repeats if isinstance(repeats, int) else torch.tensor(repeats, dtype=torch.int64)
    return torch.repeat_interleave(x, times, dim=axis)


def pad(torch: Any, x: Any, pad_width: Any, value: float = 0.0) -> Any:
    """torch.nn.functional.pad counts the axes from the last."""
    widths = reversed(widths_of(pad_width, x.ndim))
    flat = [width for pair in widths for width in pair]
    return torch.nn.functional.pad(x, flat, value=value)


def trace(torch: Any, x: Any, offset: int = 0) -> Any:
    """torch.trace takes the main diagonal of one matrix."""
    if x.ndim == 2 and offset == 0:
        return torch.trace(x)
    return torch.diagonal(x, offset, -2, -1).sum(-1)


# Variance and standard deviation


def _spread(name: str) -> Lowering:
    def spread(
        torch: Any, x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False
    ) -> Any:
        dim = axes_of(axis, x.ndim)
        return getattr(torch, name)(x, dim=dim, correction=correction, keepdim=keepdims)

    return spread


TABLE: Table = {
    # Activation functions
    "elu": "nn.functional.elu",
    "gelu": gelu,
    "hardtanh": Renamed("nn.functional.hardtanh", {"min": "min_val", "max": "max_val"}),
    "leaky_relu": "nn.functional.leaky_relu",
    "log_sigmoid": "nn.functional.logsigmoid",
    "mish": "nn.functional.mish",
    "relu6": "nn.functional.relu6",
    "selu": "nn.functional.selu",
    "silu": "nn.functional.silu",
    "softsign": "nn.functional.softsign",
    # Arithmetic
    "abs": "abs",
    "cbrt": Composed(compositions.cbrt),
    "hypot": "hypot",
    "reciprocal": "reciprocal",
    "remainder": "remainder",
    "rsqrt": "rsqrt",
    "sqrt": "sqrt",
    "square": "square",
    # Modified Bessel functions of the first kind
    "i0": "special.i0",
    "i0e": "special.i0e",
    "i1": "special.i1",
    "i1e": "special.i1e",
    # Losses of classifiers. PyTorch too has the classes on axis 1
    "cross_entropy": "nn.functional.cross_entropy",
    "nll": "nn.functional.nll_loss",
    "soft_cross_entropy": "nn.functional.cross_entropy",
    # Operations that pass a value on
    "stop_gradient": stop_gradient,
    # Convolutions
    "conv1d": "nn.functional.conv1d",
    "conv2d": "nn.functional.conv2d",
    "conv_transpose2d": "nn.functional.conv_transpose2d",
    # Arrays that are made of nothing but their shape
    "arange": counted("arange"),
    "eye": eye,
    "full": shaped("full"),
    "full_like": "full_like",
    "ones": shaped("ones"),
    "ones_like": "ones_like",
    "zeros": shaped("zeros"),
    "zeros_like": "zeros_like",
    # Sums, products and extremes of everything up to an element
    "cummax": running("cummax", "dim", part="values"),
    "cummin": running("cummin", "dim", part="values"),
    "cumprod": running("cumprod", "dim"),
    "cumsum": running("cumsum", "dim"),
    # Eigenvalues, singular values and their vectors, with the signs that the rows state
    "eigh_vectors": eigh_vectors,
    "eigvalsh": eigvalsh,
    "svd_u": svd_u,
    "svd_vh": svd_vh,
    "svdvals": "linalg.svdvals",
    # Determinants
    "det": "linalg.det",
    "logdet": "logdet",
    "slogdet_logabs": Renamed("linalg.slogdet", part="logabsdet"),
    "slogdet_sign": Renamed("linalg.slogdet", part="sign"),
    # Exponentials, logarithms, and the functions of the logistic family
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "log": "log",
    "log10": "log10",
    "log1mexp": Composed(compositions.log1mexp),
    "log1p": "log1p",
    "log2": "log2",
    "logaddexp": "logaddexp",
    "sigmoid": "sigmoid",
    "softplus": "nn.functional.softplus",
    "tanh": "tanh",
    "xlog1py": "special.xlog1py",
    "xlogy": "xlogy",
    # Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse
    "cholesky": cholesky,
    "pinv": "linalg.pinv",
    "qr_q": qr_q,
    "qr_r": qr_r,
    # The logarithm of the gamma function, its derivatives, and that of the beta function
    "betaln": Limited(betaln, NINE_DIGITS, constants="float32"),
    "digamma": Limited("digamma", NINE_DIGITS, constants="float32"),
    "lgamma": Limited("lgamma", NINE_DIGITS, constants="float32"),
    "polygamma": Limited(leading("special.polygamma", "n"), NINE_DIGITS, constants="float32"),
    # Taking arrays apart and putting them together
    "concatenate": listed("cat", "dim"),
    "getitem": getitem,
    "one_hot": one_hot,
    "scatter_add": scatter_add,
    "stack": listed("stack", "dim"),
    "take": take,
    "take_along_axis": take_along_axis,
    # Layers of networks
    "dropout": dropout,
    "embedding": "nn.functional.embedding",
    "linear": "nn.functional.linear",
    "masked_attention": "nn.functional.scaled_dot_product_attention",
    "scaled_dot_product_attention": "nn.functional.scaled_dot_product_attention",
    # Products of vectors, matrices and arrays of any rank
    "cross": cross,
    "dot": dot,
    "einsum": leading("einsum", "subscripts"),
    "kron": "kron",
    "matmul": "matmul",
    "outer": "outer",
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
    # Reduced after it: with its own mean comes a warning that the mean will be another one
    "kl_div": Loss(_of_one_shape("kl_div", reduction="none")),
    "l1": _of_one_shape("l1_loss"),
    # Reduced after it: PyTorch's own mean has no forward derivative of its reverse one
    "mse": Loss(_of_one_shape("mse_loss", reduction="none")),
    # Equations with matrices, and functions of square matrices
    "expm": expm,
    "inv": "linalg.inv",
    "matrix_power": "linalg.matrix_power",
    "solve": solve,
    "triangular_solve": triangular_solve,
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
    "norm": norm,
    # Elements by their size
    "argsort": Renamed("argsort", {"axis": "dim"}, also={"stable": True}),
    "median": median,
    "sort": Renamed("sort", {"axis": "dim"}, also={"stable": True}, part="values"),
    "topk_indices": Renamed("topk", {"axis": "dim"}, part="indices"),
    "topk_values": Renamed("topk", {"axis": "dim"}, part="values"),
    # Pooling
    "avg_pool2d": "nn.functional.avg_pool2d",
    "max_pool2d": "nn.functional.max_pool2d",
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
    "ceil": "ceil",
    "clip": clip,
    "floor": "floor",
    "logical_and": "logical_and",
    "logical_not": "logical_not",
    "logical_or": "logical_or",
    "maximum": "maximum",
    "minimum": "minimum",
    "relu": "relu",
    "round": "round",
    "sign": "sign",
    "where": "where",
    # Other shapes for the same elements
    "broadcast_to": shaped("broadcast_to"),
    "diag": Renamed("diag", {"k": "diagonal"}),
    "expand_dims": expand_dims,
    "flip": flip,
    "moveaxis": "movedim",
    "pad": pad,
    "repeat": repeat,
    "reshape": shaped("reshape"),
    "roll": Renamed("roll", {"shift": "shifts", "axis": "dims"}),
    "squeeze": squeeze,
    "tile": shaped("tile", "reps"),
    "trace": trace,
    "transpose": transpose,
    "tril": Renamed("tril", {"k": "diagonal"}),
    "triu": Renamed("triu", {"k": "diagonal"}),
    # Directions of vectors, and how near they are
    "cosine_similarity": Renamed("nn.functional.cosine_similarity", {"axis": "dim"}),
    "normalize": Renamed("nn.functional.normalize", {"ord": "p", "axis": "dim"}),
    "triplet": Renamed("nn.functional.triplet_margin_loss", {"ord": "p"}),
    # The error function, the normal distribution, log-odds and entropy
    "entr": "special.entr",
    "erf": "erf",
    "erfc": "erfc",
    "erfcx": "special.erfcx",
    "erfinv": "erfinv",
    "log_ndtr": "special.log_ndtr",
    "logit": "logit",
    "ndtr": "special.ndtr",
    "ndtri": "special.ndtri",
    # Variance and standard deviation
    "std": _spread("std"),
    "var": _spread("var"),
    # Circular and hyperbolic functions
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atan2": "atan2",
    "atanh": "atanh",
    "cos": "cos",
    "cosh": "cosh",
    "sin": "sin",
    "sinc": "sinc",
    "sinh": "sinh",
    "tan": "tan",
}
