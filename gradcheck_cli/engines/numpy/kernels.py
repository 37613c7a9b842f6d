"""Functions of NumPy, and ufuncs of SciPy, in rows of the op table, by name and with NumPy's
arguments. A function that is missing here, or whose kernel raises TypeError, has only its float64
value."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.engines.trace import complex_kernels as complexes
from gradcheck_cli.engines.trace.complex_kernels import Pair, as_pair
from gradcheck_cli.engines.trace.exact_kernels import Kernel, added_at, as_floating, row

DATA_MOVEMENT = frozenset(
    [
        *("reshape", "transpose", "ravel", "flatten", "squeeze", "swapaxes", "moveaxis", "copy"),
        *("expand_dims", "broadcast_to", "concatenate", "stack", "vstack", "hstack", "flip"),
        *("roll", "repeat", "tile", "take", "getitem", "setitem", "diagonal", "tril", "triu"),
        *("take_along_axis", "sliding_window_view", "atleast_1d", "atleast_2d", "atleast_3d"),
        *("dstack", "column_stack", "split", "array_split", "vsplit", "hsplit", "fliplr"),
        *("flipud", "rot90", "rollaxis", "diag", "broadcast_arrays", "written", "array"),
    ]
)
"""Functions that move numbers, and fill the remaining places with zeros."""

EXACT_SELECTIONS = frozenset(["negative", "abs", "maximum", "minimum", "max", "min", "where"])
"""Other functions that do not round: they do more than move numbers."""

REDUCED = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
"""The names of the `reduce` of ufuncs."""

ACCUMULATED = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}
"""The names of the `accumulate` of ufuncs."""

RENAMED = {
    **{"absolute": "abs", "fabs": "abs", "amax": "max", "amin": "min", "dot": "matmul"},
    **{"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2"},
    **{"arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "float_power": "power"},
    **{"rint": "round", "fmax": "maximum", "fmin": "minimum"},
    **{"expit": "sigmoid", "log_expit": "log_sigmoid", "gammaln": "lgamma", "psi": "digamma"},
}
"""Functions that equal a row of the op table with another name."""

SAME_NAME = (
    *("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "cbrt", "square", "abs"),
    *("reciprocal", "sign", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil"),
    *("add", "subtract", "multiply", "divide", "negative", "power", "remainder", "hypot"),
    *("logaddexp", "maximum", "minimum", "less", "less_equal", "greater", "greater_equal"),
    *("equal", "not_equal", "logical_and", "logical_or", "logical_not", "matmul", "where"),
    *("clip", "outer", "kron", "inv", "det", "cholesky", "matrix_power", "sinc", "digamma"),
    *("erf", "erfc", "erfcx", "erfinv", "ndtr", "log_ndtr", "ndtri", "xlogy", "xlog1py", "logit"),
    *("entr", "i0", "i1", "i0e", "i1e", "gammainc", "gammaincc", "betainc", "zeta"),
    *("dawsn", "expi", "spence"),
)
"""Functions that equal a row of the same name, with its keywords."""


def _reduction(name: str) -> Kernel:
    def kernel(x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
        return row(name)(x, axis=axis, keepdims=keepdims)

    return kernel


def _running(name: str) -> Kernel:
    def kernel(x: Any, axis: Any = None, dtype: Any = None) -> Any:
        if axis is None:
            return row(name)(row("reshape")(x, shape=(-1,)), axis=0)
        return row(name)(x, axis=axis)

    return kernel


def _spread(name: str) -> Kernel:
    def kernel(
        x: Any, axis: Any = None, dtype: Any = None, *, ddof: Any = 0, keepdims: bool = False
    ) -> Any:
        return row(name)(x, axis=axis, correction=ddof, keepdims=keepdims)

    return kernel


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    of_matrices = isinstance(axis, tuple) or (axis is None and x.ndim == 2)
    if of_matrices and ord not in (None, "fro"):
        raise TypeError("only the Frobenius norm of a matrix is supported")
    ord = 2 if ord in (None, "fro") else ord
    return row("norm")(x, ord=ord, axis=axis, keepdims=keepdims)


def _pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    if mode != "constant" or np.ndim(constant_values):
        raise TypeError("only padding with a constant is supported")
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    return row("pad")(x, pad_width=tuple(map(tuple, widths)), value=float(constant_values))


def _einsum(subscripts: str, *xs: Any, optimize: Any = False) -> Any:
    return row("einsum")(*map(as_floating, xs), subscripts=subscripts)


def _dot(a: Any, b: Any) -> Any:
    if not (a.ndim and b.ndim):
        return a * b
    if max(a.ndim, b.ndim) <= 2:
        return row("matmul")(a, b)
    return row("tensordot")(a, b, axes=([-1], [max(b.ndim - 2, 0)]))


def _vdot(a: Any, b: Any) -> Any:
    return row("sum")(row("reshape")(a, shape=(-1,)) * row("reshape")(b, shape=(-1,)))


def _append(x: Any, more: Any, axis: int | None = None) -> Any:
    parts = [y if hasattr(y, "ndim") else np.asarray(y, np.float64) for y in (x, more)]
    if axis is None:
        parts, axis = [row("reshape")(y, shape=(-1,)) for y in parts], 0
    return row("concatenate")(*parts, axis=axis)


def _diff(x: Any, n: int = 1, axis: int = -1) -> Any:
    for _ in range(n):
        before = [slice(None)] * x.ndim
        after = list(before)
        before[axis], after[axis] = slice(0, -1), slice(1, None)
        x = row("getitem")(x, index=tuple(after)) - row("getitem")(x, index=tuple(before))
    return x


def _solve(a: Any, b: Any) -> Any:
    if b.ndim > 1:
        return row("solve")(a, b)
    if a.ndim > 2:
        raise TypeError("a vector for many matrices is not supported")
    return row("squeeze")(row("solve")(a, row("expand_dims")(b, axis=-1)), axis=-1)


def _singular_values(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    if compute_uv:
        raise TypeError("only the singular values are supported")
    return row("svdvals")(a)


def _sort(x: Any, axis: int | None = -1, kind: Any = None) -> Any:
    if axis is None:
        return row("sort")(row("reshape")(x, shape=(-1,)), axis=0)
    return row("sort")(x, axis=axis)


def _add_at(x: Any, index: Any, values: Any) -> Any:
    return added_at(x, np.arange(x.size).reshape(x.shape)[index], values)


def _select(conditions: Any, choices: Any, default: Any = 0.0) -> Any:
    y = float(default) if isinstance(default, int) else default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        y = row("where")(condition, choice, y)
    return y


def _heaviside(x: Any, at_zero: Any) -> Any:
    return row("where")(row("equal")(x, 0.0), at_zero, row("where")(row("less")(x, 0.0), 0.0, 1.0))


def _rounded(x: Any, decimals: int = 0) -> Any:
    power = 10.0**decimals
    return row("round")(x) if decimals == 0 else row("round")(x * power) / power


def _of_order(name: str, n: Any = None) -> Kernel:
    """A function of SciPy that takes its order n first, or has one in its name."""

    def kernel(*xs: Any) -> Any:
        order = xs[0] if n is None else n
        if np.ndim(order):
            raise TypeError("only one order for all numbers is supported")
        return row(name)(xs[-1], n=float(order))

    return kernel


_BESSEL = {"jv": "bessel_j", "yv": "bessel_y", "kv": "bessel_k", "kve": "bessel_ke"}

KERNELS: dict[str, Kernel] = {
    **{name: _of_order(ours) for name, ours in _BESSEL.items()},
    **{"iv": _of_order("bessel_i"), "yn": _of_order("bessel_y"), "kn": _of_order("bessel_k")},
    **{f"{name[0]}{n}": _of_order(_BESSEL[name], n) for name in ("jv", "yv", "kv") for n in (0, 1)},
    **{f"k{n}e": _of_order("bessel_ke", n) for n in (0, 1)},
    **{"expn": _of_order("expn"), "exp1": _of_order("expn", 1)},
    "fresnel": lambda x: (row("fresnel_sin")(x), row("fresnel_cos")(x)),
    "sici": lambda x: (row("si")(x), row("ci")(x)),
    **{name: row(name) for name in SAME_NAME},
    **{name: row(ours) for name, ours in RENAMED.items()},
    **{name: _reduction(name) for name in ("sum", "prod", "mean", "max", "min")},
    **{name: _running(name) for name in ACCUMULATED.values()},
    **{"amax": _reduction("max"), "amin": _reduction("min")},
    **{"var": _spread("var"), "std": _spread("std"), "norm": _norm, "pad": _pad},
    **{"dot": _dot, "append": _append, "einsum": _einsum, "vdot": _vdot, "diff": _diff},
    "trace": lambda x, offset=0: row("trace")(x, offset=offset),
    "inner": lambda a, b: row("tensordot")(a, b, axes=([-1], [-1])) if a.ndim and b.ndim else a * b,
    "tensordot": lambda a, b, axes=2: row("tensordot")(a, b, axes=axes),
    **{"solve": _solve, "svd": _singular_values},
    "eigvalsh": lambda a, uplo="L": row("eigvalsh")(a),
    "slogdet": lambda a: (row("slogdet_sign")(a), row("slogdet_logabs")(a)),
    **{"sort": _sort, "add.at": _add_at, "select": _select, "heaviside": _heaviside},
    "ptp": lambda x, axis=None: row("max")(x, axis=axis) - row("min")(x, axis=axis),
    "median": lambda x, axis=None: row("median")(x, axis=axis),
    "positive": lambda x: x,
    **{"around": _rounded, "round": _rounded},
    "multiply.outer": lambda a, b: row("tensordot")(a, b, axes=0),
}


def _resized(x: Any, sizes: Any, axes: Any) -> Any:
    """The array cut or filled with zeros to these sizes."""
    for n, axis in zip(sizes, axes, strict=True):
        before, have = axis % x.ndim, x.shape[axis]
        if n < have:
            x = row("getitem")(x, index=(*(slice(None),) * before, slice(0, n)))
        elif n > have:
            widths = [(0, n - have if i == before else 0) for i in range(x.ndim)]
            x = row("pad")(x, pad_width=tuple(widths), value=0.0)
    return x


def _transform(kind: str, several: int | None) -> Kernel:
    """A Fourier transform along one axis, or along `several` axes (0: all)."""

    def kernel(x: Any, n: Any = None, axis: Any = None, norm: Any = None, **named: Any) -> Any:
        n, axis = named.get("s", n), named.get("axes", axis)
        if several is None:
            axes, sizes = [-1 if axis is None else axis], None if n is None else [n]
        else:
            count = several or (x.ndim if n is None else len(n))
            axes, sizes = list(range(-count, 0)) if axis is None else list(axis), n
        dim = [a % x.ndim for a in axes]
        to_real, inverse = kind == "irfft", kind.startswith("i")
        if sizes is None:
            sizes = [x.shape[d] for d in dim]
            if to_real:
                sizes[-1] = 2 * (sizes[-1] - 1)
        resize = complexes.linear(_resized) if isinstance(x, Pair) else _resized
        given = [*sizes[:-1], sizes[-1] // 2 + 1] if to_real else sizes
        x = resize(x, given, dim)
        by_count = inverse if norm in (None, "backward") else not inverse
        scale = complexes.BY_COUNT if by_count else complexes.UNSCALED
        scale = complexes.BY_ROOT if norm == "ortho" else scale
        if to_real:
            return complexes.to_real(as_pair(x), dim, scale, sizes[-1])
        if not isinstance(x, Pair) and not inverse:
            return complexes.of_real(x, dim, scale, onesided=kind == "rfft")
        return complexes.of_complex(as_pair(x), dim, scale, forward=not inverse)

    return kernel


_AXES = {"": None, "2": 2, "n": 0}

_OF_PAIRS: dict[str, Kernel] = {
    "real": lambda z: z.re,
    "imag": lambda z: z.im,
    **dict.fromkeys(("conj", "conjugate"), complexes.conjugate),
    "angle": lambda z: complexes.angle(z),
    "dot": complexes.bilinear(_dot),
    "vdot": lambda a, b: complexes.bilinear(_vdot)(complexes.conjugate(a), b),
    "outer": complexes.bilinear(row("outer")),
    "einsum": lambda subscripts, a, b, optimize=False: complexes.bilinear(
        lambda x, y: _einsum(subscripts, x, y)
    )(a, b),
    **{name: complexes.linear(KERNELS[name]) for name in ("sum", "mean", "cumsum", "trace")},
    **{
        f"{kind}{n}": _transform(kind, axes)
        for kind in ("fft", "ifft", "rfft", "irfft")
        for n, axes in _AXES.items()
    },
}


def of_pairs(name: str) -> Kernel | None:
    """The kernel of a function with complex numbers, represented as pairs. None if there is no
    kernel."""
    return _OF_PAIRS.get(name, complexes.PAIRS.get(RENAMED.get(name, name)))
