"""TensorFlow's kernels in exact arithmetic, by the type of the operation. A kernel takes the inputs
in order and the attributes by name.

Operations that are missing here run their float64 kernel. TensorFlow is not needed to read this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from gradcheck_cli.engines.trace import complex_kernels as complexes
from gradcheck_cli.engines.trace import exact_kernels as exact
from gradcheck_cli.engines.trace.complex_kernels import Pair
from gradcheck_cli.engines.trace.exact_kernels import Kernel, OfRun, as_floating, row
from gradcheck_cli.engines.trace.window_kernels import (
    convolution,
    of_groups,
    pooled,
    spread,
    windows_of,
)

DATA_MOVEMENT = frozenset(
    [
        *("Reshape", "Transpose", "ExpandDims", "Squeeze", "StridedSlice", "StridedSliceGrad"),
        *("GatherV2", "GatherNd", "ConcatV2", "Pack", "Unpack", "Tile", "BroadcastTo", "Slice"),
        *("Identity", "IdentityN", "Snapshot", "StopGradient", "PreventGradient", "Pad", "PadV2"),
        *("MatrixDiagV3", "MatrixDiagPartV3", "MatrixBandPart", "MatrixSetDiagV3", "ReverseV2"),
        *("Roll", "Split", "SplitV", "DiagPart", "Diag", "ConjugateTranspose"),
        *("TensorScatterUpdate", "DepthToSpace", "SpaceToDepth", "MirrorPad", "ReverseSequence"),
        *("SpaceToBatchND", "BatchToSpaceND", "DynamicPartition", "DynamicStitch"),
        *("ParallelDynamicStitch", "EnsureShape", "Fill"),
    ]
)
"""Operations that move numbers, and fill the remaining places with zeros."""

EXACT_SELECTIONS = frozenset(
    ["Neg", "Abs", "Max", "Min", "Maximum", "Minimum", "Select", "SelectV2", "ClipByValue"]
)
"""Other operations that do not round: they do more than move numbers."""

SHAPES = frozenset(["Shape", "ShapeN", "Size", "Rank", "BroadcastGradientArgs"])
"""Operations that read shapes, but no numbers of an array."""

ZEROS = frozenset(["ZerosLike", "OnesLike", "Fill", "Const", "Range", "LinSpace", "Empty"])
"""Operations that make constant arrays. No computation produced the zeros in them."""

OF_NUMBERS = frozenset(["Fill", "Range", "LinSpace"])
"""Those whose arguments may be computed numbers."""


def _numbers(name: str) -> Kernel:
    return lambda *xs, **how: row(name)(*map(as_floating, xs))


def _axes(axis: Any) -> Any:
    found = np.asarray(axis).ravel().tolist()
    return tuple(int(i) for i in found)


def _reduction(name: str) -> Kernel:
    return lambda x, axis, keep_dims=False, **how: row(name)(
        as_floating(x), axis=_axes(axis), keepdims=bool(keep_dims)
    )


def _running(name: str, start: float) -> Kernel:
    def kernel(
        x: Any, axis: Any, exclusive: bool = False, reverse: bool = False, **how: Any
    ) -> Any:
        along = int(np.asarray(axis)) % x.ndim
        turned = row("flip")(x, axis=along) if reverse else x
        if exclusive:
            last = tuple(slice(0, -1) if i == along else slice(None) for i in range(x.ndim))
            shape = tuple(1 if i == along else n for i, n in enumerate(x.shape))
            turned = row("concatenate")(np.full(shape, start), turned[last], axis=along)
        found = row(name)(turned, axis=along)
        return row("flip")(found, axis=along) if reverse else found

    return kernel


def _matmul(a: Any, b: Any, **how: Any) -> Any:
    first = how.get("transpose_a") or how.get("adj_x")
    second = how.get("transpose_b") or how.get("adj_y")
    return row("matmul")(exact.transposed(a) if first else a, exact.transposed(b) if second else b)


def _solve(a: Any, b: Any, adjoint: bool = False, **how: Any) -> Any:
    return row("solve")(exact.transposed(a) if adjoint else a, b)


def _solve_triangular(a: Any, b: Any, lower: bool = True, adjoint: bool = False, **how: Any) -> Any:
    turned = bool(lower) != bool(adjoint)
    return row("triangular_solve")(exact.transposed(a) if adjoint else a, b, lower=turned)


def _inverse(a: Any, adjoint: bool = False, **how: Any) -> Any:
    return row("inv")(exact.transposed(a) if adjoint else a)


def _relu6_grad(g: Any, x: Any, **how: Any) -> Any:
    beyond = row("logical_or")(row("less_equal")(x, 0.0), row("greater_equal")(x, 6.0))
    return exact.nothing_where(beyond, g)


def _leaky_grad(g: Any, x: Any, alpha: float = 0.2, **how: Any) -> Any:
    return row("where")(row("greater")(x, 0.0), g, g * float(np.float32(alpha)))


def _selu_grad(g: Any, y: Any, **how: Any) -> Any:
    from reference_engine.arithmetic.constants import SELU_LEFT, SELU_SCALE

    left = g * (y + SELU_LEFT)
    return row("where")(row("less")(y, 0.0), left, g * SELU_SCALE)


def _no_nan(name: str) -> Kernel:
    """x / y or x y, or 0 if y is 0."""

    def kernel(x: Any, y: Any, **how: Any) -> Any:
        at_zero = row("equal")(y, 0.0)
        safe = row("where")(at_zero, 1.0, y)
        return row("where")(at_zero, 0.0, row(name)(x, safe))

    return kernel


def _cross_entropy(logits: Any, labels: Any, **how: Any) -> Any:
    likely = row("log_softmax")(logits, axis=-1)
    loss = -row("sum")(labels * likely, axis=-1)
    return loss, row("softmax")(logits, axis=-1) - labels


def _sum_of(*xs: Any, **how: Any) -> Any:
    total = xs[0]
    for x in xs[1:]:
        total = row("add")(total, x)
    return total


def _segments(reduce: str) -> Kernel:
    """Reduce the rows with the same segment number. Rows with a negative number are dropped."""

    def kernel(x: Any, segments: Any, count: Any = None, **how: Any) -> Any:
        n = int(np.max(segments, initial=-1)) + 1 if count is None else int(count)
        inner = x.shape[segments.ndim :]
        size = math.prod(inner)
        flat = row("reshape")(x, shape=(-1,))
        groups: list[list[int]] = [[] for _ in range(n * size)]
        for part, number in enumerate(segments.ravel().tolist()):
            for i in range(size if number >= 0 else 0):
                groups[number * size + i].append(part * size + i)
        if reduce in ("max", "min") and not all(groups):
            raise TypeError("only extremes of segments that have some element are supported")
        return row("reshape")(of_groups(flat, groups, reduce), shape=(n, *inner))

    return kernel


def _scatter_add(x: Any, indices: Any, updates: Any, **how: Any) -> Any:
    places = np.arange(x.size).reshape(x.shape)[tuple(np.moveaxis(indices, -1, 0))]
    return exact.added_at(x, places, updates)


def _channels_first(x: Any, data_format: Any) -> Any:
    """The array with its channels before the axes over which a window moves."""
    if text(data_format).startswith("NC"):
        return x
    return row("moveaxis")(x, source=-1, destination=1)


def _channels_last(y: Any, data_format: Any) -> Any:
    return y if text(data_format).startswith("NC") else row("moveaxis")(y, source=1, destination=-1)


def _bias_add(x: Any, bias: Any, data_format: Any = "NHWC", **how: Any) -> Any:
    if text(data_format).startswith("NC"):
        bias = row("reshape")(bias, shape=(-1, *(1 for _ in x.shape[2:])))
    return row("add")(as_floating(x), as_floating(bias))


def _bias_gradient(bars: Any, data_format: Any = "NHWC", **how: Any) -> Any:
    channels = 1 if text(data_format).startswith("NC") else bars.ndim - 1
    axes = tuple(axis for axis in range(bars.ndim) if axis != channels)
    return row("sum")(as_floating(bars), axis=axes, keepdims=False)


def text(attribute: Any) -> str:
    """A name or an attribute, which TensorFlow hands over as bytes or as text."""
    return attribute.decode() if isinstance(attribute, bytes) else str(attribute)


def _inner_of(sizes: Any, data_format: Any) -> list[int]:
    """The sizes along the axes over which a window moves."""
    inner = slice(2, None) if text(data_format).startswith("NC") else slice(1, -1)
    return [int(n) for n in sizes[inner]]


def _paddings(
    padding: Any, sizes: Sequence[int], window: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """The padding that "SAME" and "VALID" add before and after each axis."""
    if text(padding) == "VALID":
        return [(0, 0)] * len(sizes)
    if text(padding) != "SAME":
        raise TypeError("only the paddings SAME and VALID are supported")
    widths = []
    for n, k, step in zip(sizes, window, strides, strict=True):
        whole = max((-(-n // step) - 1) * step + k - n, 0)
        widths.append((whole // 2, whole - whole // 2))
    return widths


def _convolution(
    x: Any,
    weight: Any,
    strides: Any,
    padding: Any,
    data_format: Any = "NHWC",
    dilations: Any = None,
    *,
    by_channel: bool = False,
    **how: Any,
) -> Any:
    x = _channels_first(x, data_format)
    spatial = x.ndim - 2
    steps = _inner_of(strides, data_format)
    wide = [1] * spatial if dilations is None else _inner_of(dilations, data_format)
    reach = [(k - 1) * d + 1 for k, d in zip(weight.shape[:spatial], wide, strict=True)]
    groups = x.shape[1] // weight.shape[-2]
    if by_channel:  # (*window, channels, kernels of each)
        groups = x.shape[1]
        weight = row("reshape")(weight, shape=(*weight.shape[:spatial], 1, -1))
    weight = row("transpose")(weight, axes=(spatial + 1, spatial, *range(spatial)))
    around = _paddings(padding, x.shape[2:], reach, steps)
    return _channels_last(convolution(x, weight, steps, around, wide, groups), data_format)


def _transposed_convolution(
    sizes: Any,
    weight: Any,
    y: Any,
    strides: Any,
    padding: Any,
    data_format: Any = "NHWC",
    dilations: Any = (1,),
    **how: Any,
) -> Any:
    """The vjp of a convolution with respect to its input, which has these sizes."""
    groups = sizes[1 if text(data_format).startswith("NC") else -1] // weight.shape[-2]
    if groups != 1 or set(dilations) != {1}:
        raise TypeError("only transposed convolutions of one group, not dilated, are supported")
    y = _channels_first(y, data_format)
    inner, steps = _inner_of(sizes, data_format), _inner_of(strides, data_format)
    kernel = weight.shape[: len(inner)]
    around = []
    firsts = [first for first, _ in _paddings(padding, inner, kernel, steps)]
    for axis, (n, k, step, first) in enumerate(zip(inner, kernel, steps, firsts, strict=True)):
        around.append((k - 1 - first, n - 1 - (y.shape[2 + axis] - 1) * step + first))
        weight = row("flip")(weight, axis=axis)
    last = len(inner)
    weight = row("transpose")(weight, axes=(last, last + 1, *range(last)))
    ones = [1] * last
    return _channels_last(convolution(spread(y, steps), weight, ones, around, ones, 1), data_format)


def _weight_of_convolution(
    x: Any,
    sizes: Any,
    y: Any,
    strides: Any,
    padding: Any,
    data_format: Any = "NHWC",
    dilations: Any = None,
    **how: Any,
) -> Any:
    """The vjp of a convolution with respect to its weight, which has these sizes."""
    x, y = _channels_first(x, data_format), _channels_first(y, data_format)
    spatial = x.ndim - 2
    steps = _inner_of(strides, data_format)
    wide = [1] * spatial if dilations is None else _inner_of(dilations, data_format)
    if x.shape[1] != sizes[-2]:
        raise TypeError("only convolutions of one group are supported")
    reach = [(k - 1) * d + 1 for k, d in zip(sizes[:spatial], wide, strict=True)]
    around = _paddings(padding, x.shape[2:], reach, steps)
    # what a stride leaves over at the end is no part of a window
    covers = [(n - 1) * s + k for n, s, k in zip(y.shape[2:], steps, reach, strict=True)]
    sides = zip(around, covers, x.shape[2:], strict=True)
    around = [(before, cover - before - n) for (before, _), cover, n in sides]
    x, y = (row("transpose")(one, axes=(1, 0, *range(2, spatial + 2))) for one in (x, y))
    weight = convolution(x, y, wide, around, steps, 1)
    return row("transpose")(weight, axes=(*range(2, spatial + 2), 0, 1))


def _pool(reduce: str) -> Kernel:
    def kernel(
        x: Any, ksize: Any, strides: Any, padding: Any, data_format: Any = "NHWC", **how: Any
    ) -> Any:
        """Pool without the padding, which does not count in a mean either."""
        x = _channels_first(x, data_format)
        window, steps = _inner_of(ksize, data_format), _inner_of(strides, data_format)
        around = _paddings(padding, x.shape[2:], window, steps)
        tables = windows_of(x.shape[2:], window, steps, around, [1] * len(window))
        return _channels_last(pooled(x, tables, reduce), data_format)

    return kernel


def _sparse_cross_entropy(logits: Any, labels: Any, **how: Any) -> Any:
    return _cross_entropy(logits, np.eye(logits.shape[-1])[labels])


def _running_logsumexp(x: Any, axis: Any, **how: Any) -> Any:
    along = int(np.asarray(axis)) % x.ndim
    return exact.running_logsumexp(x, along, partial(_running("cumsum", 0.0), axis=axis, **how))


_SAME = {
    **{name.capitalize(): name for name in ("exp", "expm1", "log", "log1p", "sqrt", "rsqrt")},
    **{name.capitalize(): name for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh")},
    **{name.capitalize(): name for name in ("cosh", "tanh", "asinh", "acosh", "atanh", "atan2")},
    **{name.capitalize(): name for name in ("sigmoid", "erf", "erfc", "erfinv", "ndtri", "lgamma")},
    **{name.capitalize(): name for name in ("digamma", "xlogy", "xlog1py", "maximum", "minimum")},
    **{name.capitalize(): name for name in ("abs", "sign", "floor", "ceil", "relu", "elu", "selu")},
    **{name.capitalize(): name for name in ("softplus", "softsign", "square", "equal", "less")},
    **{"Greater": "greater", "GreaterEqual": "greater_equal", "LessEqual": "less_equal"},
    **{"NotEqual": "not_equal", "LogicalAnd": "logical_and", "LogicalOr": "logical_or"},
    **{"LogicalNot": "logical_not", "Neg": "negative", "Pow": "power", "Rint": "round"},
    **{"Inv": "reciprocal", "Reciprocal": "reciprocal", "FloorMod": "remainder"},
    **{"Select": "where", "SelectV2": "where", "Round": "round", "FloorDiv": "floor_divide"},
    **{"BesselI0": "i0", "BesselI0e": "i0e", "BesselI1": "i1", "BesselI1e": "i1e"},
    **{"Dawsn": "dawsn", "Expint": "expi", "Spence": "spence"},
    **{"FresnelSin": "fresnel_sin", "FresnelCos": "fresnel_cos"},
    **{"Igamma": "gammainc", "Igammac": "gammaincc", "Betainc": "betainc", "Zeta": "zeta"},
}

ROWS: dict[str, str] = {
    **_SAME,
    **{"Add": "add", "AddV2": "add", "BiasAdd": "add", "Sub": "subtract", "Mul": "multiply"},
    **{"RealDiv": "divide", "Div": "divide", "Sum": "sum", "Mean": "mean", "Prod": "prod"},
    **{"Cumsum": "cumsum", "MatMul": "matmul", "BatchMatMulV2": "matmul", "SelectV2": "where"},
}
"""Kernels that equal a row of the op table and take their arrays in the same order."""


def _svd(run: OfRun, x: Any, compute_uv: bool = True, full_matrices: bool = False, **_: Any) -> Any:
    if not compute_uv:
        return row("svdvals")(x), np.empty(0), np.empty(0)
    of_u, of_v = run.results[1:]
    u, values, vh = exact.svd(x, full_matrices, of_u, np.swapaxes(of_v, -1, -2))
    return values, u, exact.transposed(vh)


def _eigh(run: OfRun, x: Any, compute_v: bool = True, **_: Any) -> Any:
    """Of the symmetric matrix with the lower triangle of x: the eigenvalues and eigenvectors."""
    x = row("tril")(x) + exact.transposed(row("tril")(x, k=-1))
    values = row("eigvalsh")(x)
    if not compute_v:
        return values, np.empty(0)
    return values, exact.towards(row("eigh_vectors")(x), run.results[1], -2)


def _topk(run: OfRun, x: Any, k: Any, **how: Any) -> Any:
    return row("topk_values")(x, k=int(k), axis=-1), run.results[1]


CHOSEN: dict[str, Kernel] = {
    **{"Svd": _svd, "SelfAdjointEigV2": _eigh},
    "Qr": lambda run, x, full_matrices=False, **_: exact.qr(x, run.results[1], full_matrices),
    **{"TopK": _topk, "TopKV2": _topk},
}
"""Kernels that choose signs and positions. Their first argument is the run."""

_BESSEL = {"J": "bessel_j", "Y": "bessel_y", "K": "bessel_k"}


def _bessel(name: str, n: int) -> Kernel:
    return lambda x, **how: row(name)(x, n=n)


KERNELS: dict[str, Kernel] = {
    **{f"Bessel{kind}{n}": _bessel(ours, n) for kind, ours in _BESSEL.items() for n in (0, 1)},
    **{f"BesselK{n}e": _bessel("bessel_ke", n) for n in (0, 1)},
    **{name: exact.row_without_keywords(ours) for name, ours in _SAME.items()},
    **{"Add": _numbers("add"), "AddV2": _numbers("add"), "Sub": _numbers("subtract")},
    **{"Mul": _numbers("multiply"), "RealDiv": _numbers("divide"), "Div": _numbers("divide")},
    **{name: _reduction(name.lower()) for name in ("Sum", "Mean", "Prod", "Max", "Min")},
    **{"Cumsum": _running("cumsum", 0.0), "Cumprod": _running("cumprod", 1.0)},
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _matmul),
    "AddN": _sum_of,
    "IsFinite": exact.finite,
    **{"BiasAdd": _bias_add, "BiasAddGrad": _bias_gradient},
    "Cast": lambda x, **how: as_floating(x),
    "ClipByValue": exact.clamped,
    "DivNoNan": _no_nan("divide"),
    "MulNoNan": _no_nan("multiply"),
    "Xdivy": lambda x, y, **how: _no_nan("multiply")(row("divide")(1.0, y), x),
    "SquaredDifference": lambda a, b, **how: row("square")(a - b),
    "Softmax": lambda x, **how: row("softmax")(x, axis=-1),
    "LogSoftmax": lambda x, **how: row("log_softmax")(x, axis=-1),
    "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    "LeakyRelu": lambda x, alpha=0.2, **how: row("leaky_relu")(
        x, negative_slope=float(np.float32(alpha))
    ),
    "L2Loss": lambda x, **how: row("sum")(x * x) / 2,
    "Cholesky": exact.row_without_keywords("cholesky"),
    "MatrixDeterminant": exact.row_without_keywords("det"),
    "MatrixInverse": _inverse,
    "MatrixSolve": _solve,
    "MatrixTriangularSolve": _solve_triangular,
    "TanhGrad": lambda y, g, **how: exact.tanh_grad(g, y),
    "SigmoidGrad": lambda y, g, **how: exact.sigmoid_grad(g, y),
    "SqrtGrad": lambda y, g, **how: g * 0.5 / y,
    "RsqrtGrad": lambda y, g, **how: g * (-0.5) * y * y * y,
    "InvGrad": lambda y, g, **how: -(g * y * y),
    "ReciprocalGrad": lambda y, g, **how: -(g * y * y),
    "SoftplusGrad": lambda g, x, **how: exact.softplus_grad(g, x),
    "SoftsignGrad": lambda g, x, **how: g / row("square")(1 + row("abs")(x)),
    "ReluGrad": lambda g, x, **how: exact.nothing_where(row("less_equal")(x, 0.0), g),
    "Relu6Grad": _relu6_grad,
    "LeakyReluGrad": _leaky_grad,
    "EluGrad": lambda g, y, **how: row("where")(row("less")(y, 0.0), g * (y + 1), g),
    "SeluGrad": _selu_grad,
    **{f"UnsortedSegment{name}": _segments(name.lower()) for name in ("Sum", "Max", "Min")},
    **{f"Segment{name}": _segments(name.lower()) for name in ("Sum", "Mean", "Max", "Min")},
    "TensorScatterAdd": _scatter_add,
    "ScatterNd": lambda indices, updates, shape, **how: _scatter_add(
        np.zeros(shape), indices, updates
    ),
    **{"Conv2D": _convolution, "Conv3D": _convolution},
    **dict.fromkeys(("Conv2DBackpropInput", "Conv3DBackpropInputV2"), _transposed_convolution),
    **dict.fromkeys(("Conv2DBackpropFilter", "Conv3DBackpropFilterV2"), _weight_of_convolution),
    "DepthwiseConv2dNative": lambda *xs, **how: _convolution(*xs, by_channel=True, **how),
    **{"MaxPool": _pool("max"), "MaxPool3D": _pool("max")},
    **{"AvgPool": _pool("mean"), "AvgPool3D": _pool("mean")},
    "SparseSoftmaxCrossEntropyWithLogits": _sparse_cross_entropy,
    "CumulativeLogsumexp": _running_logsumexp,
    "Einsum": lambda *xs, equation, **how: row("einsum")(*xs, subscripts=text(equation)),
    "LogMatrixDeterminant": lambda a, **how: (row("slogdet_sign")(a), row("slogdet_logabs")(a)),
    "Relu6": exact.row_without_keywords("relu6"),
    "Polygamma": exact.polygamma,
}

POINTWISE = (
    *("AddN", "Cast", "ClipByValue", "DivNoNan", "MulNoNan", "SquaredDifference", "Xdivy"),
    *("TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "InvGrad", "ReciprocalGrad"),
    *(
        "SoftplusGrad",
        "SoftsignGrad",
        "ReluGrad",
        "Relu6Grad",
        "LeakyReluGrad",
        "EluGrad",
        "SeluGrad",
    ),
)
"""Other kernels that work element by element."""


def _transform(axes: int, forward: bool) -> Kernel:
    scale = complexes.UNSCALED if forward else complexes.BY_COUNT
    return lambda z, **how: complexes.of_complex(z, _last_axes(z, axes), scale, forward)


def _last_axes(x: Any, axes: int) -> list[int]:
    return list(range(x.ndim - axes, x.ndim))


def _of_real(axes: int) -> Kernel:
    def kernel(x: Any, lengths: Any, **how: Any) -> Pair:
        part = tuple(slice(0, int(n)) for n in np.ravel(lengths))
        x = row("getitem")(x, index=(..., *part))
        return complexes.of_real(x, _last_axes(x, axes), complexes.UNSCALED, onesided=True)

    return kernel


def _to_real(axes: int) -> Kernel:
    def kernel(z: Pair, lengths: Any, **how: Any) -> Any:
        sizes = [int(n) for n in np.ravel(lengths)]
        part = (..., *(slice(0, n) for n in (*sizes[:-1], sizes[-1] // 2 + 1)))
        z = complexes.linear(lambda x: row("getitem")(x, index=part))(z)
        return complexes.to_real(z, _last_axes(z, axes), complexes.BY_COUNT, sizes[-1])

    return kernel


def _complex_matmul(a: Any, b: Any, **how: Any) -> Pair:
    """The product of complex matrices. `adj_x` and `adj_y` conjugate the factors."""
    first, second = how.get("adj_x"), how.get("adj_y")
    a, b = complexes.conjugate(a) if first else a, complexes.conjugate(b) if second else b
    return complexes.bilinear(_matmul)(a, b, **how)


def _complex_einsum(*xs: Any, equation: Any, **how: Any) -> Pair:
    if len(xs) != 2:
        raise TypeError("only products of two arrays of complex numbers are supported")
    product = partial(row("einsum"), subscripts=text(equation))
    return complexes.bilinear(product)(*xs)


_OF_PAIRS: dict[str, Kernel] = {
    "Real": lambda z, **how: z.re,
    "Imag": lambda z, **how: z.im,
    "Conj": lambda z, **how: complexes.conjugate(z),
    "Complex": lambda re, im, **how: Pair(re, im),
    "ComplexAbs": lambda z, **how: complexes.absolute(z),
    "Angle": lambda z, **how: complexes.angle(z),
    "Cast": lambda z, DstT, **how: _complex_cast(z, DstT),
    "AddN": lambda *zs, **how: reduce(complexes.add, zs),
    "SelectV2": lambda mask, a, b, **how: complexes.where(mask, a, b),
    **{name: complexes.linear(KERNELS[name]) for name in ("Sum", "Mean", "Cumsum")},
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _complex_matmul),
    "Einsum": _complex_einsum,
    **{f"FFT{n}": _transform(axes, True) for axes, n in ((1, ""), (2, "2D"), (3, "3D"))},
    **{f"IFFT{n}": _transform(axes, False) for axes, n in ((1, ""), (2, "2D"), (3, "3D"))},
    **{f"RFFT{n}": _of_real(axes) for axes, n in ((1, ""), (2, "2D"), (3, "3D"))},
    **{f"IRFFT{n}": _to_real(axes) for axes, n in ((1, ""), (2, "2D"), (3, "3D"))},
}

_COMPLEX = (8, 18)  # DT_COMPLEX64, DT_COMPLEX128


def _complex_cast(z: Any, to: int) -> Any:
    if int(to) in _COMPLEX:
        return complexes.as_pair(z if isinstance(z, Pair) else as_floating(z))
    return z.re


of_pairs = partial(complexes.kernel_of, _OF_PAIRS, ROWS)
