"""The operations as formulas: functions of SymPy expressions.

A row of an elementwise family takes expressions; any other row takes object arrays of expressions.
Every function takes the module `sympy` first, as in every table of lowerings.
"""

from __future__ import annotations

import operator
from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering, Table, same_names
from gradcheck_cli.engines.symbolic import matrices, networks
from gradcheck_cli.engines.symbolic.arrays import absolute, entrywise, own, reduce_along, the_row

_ROWS = """
    arange eye full full_like ones ones_like zeros zeros_like
    cumprod cumsum mean prod sum
    concatenate getitem one_hot stack take take_along_axis
    cross dot einsum kron matmul outer tensordot
    broadcast_to diag expand_dims flip moveaxis pad repeat reshape roll squeeze tile trace
    transpose tril triu
    """
"""Rows that make, move, multiply or add entries. They run unchanged on arrays of expressions."""

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


# Arithmetic


def _arithmetic(call: Any) -> Lowering:
    return lambda sympy, *xs: call(*xs)


def cbrt(sympy: Any, x: Any) -> Any:
    third = sympy.Rational(1, 3)
    return sympy.Piecewise((x**third, x >= 0), (-((-x) ** third), True))


floor = own(lambda functions: functions.Floor)

# Modified Bessel functions


def _scaled(order: int) -> Lowering:
    return lambda sympy, x: sympy.exp(-absolute(sympy, x)) * sympy.besseli(order, x)


# Exponentials and logarithms


def xlogy(sympy: Any, x: Any, y: Any) -> Any:
    return sympy.Piecewise((0, sympy.Eq(x, 0)), (x * sympy.log(y), True))


def bce(sympy: Any, p: Any, y: Any) -> Any:
    return -(xlogy(sympy, y, p) + xlogy(sympy, 1 - y, 1 - p))


# The gamma function and its relatives


lgamma = own(lambda functions: functions.LogGamma)


def betaln(sympy: Any, x: Any, y: Any) -> Any:
    return lgamma(sympy, x) + lgamma(sympy, y) - lgamma(sympy, x + y)


# Lengths of vectors


def norm(sympy: Any, x: Any, ord: float, axis: Any, keepdims: bool) -> Any:
    def length(xs: Any) -> Any:
        if ord == 2:
            return sympy.sqrt(sum(one**2 for one in xs))
        sizes = [absolute(sympy, one) for one in xs]
        if abs(ord) == float("inf"):
            return (maximum if ord > 0 else minimum)(sympy, *sizes)
        order = sympy.nsimplify(ord)
        return sum(size**order for size in sizes) ** (1 / order)

    return reduce_along(length, x, axis, keepdims)


# Sums, products and extremes over axes


def _extreme(choose: Any) -> Lowering:
    def extreme(sympy: Any, x: Any, axis: Any, keepdims: bool) -> Any:
        return reduce_along(lambda xs: choose(sympy, *xs), x, axis, keepdims)

    return extreme


def _logic(name: str) -> Lowering:
    def logic(sympy: Any, x: Any, axis: Any, keepdims: bool) -> Any:
        return reduce_along(lambda xs: getattr(sympy, name)(*xs), x, axis, keepdims)

    return logic


# Comparisons, logic, and the functions that choose between their arguments


_largest = own(lambda functions: functions.Largest)


def maximum(sympy: Any, *xs: Any) -> Any:
    return _largest(sympy, *xs) if len(xs) > 1 else xs[0]


def minimum(sympy: Any, *xs: Any) -> Any:
    return -maximum(sympy, *(-x for x in xs))


def clip(sympy: Any, x: Any, min: Any, max: Any) -> Any:
    """x bounded by min and max. At a bound the derivative is the inner one."""
    bounds = ([] if min is None else [(min, x < min)]) + ([] if max is None else [(max, x > max)])
    return sympy.Piecewise(*bounds, (x, True))


# Error functions and the normal distribution


def ndtr(sympy: Any, x: Any) -> Any:
    return sympy.erfc(-x / sympy.sqrt(2)) / 2


def entr(sympy: Any, x: Any) -> Any:
    positive = (-x * sympy.log(x), x > 0)
    return sympy.Piecewise(positive, (0, sympy.Eq(x, 0)), (-sympy.oo, True))


# Variance and standard deviation


def var(sympy: Any, x: Any, axis: Any, correction: float, keepdims: bool) -> Any:
    def spread(xs: Any) -> Any:
        mean = sum(xs) / sympy.Integer(len(xs))
        return sum((one - mean) ** 2 for one in xs) / (len(xs) - sympy.nsimplify(correction))

    return reduce_along(spread, x, axis, keepdims)


# Circular and hyperbolic functions


def sinc(sympy: Any, x: Any) -> Any:
    return sympy.Piecewise((1, sympy.Eq(x, 0)), (sympy.sin(sympy.pi * x) / (sympy.pi * x), True))


TABLE: Table = {
    **same_names(
        "",
        """
        sqrt exp log tanh erf erfc erfinv
        acos acosh asin asinh atan atan2 atanh cos cosh sin sinh tan
        """,
    ),
    **{name: the_row(name) for name in _ROWS.split()},
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
    "softsign": lambda sympy, x: x / (1 + absolute(sympy, x)),
    # Arithmetic
    "abs": absolute,
    "add": _arithmetic(operator.add),
    "cbrt": cbrt,
    "divide": _arithmetic(operator.truediv),
    "hypot": lambda sympy, x, y: sympy.sqrt(x**2 + y**2),
    "multiply": _arithmetic(operator.mul),
    "negative": _arithmetic(operator.neg),
    "power": _arithmetic(operator.pow),
    "reciprocal": lambda sympy, x: 1 / x,
    "remainder": lambda sympy, x, y: x - y * floor(sympy, x / y),
    "rsqrt": lambda sympy, x: 1 / sympy.sqrt(x),
    "square": lambda sympy, x: x**2,
    "subtract": _arithmetic(operator.sub),
    # Modified Bessel functions
    "i0": lambda sympy, x: sympy.besseli(0, x),
    "i0e": _scaled(0),
    "i1": lambda sympy, x: sympy.besseli(1, x),
    "i1e": _scaled(1),
    # Matrices
    "cholesky": matrices.cholesky,
    "det": matrices.det,
    "inv": matrices.inv,
    "logdet": matrices.logdet,
    "slogdet_logabs": matrices.slogdet_logabs,
    "slogdet_sign": matrices.slogdet_sign,
    "solve": matrices.solve,
    # Exponentials and logarithms
    "exp2": lambda sympy, x: 2**x,
    "expm1": lambda sympy, x: sympy.exp(x) - 1,
    "log10": lambda sympy, x: sympy.log(x) / sympy.log(10),
    "log1mexp": lambda sympy, x: sympy.log(1 - sympy.exp(-x)),
    "log1p": lambda sympy, x: sympy.log(1 + x),
    "log2": lambda sympy, x: sympy.log(x) / sympy.log(2),
    "logaddexp": lambda sympy, x, y: sympy.log(sympy.exp(x) + sympy.exp(y)),
    "sigmoid": lambda sympy, x: 1 / (1 + sympy.exp(-x)),
    "softplus": lambda sympy, x: sympy.log(1 + sympy.exp(x)),
    "xlog1py": lambda sympy, x, y: xlogy(sympy, x, 1 + y),
    "xlogy": xlogy,
    # The gamma function and its relatives
    "betaln": betaln,
    "digamma": lambda sympy, x: sympy.polygamma(0, x),
    "lgamma": lgamma,
    "polygamma": lambda sympy, x, n: sympy.polygamma(n, x),
    # Layers of networks
    "dropout": networks.dropout,
    "linear": lambda sympy, x, w, b: x @ w.mT + b,
    "scaled_dot_product_attention": networks.attention,
    # Losses
    "bce": networks.elementwise(bce),
    "bce_with_logits": networks.elementwise(networks.bce_with_logits),
    "hinge": networks.elementwise(networks.hinge),
    "huber": networks.elementwise(networks.huber),
    "kl_div": networks.elementwise(networks.kl_div),
    "l1": networks.elementwise(lambda sympy, x, y: absolute(sympy, x - y)),
    "mse": networks.elementwise(lambda sympy, x, y: (x - y) ** 2),
    # Normalised exponentials
    "log_softmax": networks.log_softmax,
    "logsumexp": networks.logsumexp,
    "softmax": networks.softmax,
    # Lengths of vectors
    "norm": norm,
    # Sums, products and extremes over axes
    "all": _logic("And"),
    "any": _logic("Or"),
    "max": _extreme(maximum),
    "min": _extreme(minimum),
    # Comparisons, logic, and the functions that choose between their arguments
    "ceil": own(lambda functions: functions.Ceil),
    "clip": clip,
    "equal": "Eq",
    "floor": floor,
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
    "round": own(lambda functions: functions.Round),
    "sign": lambda sympy, x: sympy.Piecewise((1, x > 0), (-1, x < 0), (0, True)),
    "where": lambda sympy, condition, x, y: sympy.Piecewise((x, condition), (y, True)),
    # Error functions and the normal distribution
    "entr": entr,
    "erfcx": lambda sympy, x: sympy.exp(x**2) * sympy.erfc(x),
    "log_ndtr": lambda sympy, x: sympy.log(ndtr(sympy, x)),
    "logit": lambda sympy, x: sympy.log(x / (1 - x)),
    "ndtr": ndtr,
    "ndtri": lambda sympy, x: sympy.sqrt(2) * sympy.erfinv(2 * x - 1),
    # Variance and standard deviation
    "std": lambda sympy, x, **keywords: entrywise(sympy.sqrt, var(sympy, x, **keywords)),
    "var": var,
    # Circular and hyperbolic functions
    "sinc": sinc,
}
