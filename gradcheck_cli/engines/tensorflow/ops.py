"""The op table in TensorFlow's own words: what a user would call.

TensorFlow is not imported here: each function is given it as its first argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import inf, prod, sqrt
from typing import Any

from gradcheck_cli.engines.kit import compositions
from gradcheck_cli.engines.kit.axes import (
    Pair,
    axes_of,
    each,
    from_the_start,
    moved_axes,
    new_axes,
    restored,
    shape_of,
    singular_cutoff,
    widths_of,
)
from gradcheck_cli.engines.kit.lowerings import (
    Composed,
    Limited,
    Loss,
    Lowering,
    Missing,
    Renamed,
    Table,
)
from gradcheck_cli.engines.kit.signatures import contracted, counted, listed, running, shaped

# Activation functions


def elu(tf: Any, x: Any, alpha: float = 1.0) -> Any:
    """tf.nn.elu knows no alpha; scaled as Keras does it."""
    y = tf.nn.elu(x)
    return y if alpha == 1 else tf.where(x > 0, y, alpha * y)


def mish(tf: Any, x: Any) -> Any:
    return x * tf.tanh(tf.nn.softplus(x))


# Arithmetic


def hypot(tf: Any, x1: Any, x2: Any) -> Any:
    """Both divided by the larger, so that no square leaves the range. The result does not depend on
    what they are divided by, so that it needs no gradient; zeros are kept from the root."""
    largest = tf.stop_gradient(tf.maximum(tf.abs(x1), tf.abs(x2)))
    one = tf.ones_like(largest)
    scale = tf.where(largest > 0, largest, one)
    squares = tf.square(x1 / scale) + tf.square(x2 / scale)
    return largest * tf.sqrt(tf.where(largest > 0, squares, one))


# Losses of classifiers. TensorFlow has the classes on the last axis


# tf.nn.softmax_cross_entropy_with_logits has no second derivative by both: it gives zeros. Of
# probabilities the loss is composed.


def _classes_last(tf: Any, x: Any) -> Any:
    return moveaxis(tf, x, 1, -1) if x.shape.rank > 2 else x


def cross_entropy(tf: Any, logits: Any, labels: Any, label_smoothing: float) -> Any:
    logits = _classes_last(tf, logits)
    if label_smoothing:
        classes = logits.shape[-1]
        q = tf.one_hot(labels, classes, dtype=logits.dtype)
        q = q * (1 - label_smoothing) + label_smoothing / classes
        return tf.nn.softmax_cross_entropy_with_logits(labels=q, logits=logits)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def nll(tf: Any, log_p: Any, labels: Any) -> Any:
    log_p = _classes_last(tf, log_p)
    return -tf.gather(log_p, labels, axis=-1, batch_dims=labels.shape.rank)


# Convolutions. TensorFlow's have the channels last on the CPU


def _channels_last(tf: Any, x: Any) -> Any:
    return tf.transpose(x, (0, *range(2, x.shape.rank), 1))


def _channels_first(tf: Any, x: Any) -> Any:
    rank = x.shape.rank
    return tf.transpose(x, (0, rank - 1, *range(1, rank - 1)))


def _kernel(tf: Any, w: Any, dilation: tuple[int, ...]) -> Any:
    """The kernel in TensorFlow's order, spread out by zeros where it is dilated: on the CPU there
    is no gradient through `dilations`."""
    w = tf.transpose(w, (*range(2, w.shape.rank), 1, 0))
    for axis, step in enumerate(dilation):
        if step > 1:
            length = w.shape[axis]
            spread = tf.expand_dims(w, axis + 1)
            widths = [[0, 0]] * spread.shape.rank
            widths[axis + 1] = [0, step - 1]
            shape = (*w.shape[:axis], length * step, *w.shape[axis + 1 :])
            spread = tf.reshape(tf.pad(spread, widths), shape)
            w = spread[(slice(None),) * axis + (slice(0, (length - 1) * step + 1),)]
    return w


def _by_groups(
    tf: Any, x: Any, w: Any, groups: int, axis: int, convolve: Callable[[Any, Any], Any]
) -> Any:
    """Group by group: on the CPU there is no gradient through grouped convolutions. `axis` is that
    of the kernel on which the groups lie."""
    if groups == 1:
        return convolve(x, w)
    parts = zip(tf.split(x, groups, axis=-1), tf.split(w, groups, axis=axis), strict=True)
    return tf.concat([convolve(part, kernel) for part, kernel in parts], axis=-1)


def conv1d(
    tf: Any,
    x: Any,
    w: Any,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    (step,), (width,) = each(stride, 1), each(padding, 1)
    x = tf.pad(_channels_last(tf, x), [[0, 0], [width, width], [0, 0]])
    w = _kernel(tf, w, each(dilation, 1))
    y = _by_groups(
        tf, x, w, groups, -1, lambda x, w: tf.nn.conv1d(x, w, stride=step, padding="VALID")
    )
    return _channels_first(tf, y)


def conv2d(
    tf: Any,
    x: Any,
    w: Any,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    widths = [[0, 0], *([p, p] for p in each(padding, 2)), [0, 0]]
    w = _kernel(tf, w, each(dilation, 2))

    def convolve(x: Any, w: Any) -> Any:
        return tf.nn.conv2d(x, w, strides=each(stride, 2), padding=widths)

    return _channels_first(tf, _by_groups(tf, _channels_last(tf, x), w, groups, -1, convolve))


def conv_transpose2d(
    tf: Any,
    x: Any,
    w: Any,
    stride: Pair = 1,
    padding: Pair = 0,
    output_padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    steps, widths, extra = (each(value, 2) for value in (stride, padding, output_padding))
    x, w = _channels_last(tf, x), _kernel(tf, w, each(dilation, 2))
    size = [
        (x.shape[i + 1] - 1) * steps[i] - 2 * widths[i] + w.shape[i] + extra[i] for i in range(2)
    ]
    around = [[0, 0], *([p, p] for p in widths), [0, 0]]

    def convolve(x: Any, w: Any) -> Any:
        shape = (x.shape[0], *size, w.shape[2])
        return tf.nn.conv2d_transpose(x, w, shape, strides=steps, padding=around)

    return _channels_first(tf, _by_groups(tf, x, w, groups, -1, convolve))


# Arrays that are made of nothing but their shape


def full(tf: Any, shape: Any, fill_value: float, dtype: Any = None) -> Any:
    return tf.fill(shape_of(shape), tf.constant(fill_value, dtype))


def eye(tf: Any, n: int, m: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    columns = n if m is None else m
    if k == 0:
        return tf.eye(n, columns, dtype=dtype)
    return tf.cast(tf.range(columns)[None, :] - tf.range(n)[:, None] == k, dtype)


def full_like(tf: Any, x: Any, fill_value: float) -> Any:
    return tf.fill(x.shape, tf.constant(fill_value, x.dtype))


# Sums, products and extremes of everything up to an element


def _extreme(name: str, beyond: float) -> Lowering:
    """TensorFlow has no running extremes: row i of a table holds the elements up to i."""

    def extreme(tf: Any, x: Any, axis: int | None = None) -> Any:
        moved = moveaxis(tf, x, axis or 0, -1)
        n = moved.shape[-1]
        so_far = tf.range(n)[None, :] <= tf.range(n)[:, None]
        table = tf.where(so_far, moved[..., None, :], tf.constant(beyond, x.dtype))
        return moveaxis(tf, getattr(tf, name)(table, axis=-1), -1, axis or 0)

    return extreme


# Eigenvalues, singular values and their vectors, with the signs that the rows state


def _symmetric(tf: Any, x: Any) -> Any:
    """TensorFlow reads the lower triangle, and its gradient is one of that triangle."""
    return 0.5 * (x + tf.linalg.matrix_transpose(x))


def _signs_of_columns(tf: Any, v: Any) -> Any:
    """What makes the first large entry of every column positive; one row a matrix."""
    rows = tf.linalg.matrix_transpose(tf.stop_gradient(v))
    size = tf.abs(rows)
    large = size >= 0.9 * tf.reduce_max(size, axis=-1, keepdims=True)
    first = tf.argmax(tf.cast(large, tf.int32), axis=-1)
    decisive = tf.gather(rows, first, batch_dims=rows.shape.rank - 1)
    signs = tf.where(decisive < 0, tf.constant(-1, v.dtype), tf.constant(1, v.dtype))
    return tf.expand_dims(signs, -2)


def _is_empty(x: Any) -> bool:
    return 0 in x.shape


def eigh_vectors(tf: Any, x: Any) -> Any:
    v = tf.linalg.eigh(_symmetric(tf, x))[1]
    return v if _is_empty(v) else v * _signs_of_columns(tf, v)


def eigvalsh(tf: Any, x: Any) -> Any:
    return tf.linalg.eigvalsh(_symmetric(tf, x))


def svd_u(tf: Any, x: Any) -> Any:
    u = tf.linalg.svd(x)[1]
    return u if _is_empty(u) else u * _signs_of_columns(tf, u)


def svd_vh(tf: Any, x: Any) -> Any:
    _, u, v = tf.linalg.svd(x)
    return tf.linalg.matrix_transpose(v if _is_empty(u) else v * _signs_of_columns(tf, u))


# Determinants


def logdet(tf: Any, x: Any) -> Any:
    """tf.linalg.logdet takes positive definite matrices only."""
    sign, size = tf.linalg.slogdet(x)
    return tf.where(sign < 0, tf.constant(float("nan"), x.dtype), size)


def slogdet_sign(tf: Any, x: Any) -> Any:
    """Cut off, or TensorFlow would invert x for a gradient of 0."""
    return tf.stop_gradient(tf.linalg.slogdet(x)[0])


# Exponentials, logarithms, and the functions of the logistic family


def exp2(tf: Any, x: Any) -> Any:
    return tf.pow(tf.constant(2, x.dtype), x)


def log2(tf: Any, x: Any) -> Any:
    return tf.math.log(x) / math.log(2)


def log10(tf: Any, x: Any) -> Any:
    return tf.math.log(x) / math.log(10)


def logaddexp(tf: Any, x1: Any, x2: Any) -> Any:
    """The larger argument and what the smaller adds to it."""
    first = x1 >= x2
    larger, smaller = tf.where(first, x1, x2), tf.where(first, x2, x1)
    return larger + tf.nn.softplus(smaller - larger)


# Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse


def cholesky(tf: Any, x: Any) -> Any:
    """Of the symmetric part, which TensorFlow takes for granted where it differentiates."""
    return tf.linalg.cholesky(0.5 * (x + tf.linalg.matrix_transpose(x)))


def pinv(tf: Any, x: Any, rtol: float | None = None) -> Any:
    return tf.linalg.pinv(x, rcond=singular_cutoff(x, x.dtype.name) if rtol is None else rtol)


def _signs_of_diagonal(tf: Any, r: Any) -> Any:
    diagonal = tf.linalg.diag_part(tf.stop_gradient(r))
    return tf.where(diagonal < 0, tf.constant(-1, r.dtype), tf.constant(1, r.dtype))


def qr_q(tf: Any, x: Any) -> Any:
    q, r = tf.linalg.qr(x)
    return q * tf.expand_dims(_signs_of_diagonal(tf, r), -2)


def qr_r(tf: Any, x: Any) -> Any:
    r = tf.linalg.qr(x).r
    return r * tf.expand_dims(_signs_of_diagonal(tf, r), -1)


# The logarithm of the gamma function, its derivatives, and that of the beta function


def betaln(tf: Any, a: Any, b: Any) -> Any:
    shape = tf.broadcast_dynamic_shape(tf.shape(a), tf.shape(b))
    both = [tf.broadcast_to(a, shape), tf.broadcast_to(b, shape)]
    return tf.math.lbeta(tf.stack(both, axis=-1))


def polygamma(tf: Any, x: Any, n: int) -> Any:
    return tf.math.polygamma(tf.cast(n, x.dtype), x)


# Taking arrays apart and putting them together


def take(tf: Any, x: Any, indices: Any, axis: int | None = None) -> Any:
    axis = axis or 0
    return tf.gather(x, from_the_start(tf, indices, x.shape[axis]), axis=axis)


def take_along_axis(tf: Any, x: Any, indices: Any, axis: int = -1) -> Any:
    """tf.gather takes one index for each row, along the last axis; both broadcast first."""
    place = axis % x.shape.rank
    indices = from_the_start(tf, indices, x.shape[place])
    sizes = [max(n, m) if n and m else 0 for n, m in zip(x.shape, indices.shape, strict=True)]
    own, others = list(sizes), list(sizes)
    own[place], others[place] = x.shape[place], indices.shape[place]
    x = moveaxis(tf, tf.broadcast_to(x, own), place, -1)
    indices = moveaxis(tf, tf.broadcast_to(indices, others), place, -1)
    y = tf.gather(x, indices, axis=-1, batch_dims=x.shape.rank - 1)
    return moveaxis(tf, y, -1, place)


def scatter_add(tf: Any, x: Any, indices: Any, updates: Any, axis: int = -1) -> Any:
    """tf.tensor_scatter_nd_add takes the whole place of every update."""
    ranges = [tf.range(n, dtype=tf.int64) for n in indices.shape]
    places = tf.meshgrid(*ranges, indexing="ij")
    places[axis] = from_the_start(tf, indices, x.shape[axis])
    return tf.tensor_scatter_nd_add(x, tf.stack(places, axis=-1), updates)


def one_hot(tf: Any, indices: Any, num_classes: int, axis: int = -1, dtype: Any = None) -> Any:
    place = axis % (indices.shape.rank + 1)
    return tf.one_hot(indices, num_classes, axis=place, dtype=dtype)


# Layers of networks, as one composes them without Keras


def dropout(tf: Any, x: Any, mask: Any, rate: float = 0.5) -> Any:
    """tf.nn.dropout draws its own masks; this is what it does with them."""
    return tf.where(mask, x / (1 - rate), tf.zeros_like(x))


def embedding(tf: Any, indices: Any, weight: Any) -> Any:
    return tf.nn.embedding_lookup(weight, indices)


def linear(tf: Any, x: Any, w: Any, b: Any) -> Any:
    if x.shape.rank == 1:
        return tf.linalg.matvec(w, x) + b
    return tf.matmul(x, w, transpose_b=True) + b


def _scores(tf: Any, q: Any, k: Any, scale: float | None) -> Any:
    scores = tf.matmul(q, k, transpose_b=True)
    return scores * (q.shape[-1] ** -0.5 if scale is None else scale)


def masked_attention(tf: Any, q: Any, k: Any, v: Any, mask: Any, scale: float | None = None) -> Any:
    scores = _scores(tf, q, k, scale)
    nothing = tf.constant(-float("inf"), scores.dtype)
    return tf.matmul(tf.nn.softmax(tf.where(mask, scores, nothing)), v)


def scaled_dot_product_attention(
    tf: Any, q: Any, k: Any, v: Any, is_causal: bool = False, scale: float | None = None
) -> Any:
    if is_causal:
        ones = tf.ones((q.shape[-2], k.shape[-2]), tf.bool)
        return masked_attention(tf, q, k, v, tf.linalg.band_part(ones, -1, 0), scale)
    return tf.matmul(tf.nn.softmax(_scores(tf, q, k, scale)), v)


# Products of vectors, matrices and arrays of any rank


def cross(tf: Any, x1: Any, x2: Any, axis: int = -1) -> Any:
    """tf.linalg.cross takes equal shapes and the last axis: broadcast, and moved there."""
    rank = max(x1.shape.rank, x2.shape.rank)
    last = [*(i for i in range(rank) if i != axis % rank), axis % rank]
    shape = tf.broadcast_static_shape(x1.shape, x2.shape)
    x1, x2 = (tf.transpose(tf.broadcast_to(x, shape), last) for x in (x1, x2))
    return tf.transpose(tf.linalg.cross(x1, x2), [last.index(i) for i in range(rank)])


def dot(tf: Any, x1: Any, x2: Any) -> Any:
    if x1.shape.rank == 0 or x2.shape.rank == 0:
        return x1 * x2
    return tf.tensordot(x1, x2, axes=[[-1], [-1 if x2.shape.rank == 1 else -2]])


def einsum(tf: Any, *xs: Any, subscripts: str) -> Any:
    """tf.einsum does not broadcast named axes of length 1: they are summed over first."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    named = "".join(sorted({c for c in left if c.isalpha() and left.count(c) == 1}))
    right = right if arrow else ("..." if "..." in left else "") + named
    terms = left.split(",")
    sizes: dict[str, int] = {}
    for term, x in zip(terms, xs, strict=True):
        for label, size in _sizes(term, x).items():
            sizes[label] = max(size, sizes.get(label, 0))
    reduced = [_without_ones(tf, term, x, sizes) for term, x in zip(terms, xs, strict=True)]
    plan = ",".join(term for term, _ in reduced) + "->" + right
    return tf.einsum(plan, *(x for _, x in reduced))


def _places(term: str, x: Any) -> dict[str, list[int]]:
    """The axes of every label of a term."""
    before, dots, after = term.partition("...")
    places: dict[str, list[int]] = {}
    for i, label in enumerate(before):
        places.setdefault(label, []).append(i)
    for i, label in enumerate(after if dots else ""):
        places.setdefault(label, []).append(x.shape.rank - len(after) + i)
    return places


def _sizes(term: str, x: Any) -> dict[str, int]:
    return {label: x.shape[axes[0]] for label, axes in _places(term, x).items()}


def _without_ones(tf: Any, term: str, x: Any, sizes: dict[str, int]) -> tuple[str, Any]:
    """A term and its array without the axes of length 1 that are longer in another array."""
    short = [label for label, size in _sizes(term, x).items() if size == 1 < sizes[label]]
    places = _places(term, x)
    for label in short:
        term = term.replace(label, "")
    return term, tf.squeeze(x, [i for label in short for i in places[label]]) if short else x


def kron(tf: Any, x1: Any, x2: Any) -> Any:
    """By broadcasting: every axis of x1 beside its partner of x2."""
    rank = max(x1.shape.rank, x2.shape.rank)
    first, second = ((1,) * (rank - x.shape.rank) + tuple(x.shape) for x in (x1, x2))
    x1 = tf.reshape(x1, [size for n in first for size in (n, 1)])
    x2 = tf.reshape(x2, [size for n in second for size in (1, n)])
    return tf.reshape(x1 * x2, [math.prod(pair) for pair in zip(first, second, strict=True)])


def matmul(tf: Any, x: Any, y: Any) -> Any:
    """tf.matmul takes matrices only; a vector becomes one and its axis goes again."""
    left, right = x.shape.rank == 1, y.shape.rank == 1
    x = tf.expand_dims(x, 0) if left else x
    y = tf.expand_dims(y, -1) if right else y
    z = tf.matmul(x, y)
    axes = ([-2] if left else []) + ([-1] if right else [])
    return tf.squeeze(z, axis=axes) if axes else z


# Losses that compare element by element, as Keras composes them


def bce_with_logits(tf: Any, x: Any, y: Any) -> Any:
    """TensorFlow wants both in one shape."""
    shape = tf.broadcast_static_shape(x.shape, y.shape)
    logits, labels = tf.broadcast_to(x, shape), tf.broadcast_to(y, shape)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


def hinge(tf: Any, x: Any, y: Any) -> Any:
    return tf.maximum(1 - x * y, 0.0)


# Equations with matrices, and functions of square matrices


def matrix_power(tf: Any, x: Any, n: int) -> Any:
    """TensorFlow has none: by squaring."""
    if n == 0:
        return tf.eye(x.shape[-1], batch_shape=x.shape[:-2], dtype=x.dtype)
    square = tf.linalg.inv(x) if n < 0 else x
    product = None
    for bit in reversed(f"{abs(n):b}"):
        if bit == "1":
            product = square if product is None else tf.matmul(product, square)
        square = tf.matmul(square, square)
    return product


def solve(tf: Any, x1: Any, x2: Any) -> Any:
    """tf.linalg.solve takes matrices on the right, and does not broadcast stacks of them."""
    columns = tf.expand_dims(x2, -1) if x2.shape.rank == 1 else x2
    batch = tf.broadcast_static_shape(x1.shape[:-2], columns.shape[:-2])
    x1, columns = (tf.broadcast_to(x, batch + x.shape[-2:]) for x in (x1, columns))
    y = tf.linalg.solve(x1, columns)
    return tf.squeeze(y, -1) if x2.shape.rank == 1 else y


def triangular_solve(tf: Any, x1: Any, x2: Any, lower: bool = True) -> Any:
    if x2.shape.rank == 1:
        columns = tf.expand_dims(x2, -1)
        return tf.squeeze(tf.linalg.triangular_solve(x1, columns, lower=lower), -1)
    return tf.linalg.triangular_solve(x1, x2, lower=lower)


# Normalisation of layers


def _normalised(tf: Any, x: Any, axes: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    """Not by tf.nn.moments: it stops the mean inside the variance, which makes second derivatives
    wrong."""
    mean = tf.reduce_mean(x, axes, keepdims=True)
    variance = tf.math.reduce_variance(x, axes, keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, bias, weight, eps)


def _by_channel(tf: Any, x: Any, parameter: Any) -> Any:
    """A parameter of shape (C,) along axis 1 of x."""
    return tf.reshape(parameter, (-1, *(1,) * (x.shape.rank - 2)))


def batch_norm(tf: Any, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    axes = (0, *range(2, x.shape.rank))
    weight, bias = _by_channel(tf, x, weight), _by_channel(tf, x, bias)
    return _normalised(tf, x, axes, weight, bias, eps)


def group_norm(tf: Any, x: Any, weight: Any, bias: Any, num_groups: int, eps: float = 1e-5) -> Any:
    size = math.prod(x.shape[1:]) // num_groups
    groups = tf.reshape(x, (x.shape[0], num_groups, size))
    normed = tf.reshape(_normalised(tf, groups, (2,), None, None, eps), x.shape)
    return normed * _by_channel(tf, x, weight) + _by_channel(tf, x, bias)


def layer_norm(tf: Any, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    axes = tuple(range(-weight.shape.rank, 0))
    return _normalised(tf, x, axes, weight, bias, eps)


def rms_norm(tf: Any, x: Any, weight: Any, eps: float = 1e-5) -> Any:
    axes = tuple(range(-weight.shape.rank, 0))
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), axes, keepdims=True) + eps) * weight


# Lengths of vectors


def norm(tf: Any, x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    """tf.norm reads two axes as those of a matrix; they become one here."""
    if axis is None or isinstance(axis, tuple):
        axes = axes_of(axis, x.shape.rank)
        y = _along(tf, flattened(tf, x, axes), ord, -1, False)
        return tf.reshape(y, restored(x.shape, axes)) if keepdims else y
    return _along(tf, x, ord, axis, keepdims)


def _along(tf: Any, x: Any, ord: float, axis: int, keepdims: bool) -> Any:
    if ord == -inf:
        return tf.reduce_min(tf.abs(x), axis=axis, keepdims=keepdims)
    return tf.norm(x, ord=ord, axis=axis, keepdims=keepdims)


# Elements by their size


def _direction(descending: bool) -> str:
    return "DESCENDING" if descending else "ASCENDING"


def sort(tf: Any, x: Any, axis: int = -1, descending: bool = False) -> Any:
    return tf.sort(x, axis=axis, direction=_direction(descending))


def argsort(tf: Any, x: Any, axis: int = -1, descending: bool = False) -> Any:
    order = tf.argsort(x, axis=axis, direction=_direction(descending), stable=True)
    return tf.cast(order, tf.int64)


def median(tf: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """TensorFlow has none: the mean of the two middle elements comes from sorting."""
    axes = axes_of(axis, x.shape.rank)
    ordered = tf.sort(flattened(tf, x, axes), axis=-1)
    n = ordered.shape[-1]
    y = 0.5 * ordered[..., (n - 1) // 2] + 0.5 * ordered[..., n // 2]
    missing = tf.reduce_any(tf.math.is_nan(ordered), axis=-1)
    y = tf.where(missing, tf.constant(float("nan"), x.dtype), y)
    return tf.reshape(y, restored(x.shape, axes)) if keepdims else y


def _top(tf: Any, x: Any, k: int, axis: int, largest: bool) -> tuple[Any, Any]:
    """tf.math.top_k takes the largest along the last axis."""
    moved = moveaxis(tf, x, axis, -1)
    found = tf.math.top_k(moved if largest else -moved, k=k)
    values = found.values if largest else -found.values
    indices = tf.cast(found.indices, tf.int64)  # asked for themselves, they break the gradient
    return moveaxis(tf, values, -1, axis), moveaxis(tf, indices, -1, axis)


def topk_values(tf: Any, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    return _top(tf, x, k, axis, largest)[0]


def topk_indices(tf: Any, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    return _top(tf, x, k, axis, largest)[1]


# Pooling. TensorFlow's has the channels last on the CPU


LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def _padded(tf: Any, x: Any, padding: Pair, fill: float) -> Any:
    """Channels last. Pooling with explicit padding has no second derivative in TensorFlow, and the
    mean has none at all; padding before it has."""
    x = tf.transpose(x, LAST)
    if not any(each(padding, 2)):
        return x
    widths = [[0, 0], *([p, p] for p in each(padding, 2)), [0, 0]]
    return tf.pad(x, widths, constant_values=tf.constant(fill, x.dtype))


def _moves(kernel_size: Pair, stride: Pair | None) -> dict[str, Any]:
    strides = each(kernel_size if stride is None else stride, 2)
    return {"ksize": each(kernel_size, 2), "strides": strides, "padding": "VALID"}


def max_pool2d(
    tf: Any, x: Any, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0
) -> Any:
    x = _padded(tf, x, padding, -float("inf"))
    return tf.transpose(tf.nn.max_pool2d(x, **_moves(kernel_size, stride)), FIRST)


def avg_pool2d(
    tf: Any,
    x: Any,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    count_include_pad: bool = True,
) -> Any:
    moves = _moves(kernel_size, stride)
    y = tf.nn.avg_pool2d(_padded(tf, x, padding, 0.0), **moves)
    if not count_include_pad:
        y = y / tf.nn.avg_pool2d(_padded(tf, tf.ones_like(x), padding, 0.0), **moves)
    return tf.transpose(y, FIRST)


# Sums, products and extremes over axes


def _argument(name: str) -> Lowering:
    def argument(tf: Any, x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        """Without an axis tf.argmax takes the first one, not all of them."""
        call = getattr(tf, name)
        if axis is None:
            index = call(tf.reshape(x, [-1]), axis=0)
            return tf.reshape(index, (1,) * x.shape.rank) if keepdims else index
        index = call(x, axis=axis)
        return tf.expand_dims(index, axis) if keepdims else index

    return argument


# Logic, and the functions that choose between their arguments


def clip(tf: Any, x: Any, min: Any = None, max: Any = None) -> Any:
    if min is not None and max is not None:
        return tf.clip_by_value(x, min, max)
    x = x if min is None else tf.maximum(x, min)
    return x if max is None else tf.minimum(x, max)


# Other shapes for the same elements


def expand_dims(tf: Any, x: Any, axis: Any) -> Any:
    for a in new_axes(axis, x.shape.rank):
        x = tf.expand_dims(x, a)
    return x


def transpose(tf: Any, x: Any, axes: Any = None) -> Any:
    """tf.transpose takes axes counted from the end, but its gradient does not."""
    return tf.transpose(x, perm=None if axes is None else [a % x.shape.rank for a in axes])


def moveaxis(tf: Any, x: Any, source: Any, destination: Any) -> Any:
    return tf.transpose(x, perm=moved_axes(source, destination, x.shape.rank))


def flattened(tf: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """x with those axes as one, the last."""
    rank = x.shape.rank
    order = (*(i for i in range(rank) if i not in axes), *axes)
    kept = [x.shape[i] for i in order[: rank - len(axes)]]
    count = prod(x.shape[i] for i in axes)
    return tf.reshape(tf.transpose(x, perm=order), [*kept, count])


def flip(tf: Any, x: Any, axis: Any = None) -> Any:
    return tf.reverse(x, axes_of(axis, x.shape.rank))


def roll(tf: Any, x: Any, shift: Any, axis: Any = None) -> Any:
    """tf.roll needs an axis."""
    if axis is None:
        return tf.reshape(tf.roll(tf.reshape(x, [-1]), shift, 0), x.shape)
    return tf.roll(x, shift, axis)


def tile(tf: Any, x: Any, reps: Any) -> Any:
    """tf.tile wants a number for each axis."""
    times = shape_of(reps)
    rank = max(len(times), x.shape.rank)
    x = tf.reshape(x, [*(1,) * (rank - x.shape.rank), *x.shape])
    return tf.tile(x, [*(1,) * (rank - len(times)), *times])


def pad(tf: Any, x: Any, pad_width: Any, value: float = 0.0) -> Any:
    return tf.pad(x, widths_of(pad_width, x.shape.rank), constant_values=value)


def _distance(tf: Any, x: Any) -> Any:
    """How far an element of the matrices lies above the main diagonal."""
    rows, columns = x.shape[-2:]
    return tf.range(columns)[None, :] - tf.range(rows)[:, None]


def tril(tf: Any, x: Any, k: int = 0) -> Any:
    """tf.linalg.band_part always keeps the main diagonal."""
    if k >= 0:
        return tf.linalg.band_part(x, -1, min(k, x.shape[-1]))
    return tf.where(_distance(tf, x) <= k, x, tf.zeros_like(x))


def triu(tf: Any, x: Any, k: int = 0) -> Any:
    """tf.linalg.band_part always keeps the main diagonal."""
    if k <= 0:
        return tf.linalg.band_part(x, min(-k, x.shape[-2]), -1)
    return tf.where(_distance(tf, x) >= k, x, tf.zeros_like(x))


def diag(tf: Any, x: Any, k: int = 0) -> Any:
    return tf.linalg.diag(x, k=k) if x.shape.rank == 1 else tf.linalg.diag_part(x, k=k)


def trace(tf: Any, x: Any, offset: int = 0) -> Any:
    """tf.linalg.trace takes the main diagonal."""
    if offset == 0:
        return tf.linalg.trace(x)
    on_it = tf.where(_distance(tf, x) == offset, x, tf.zeros_like(x))
    return tf.reduce_sum(on_it, axis=[-2, -1])


# Directions of vectors, and how near they are


def normalize(tf: Any, x: Any, ord: float = 2, axis: int = -1, eps: float = 1e-12) -> Any:
    """tf.math.l2_normalize bounds the square of the norm."""
    if ord == 2:
        return tf.math.l2_normalize(x, axis=axis, epsilon=eps**2)
    return x / tf.maximum(tf.norm(x, ord=ord, axis=axis, keepdims=True), eps)


def triplet(xp: Any, *points: Any, **keywords: Any) -> Any:
    return xp.maximum(compositions.triplet_excess(xp, *points, **keywords), 0.0)


# The error function, the normal distribution, log-odds and entropy


def entr(tf: Any, x: Any) -> Any:
    return -tf.math.xlogy(x, x)


def logit(tf: Any, x: Any) -> Any:
    return tf.math.log(x) - tf.math.log1p(-x)


def ndtr(tf: Any, x: Any) -> Any:
    return 0.5 * tf.math.erfc(-x / math.sqrt(2))


# Variance and standard deviation


def _corrected(x: Any, axis: Any, correction: float) -> float:
    """The population's variance times this is the corrected one."""
    count = prod(x.shape[a] for a in axes_of(axis, x.shape.rank))
    free = max(count - correction, 0)
    return count / free if free else inf


def var(tf: Any, x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    y = tf.math.reduce_variance(x, axis=axis, keepdims=keepdims)
    return y * _corrected(x, axis, correction) if correction else y


def std(tf: Any, x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    y = tf.math.reduce_std(x, axis=axis, keepdims=keepdims)
    return y * sqrt(_corrected(x, axis, correction)) if correction else y


# Circular and hyperbolic functions


# Below 1/2, (pi/2)^(2k) / (2k + 1)! is less than 2^-60 of the first term from k = 12 on.
_SINC = [(-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(12)]


def sinc(tf: Any, x: Any) -> Any:
    """sin(pi x) / (pi x); near 0 its Taylor series, because the derivative of the quotient is a
    difference of two numbers of the size of 1 / x there."""
    near = tf.abs(x) < 0.5
    inside, outside = tf.where(near, x, tf.zeros_like(x)), tf.where(near, tf.ones_like(x), x)
    series = tf.math.polyval([tf.constant(c, x.dtype) for c in reversed(_SINC)], inside * inside)
    return tf.where(near, series, tf.sin(math.pi * outside) / (math.pi * outside))


TABLE: Table = {
    # Activation functions
    "elu": elu,
    "gelu": Limited("nn.gelu", "it rounds its constants to float32", constants="float32"),
    "hardtanh": Renamed("clip_by_value", {"min": "clip_value_min", "max": "clip_value_max"}),
    "leaky_relu": Limited(
        Renamed("nn.leaky_relu", {"negative_slope": "alpha"}),
        "it rounds its slope to float32",
        constants="float32",
    ),
    "log_sigmoid": "math.log_sigmoid",
    "mish": mish,
    "relu6": "nn.relu6",
    "selu": "nn.selu",
    "silu": "nn.silu",
    "softsign": Limited(
        "nn.softsign", "no gradient of SoftsignGrad is registered", reverse_only=True
    ),
    # Arithmetic
    "abs": "abs",
    "cbrt": Composed(compositions.cbrt),
    "hypot": hypot,
    "reciprocal": "math.reciprocal",
    "remainder": "math.floormod",
    "rsqrt": "math.rsqrt",
    "sqrt": "sqrt",
    "square": "square",
    # Modified Bessel functions of the first kind
    "i0": "math.bessel_i0",
    "i0e": "math.bessel_i0e",
    "i1": "math.bessel_i1",
    "i1e": "math.bessel_i1e",
    # Losses of classifiers. TensorFlow has the classes on the last axis
    "cross_entropy": Loss(cross_entropy),
    "nll": Loss(nll),
    "soft_cross_entropy": Loss(Composed(compositions.soft_cross_entropy)),
    # Operations that pass a value on
    "stop_gradient": "stop_gradient",
    # Convolutions. TensorFlow's have the channels last on the CPU
    "conv1d": conv1d,
    "conv2d": conv2d,
    "conv_transpose2d": conv_transpose2d,
    # Arrays that are made of nothing but their shape
    "arange": counted("range"),
    "eye": eye,
    "full": full,
    "full_like": full_like,
    "ones": shaped("ones"),
    "ones_like": "ones_like",
    "zeros": shaped("zeros"),
    "zeros_like": "zeros_like",
    # Sums, products and extremes of everything up to an element
    "cummax": _extreme("reduce_max", -inf),
    "cummin": _extreme("reduce_min", inf),
    "cumprod": running("math.cumprod"),
    "cumsum": running("cumsum"),
    # Eigenvalues, singular values and their vectors, with the signs that the rows state
    "eigh_vectors": eigh_vectors,
    "eigvalsh": eigvalsh,
    "svd_u": svd_u,
    "svd_vh": svd_vh,
    "svdvals": Renamed("linalg.svd", also={"compute_uv": False}),
    # Determinants
    "det": "linalg.det",
    "logdet": logdet,
    "slogdet_logabs": Renamed("linalg.slogdet", part="log_abs_determinant"),
    "slogdet_sign": slogdet_sign,
    # Exponentials, logarithms, and the functions of the logistic family
    "exp": "exp",
    "exp2": exp2,
    "expm1": "math.expm1",
    "log": "math.log",
    "log10": log10,
    "log1mexp": Composed(compositions.log1mexp),
    "log1p": "math.log1p",
    "log2": log2,
    "logaddexp": logaddexp,
    "sigmoid": "sigmoid",
    "softplus": "nn.softplus",
    "tanh": "tanh",
    "xlog1py": "math.xlog1py",
    "xlogy": "math.xlogy",
    # Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse
    "cholesky": cholesky,
    "pinv": pinv,
    "qr_q": qr_q,
    "qr_r": qr_r,
    # The logarithm of the gamma function, its derivatives, and that of the beta function
    "betaln": betaln,
    "digamma": "math.digamma",
    "lgamma": "math.lgamma",
    "polygamma": polygamma,
    # Taking arrays apart and putting them together
    "concatenate": listed("concat"),
    "getitem": Composed(compositions.getitem),
    "one_hot": one_hot,
    "scatter_add": scatter_add,
    "stack": listed("stack"),
    "take": take,
    "take_along_axis": take_along_axis,
    # Layers of networks, as one composes them without Keras
    "dropout": dropout,
    "embedding": embedding,
    "linear": linear,
    "masked_attention": masked_attention,
    "scaled_dot_product_attention": scaled_dot_product_attention,
    # Products of vectors, matrices and arrays of any rank
    "cross": cross,
    "dot": dot,
    "einsum": einsum,
    "kron": kron,
    "matmul": matmul,
    "outer": Renamed("tensordot", also={"axes": 0}),
    "tensordot": contracted("tensordot"),
    # Losses that compare element by element, as Keras composes them
    "bce": Loss(Composed(compositions.bce)),
    "bce_with_logits": Loss(bce_with_logits),
    "hinge": Loss(hinge),
    "huber": Loss(Composed(compositions.huber)),
    "kl_div": Loss(Composed(compositions.kl_div)),
    "l1": Loss(Composed(compositions.l1)),
    "mse": Loss("math.squared_difference"),
    # Equations with matrices, and functions of square matrices
    "expm": "linalg.expm",
    "inv": "linalg.inv",
    "matrix_power": matrix_power,
    "solve": solve,
    "triangular_solve": triangular_solve,
    # Normalised exponentials
    "log_softmax": "nn.log_softmax",
    "logsumexp": "reduce_logsumexp",
    "softmax": "nn.softmax",
    # Normalisation of layers
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    # Lengths of vectors
    "norm": norm,
    # Elements by their size
    "argsort": argsort,
    "median": median,
    "sort": sort,
    "topk_indices": topk_indices,
    "topk_values": topk_values,
    # Pooling. TensorFlow's has the channels last on the CPU
    "avg_pool2d": avg_pool2d,
    "max_pool2d": max_pool2d,
    # Sums, products and extremes over axes
    "all": "reduce_all",
    "any": "reduce_any",
    "argmax": _argument("argmax"),
    "argmin": _argument("argmin"),
    "count_nonzero": "math.count_nonzero",
    "max": "reduce_max",
    "mean": "reduce_mean",
    "min": "reduce_min",
    "prod": "reduce_prod",
    "sum": "reduce_sum",
    # Logic, and the functions that choose between their arguments
    "ceil": "math.ceil",
    "clip": clip,
    "floor": "floor",
    "logical_and": "logical_and",
    "logical_not": "logical_not",
    "logical_or": "logical_or",
    "maximum": "maximum",
    "minimum": "minimum",
    "relu": "nn.relu",
    "round": "round",
    "sign": "sign",
    "where": "where",
    # Other shapes for the same elements
    "broadcast_to": shaped("broadcast_to"),
    "diag": diag,
    "expand_dims": expand_dims,
    "flip": flip,
    "moveaxis": moveaxis,
    "pad": pad,
    "repeat": "repeat",
    "reshape": shaped("reshape"),
    "roll": roll,
    "squeeze": "squeeze",
    "tile": tile,
    "trace": trace,
    "transpose": transpose,
    "tril": tril,
    "triu": triu,
    # Directions of vectors, and how near they are
    "cosine_similarity": Composed(compositions.cosine_similarity),
    "normalize": normalize,
    "triplet": Loss(Composed(triplet)),
    # The error function, the normal distribution, log-odds and entropy
    "entr": entr,
    "erf": "math.erf",
    "erfc": "math.erfc",
    "erfcx": Missing("TensorFlow has no scaled complementary error function"),
    "erfinv": "math.erfinv",
    "log_ndtr": Missing(
        "TensorFlow has no log_ndtr, and no scaled complementary error function to write it with"
    ),
    "logit": logit,
    "ndtr": ndtr,
    "ndtri": "math.ndtri",
    # Variance and standard deviation
    "std": std,
    "var": var,
    # Circular and hyperbolic functions
    "acos": "math.acos",
    "acosh": "math.acosh",
    "asin": "math.asin",
    "asinh": "math.asinh",
    "atan": "math.atan",
    "atan2": "math.atan2",
    "atanh": "math.atanh",
    "cos": "math.cos",
    "cosh": "math.cosh",
    "sin": "math.sin",
    "sinc": sinc,
    "sinh": "math.sinh",
    "tan": "math.tan",
}
