"""The operations as formulas: functions of SymPy expressions.

A row of an elementwise family takes expressions, any other object arrays of them. Every function
takes the module `sympy` first, as in every table of lowerings.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gradcheck_cli.engines.kit.lowerings import Lowering, Table
from gradcheck_cli.engines.symbolic.arrays import (
    along,
    each,
    matrices,
    reduced,
    the_row,
    transposed,
)

# Activation functions


# Klambauer et al., Self-Normalizing Neural Networks, 2017
_SELU_SCALE = "1.0507009873554804934193349852946"
_SELU_ALPHA = "1.6732632423543772848170429916717"


def elu(sympy: Any, x: Any, alpha: Any) -> Any:
    return sympy.Piecewise((x, x > 0), (alpha * (sympy.exp(x) - 1), True))


def selu(sympy: Any, x: Any) -> Any:
    return sympy.Rational(_SELU_SCALE) * elu(sympy, x, sympy.Rational(_SELU_ALPHA))


def gelu(sympy: Any, x: Any, approximate: bool) -> Any:
    if not approximate:
        return x * ndtr(sympy, x)
    inner = x + sympy.Rational("0.044715") * x**3
    return x * (1 + sympy.tanh(sympy.sqrt(2 / sympy.pi) * inner)) / 2


def softsign(sympy: Any, x: Any) -> Any:
    from gradcheck_cli.engines.symbolic.functions import Size

    return x / (1 + Size(x))


# Arithmetic


def _plain(call: Any) -> Lowering:
    def arithmetic(sympy: Any, *xs: Any) -> Any:
        return call(*xs)

    return arithmetic


def absolute(sympy: Any, x: Any) -> Any:
    from gradcheck_cli.engines.symbolic.functions import Size

    return Size(x)


def cbrt(sympy: Any, x: Any) -> Any:
    third = sympy.Rational(1, 3)
    return sympy.Piecewise((x**third, x >= 0), (-((-x) ** third), True))


def remainder(sympy: Any, x: Any, y: Any) -> Any:
    from gradcheck_cli.engines.symbolic.functions import Floor

    return x - y * Floor(x / y)


# Modified Bessel functions


def _scaled(order: int) -> Lowering:
    def scaled(sympy: Any, x: Any) -> Any:
        from gradcheck_cli.engines.symbolic.functions import Size

        return sympy.exp(-Size(x)) * sympy.besseli(order, x)

    return scaled


# Arrays that are made of nothing but their shape


_CREATION = "arange eye full full_like ones ones_like zeros zeros_like"


# Determinants of small matrices, by Berkowitz's division-free algorithm


def det(sympy: Any, x: Any) -> Any:
    return matrices(lambda m: sympy.Matrix(m).det(method="berkowitz"), x)


def slogdet_sign(sympy: Any, x: Any) -> Any:
    def sign(d: Any) -> Any:
        return sympy.Piecewise((1, d > 0), (-1, d < 0), (0, True))

    return matrices(lambda m: sign(sympy.Matrix(m).det(method="berkowitz")), x)


def slogdet_logabs(sympy: Any, x: Any) -> Any:
    from gradcheck_cli.engines.symbolic.functions import Size

    return matrices(lambda m: sympy.log(Size(sympy.Matrix(m).det(method="berkowitz"))), x)


# Exponentials and logarithms


def xlogy(sympy: Any, x: Any, y: Any) -> Any:
    return sympy.Piecewise((0, sympy.Eq(x, 0)), (x * sympy.log(y), True))


# The Cholesky factor of small matrices


def cholesky(sympy: Any, x: Any) -> Any:
    """Row by row; of the matrix only the lower triangle is read, as symmetric halves."""

    def factor(m: Any) -> Any:
        half = (m + m.T) / 2
        low = np.full(m.shape, sympy.Integer(0), dtype=object)
        for i in range(len(m)):
            for j in range(i + 1):
                rest = half[i, j] - sum(low[i, k] * low[j, k] for k in range(j))
                low[i, j] = sympy.sqrt(rest) if i == j else rest / low[j, j]
        return low

    return matrices(factor, x)


# The gamma function and its relatives


def lgamma(sympy: Any, x: Any) -> Any:
    from gradcheck_cli.engines.symbolic.functions import LogGamma

    return LogGamma(x)


def betaln(sympy: Any, x: Any, y: Any) -> Any:
    return lgamma(sympy, x) + lgamma(sympy, y) - lgamma(sympy, x + y)


# Entries by their places: the rows of the table themselves, on arrays of expressions


_INDEXING = "concatenate getitem one_hot stack take take_along_axis"


# Layers of networks


def dropout(sympy: Any, x: Any, mask: Any, rate: Any) -> Any:
    return each(lambda a, kept: sympy.Piecewise((a / (1 - rate), kept), (0, True)), x, mask)


def attention(
    sympy: Any, q: Any, k: Any, v: Any, is_causal: bool = False, scale: Any = None
) -> Any:
    scale = 1 / sympy.sqrt(q.shape[-1]) if scale is None else scale
    scores = (q @ transposed(k)) * scale
    if is_causal:
        for row in range(scores.shape[-2]):
            scores[..., row, row + 1 :] = -sympy.oo
    return softmax(sympy, scores) @ v


# Products of arrays


_LINALG = "cross dot einsum kron matmul outer tensordot"


# Losses


def _elementwise(term: Any) -> Lowering:
    """A loss whose terms come from pairs of entries; `reduction` says what becomes of them."""

    def loss(sympy: Any, x: Any, y: Any, reduction: str = "mean", **keywords: Any) -> Any:
        return reduced(each(lambda a, b: term(sympy, a, b, **keywords), x, y), reduction)

    return loss


def l1(sympy: Any, x: Any, y: Any) -> Any:
    from gradcheck_cli.engines.symbolic.functions import Size

    return Size(x - y)


def huber(sympy: Any, x: Any, y: Any, delta: Any) -> Any:
    size = l1(sympy, x, y)
    return sympy.Piecewise((size**2 / 2, size <= delta), (delta * (size - delta / 2), True))


def hinge(sympy: Any, x: Any, y: Any) -> Any:
    return sympy.Piecewise((1 - x * y, x * y < 1), (0, True))


def bce(sympy: Any, p: Any, y: Any) -> Any:
    return -(xlogy(sympy, y, p) + xlogy(sympy, 1 - y, 1 - p))


def bce_with_logits(sympy: Any, x: Any, y: Any) -> Any:
    return y * sympy.log(1 + sympy.exp(-x)) + (1 - y) * sympy.log(1 + sympy.exp(x))


def kl_div(sympy: Any, log_p: Any, q: Any) -> Any:
    return sympy.Piecewise((0, sympy.Eq(q, 0)), (q * (sympy.log(q) - log_p), True))


# Inverses and solutions of small linear systems, by Cramer's rule


def inv(sympy: Any, x: Any) -> Any:
    def inverse(m: Any) -> Any:
        whole = sympy.Matrix(m)
        return np.array((whole.adjugate() / whole.det(method="berkowitz")).tolist(), dtype=object)

    return matrices(inverse, x)


def solve(sympy: Any, x: Any, y: Any) -> Any:
    return inv(sympy, x) @ y


# Normalised exponentials


def logsumexp(sympy: Any, x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    return along(lambda xs: sympy.log(sum(map(sympy.exp, xs))), x, axis, keepdims)


def softmax(sympy: Any, x: Any, axis: int = -1) -> Any:
    return each(sympy.exp, x) / along(lambda xs: sum(map(sympy.exp, xs)), x, axis, True)


def log_softmax(sympy: Any, x: Any, axis: int = -1) -> Any:
    return x - logsumexp(sympy, x, axis, True)


# Lengths of vectors


def norm(sympy: Any, x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    from gradcheck_cli.engines.symbolic.functions import Size

    def length(xs: Any) -> Any:
        if ord == 2:
            return sympy.sqrt(sum(one**2 for one in xs))
        if abs(ord) == float("inf"):
            choose = maximum if ord > 0 else minimum
            return choose(sympy, *map(Size, xs))
        order = sympy.nsimplify(ord)
        return sum(Size(one) ** order for one in xs) ** (1 / order)

    return along(length, x, axis, keepdims)


# Sums, products and extremes over axes


def _extreme(choose: Any) -> Lowering:
    def extreme(sympy: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return along(lambda xs: choose(sympy, *xs), x, axis, keepdims)

    return extreme


def _logic(name: str) -> Lowering:
    def logic(sympy: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return along(lambda xs: getattr(sympy, name)(*xs), x, axis, keepdims)

    return logic


# Comparisons, logic, and the functions that choose between their arguments


def maximum(sympy: Any, *xs: Any) -> Any:
    from gradcheck_cli.engines.symbolic.functions import Largest

    return Largest(*xs) if len(xs) > 1 else xs[0]


def minimum(sympy: Any, *xs: Any) -> Any:
    return -maximum(sympy, *(-x for x in xs))


def clip(sympy: Any, x: Any, min: Any = None, max: Any = None) -> Any:
    """What lies beyond a bound is the bound; at a bound the derivative is the inner one."""
    bounds = ([] if min is None else [(min, x < min)]) + ([] if max is None else [(max, x > max)])
    return sympy.Piecewise(*bounds, (x, True))


def _stepwise(name: str) -> Lowering:
    def step(sympy: Any, x: Any) -> Any:
        from gradcheck_cli.engines.symbolic import functions

        return functions.STEPS[name](x)

    return step


# Operations that move entries about: the rows of the table, on arrays of expressions


_SHAPE = (
    "broadcast_to diag expand_dims flip moveaxis pad repeat reshape roll squeeze tile trace "
    "transpose tril triu"
)


# Error functions and the normal distribution


def ndtr(sympy: Any, x: Any) -> Any:
    return sympy.erfc(-x / sympy.sqrt(2)) / 2


def entr(sympy: Any, x: Any) -> Any:
    positive = (-x * sympy.log(x), x > 0)
    return sympy.Piecewise(positive, (0, sympy.Eq(x, 0)), (-sympy.oo, True))


# Variance and standard deviation


def var(sympy: Any, x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    def spread(xs: Any) -> Any:
        mean = sum(xs) / sympy.Integer(len(xs))
        return sum((one - mean) ** 2 for one in xs) / (len(xs) - sympy.nsimplify(correction))

    return along(spread, x, axis, keepdims)


# Circular and hyperbolic functions


def sinc(sympy: Any, x: Any) -> Any:
    return sympy.Piecewise((1, sympy.Eq(x, 0)), (sympy.sin(sympy.pi * x) / (sympy.pi * x), True))


TABLE: Table = {
    # Activation functions
    "elu": elu,
    "gelu": gelu,
    "hardtanh": clip,
    "leaky_relu": lambda sympy, x, negative_slope: sympy.Piecewise(
        (x, x > 0), (negative_slope * x, True)
    ),
    "log_sigmoid": lambda sympy, x: -sympy.log(1 + sympy.exp(-x)),
    "mish": lambda sympy, x: x * sympy.tanh(sympy.log(1 + sympy.exp(x))),
    "relu6": lambda sympy, x: sympy.Piecewise((0, x <= 0), (x, x < 6), (6, True)),
    "selu": selu,
    "silu": lambda sympy, x: x / (1 + sympy.exp(-x)),
    "softsign": softsign,
    # Arithmetic
    "abs": absolute,
    "add": _plain(operator.add),
    "cbrt": cbrt,
    "divide": _plain(operator.truediv),
    "hypot": lambda sympy, x, y: sympy.sqrt(x**2 + y**2),
    "multiply": _plain(operator.mul),
    "negative": _plain(operator.neg),
    "power": _plain(operator.pow),
    "reciprocal": lambda sympy, x: 1 / x,
    "remainder": remainder,
    "rsqrt": lambda sympy, x: 1 / sympy.sqrt(x),
    "sqrt": "sqrt",
    "square": lambda sympy, x: x**2,
    "subtract": _plain(operator.sub),
    # Modified Bessel functions
    "i0": lambda sympy, x: sympy.besseli(0, x),
    "i0e": _scaled(0),
    "i1": lambda sympy, x: sympy.besseli(1, x),
    "i1e": _scaled(1),
    # Arrays that are made of nothing but their shape
    **{name: the_row(name) for name in _CREATION.split()},
    # Running sums and products
    **{name: the_row(name) for name in ("cumprod", "cumsum")},
    # Determinants of small matrices, by Berkowitz's division-free algorithm
    "det": det,
    "logdet": lambda sympy, x: matrices(
        lambda m: sympy.log(sympy.Matrix(m).det(method="berkowitz")), x
    ),
    "slogdet_logabs": slogdet_logabs,
    "slogdet_sign": slogdet_sign,
    # Exponentials and logarithms
    "exp": "exp",
    "exp2": lambda sympy, x: 2**x,
    "expm1": lambda sympy, x: sympy.exp(x) - 1,
    "log": "log",
    "log10": lambda sympy, x: sympy.log(x) / sympy.log(10),
    "log1mexp": lambda sympy, x: sympy.log(1 - sympy.exp(-x)),
    "log1p": lambda sympy, x: sympy.log(1 + x),
    "log2": lambda sympy, x: sympy.log(x) / sympy.log(2),
    "logaddexp": lambda sympy, x, y: sympy.log(sympy.exp(x) + sympy.exp(y)),
    "sigmoid": lambda sympy, x: 1 / (1 + sympy.exp(-x)),
    "softplus": lambda sympy, x: sympy.log(1 + sympy.exp(x)),
    "tanh": "tanh",
    "xlog1py": lambda sympy, x, y: xlogy(sympy, x, 1 + y),
    "xlogy": xlogy,
    # The Cholesky factor of small matrices
    "cholesky": cholesky,
    # The gamma function and its relatives
    "betaln": betaln,
    "digamma": lambda sympy, x: sympy.polygamma(0, x),
    "lgamma": lgamma,
    "polygamma": lambda sympy, x, n: sympy.polygamma(n, x),
    # Entries by their places: the rows of the table themselves, on arrays of expressions
    **{name: the_row(name) for name in _INDEXING.split()},
    # Layers of networks
    "dropout": dropout,
    "linear": lambda sympy, x, w, b: x @ transposed(w) + b,
    "scaled_dot_product_attention": attention,
    # Products of arrays
    **{name: the_row(name) for name in _LINALG.split()},
    # Losses
    "bce": _elementwise(bce),
    "bce_with_logits": _elementwise(bce_with_logits),
    "hinge": _elementwise(hinge),
    "huber": _elementwise(huber),
    "kl_div": _elementwise(kl_div),
    "l1": _elementwise(l1),
    "mse": _elementwise(lambda sympy, x, y: (x - y) ** 2),
    # Inverses and solutions of small linear systems, by Cramer's rule
    "inv": inv,
    "solve": solve,
    # Normalised exponentials
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "softmax": softmax,
    # Lengths of vectors
    "norm": norm,
    # Sums, products and extremes over axes
    "all": _logic("And"),
    "any": _logic("Or"),
    "max": _extreme(maximum),
    "min": _extreme(minimum),
    **{name: the_row(name) for name in ("mean", "prod", "sum")},
    # Comparisons, logic, and the functions that choose between their arguments
    "ceil": _stepwise("ceil"),
    "clip": clip,
    "equal": "Eq",
    "floor": _stepwise("floor"),
    "greater": "Gt",
    "greater_equal": "Ge",
    "less": "Lt",
    "less_equal": "Le",
    "logical_and": "And",
    "logical_not": "Not",
    "logical_or": "Or",
    "maximum": maximum,
    "minimum": minimum,
    "not_equal": "Ne",
    "relu": lambda sympy, x: sympy.Piecewise((x, x > 0), (0, True)),
    "round": _stepwise("round"),
    "sign": lambda sympy, x: sympy.Piecewise((1, x > 0), (-1, x < 0), (0, True)),
    "where": lambda sympy, condition, x, y: sympy.Piecewise((x, condition), (y, True)),
    # Operations that move entries about: the rows of the table, on arrays of expressions
    **{name: the_row(name) for name in _SHAPE.split()},
    # Error functions and the normal distribution
    "entr": entr,
    "erf": "erf",
    "erfc": "erfc",
    "erfcx": lambda sympy, x: sympy.exp(x**2) * sympy.erfc(x),
    "erfinv": "erfinv",
    "log_ndtr": lambda sympy, x: sympy.log(ndtr(sympy, x)),
    "logit": lambda sympy, x: sympy.log(x / (1 - x)),
    "ndtr": ndtr,
    "ndtri": lambda sympy, x: sympy.sqrt(2) * sympy.erfinv(2 * x - 1),
    # Variance and standard deviation
    "std": lambda sympy, x, **keywords: each(sympy.sqrt, var(sympy, x, **keywords)),
    "var": var,
    # Circular and hyperbolic functions
    **{name: name for name in ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh")},
    **{name: name for name in ("cos", "cosh", "sin", "sinh", "tan")},
    "sinc": sinc,
}
