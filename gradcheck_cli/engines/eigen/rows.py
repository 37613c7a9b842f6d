"""The operations in C++, as a user would write them over `Eigen::AutoDiffScalar`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# {0}, {1} are the arguments: of the type T, or numbers of the type R if they are constants of the
# formula. Keywords that are numbers are written by name.
_FUNCTIONS = "abs acos asin cos cosh exp log sin sinh sqrt tan tanh"
_ELEMENTWISE = {
    **{name: f"{name}({{0}})" for name in _FUNCTIONS.split()},
    "add": "{0} + {1}",
    "atan": "atan2({0}, T(R(1)))",
    "atan2": "atan2(T({0}), T({1}))",
    "ceil": "T(R(std::ceil({0}.value())))",
    "divide": "{0} / {1}",
    "dropout": "{1} ? T({0} / (R(1) - {rate})) : T(R(0))",
    "elu": "{0} > R(0) ? T({0}) : T({alpha} * (exp({0}) - R(1)))",
    "entr": "{0} > R(0) ? T(-{0} * log({0})) "
    ": T({0} == R(0) ? R(0) : -std::numeric_limits<R>::infinity())",
    "equal": "{0} == {1}",
    "exp2": "exp({0} * R(0.693147180559945309417232121458176568))",
    "floor": "T(R(std::floor({0}.value())))",
    "greater": "{0} > {1}",
    "greater_equal": "{0} >= {1}",
    "hypot": "sqrt(T({0} * {0} + {1} * {1}))",
    "leaky_relu": "{0} > R(0) ? T({0}) : T({negative_slope} * {0})",
    "less": "{0} < {1}",
    "less_equal": "{0} <= {1}",
    "log1mexp": "log(T(R(1) - exp(-{0})))",
    "log10": "log({0}) / R(2.30258509299404568401799145468436421)",
    "log2": "log({0}) / R(0.693147180559945309417232121458176568)",
    "log_sigmoid": "-log(T(R(1) + exp(-{0})))",
    "logaddexp": "log(T(exp({0}) + exp({1})))",
    "logical_and": "{0} && {1}",
    "logical_not": "!{0}",
    "logical_or": "{0} || {1}",
    "logit": "log(T({0} / (R(1) - {0})))",
    "maximum": "max({0}, {1})",
    "minimum": "min({0}, {1})",
    "mish": "{0} * tanh(T(log(T(R(1) + exp({0})))))",
    "multiply": "{0} * {1}",
    "negative": "-{0}",
    "not_equal": "{0} != {1}",
    "reciprocal": "R(1) / {0}",
    "relu": "max({0}, R(0))",
    "relu6": "min(T(max({0}, R(0))), R(6))",
    "remainder": "{0} - {1} * R(std::floor(T({0} / {1}).value()))",
    "round": "T(R(std::nearbyint({0}.value())))",
    "rsqrt": "R(1) / sqrt({0})",
    "selu": "{0} > R(0) ? T({0} * R(1.05070098735548049341933498)) "
    ": T((exp({0}) - R(1)) * R(1.75809934084737685994024880))",
    "sigmoid": "R(1) / (R(1) + exp(-{0}))",
    "sign": "T(R(({0}.value() > 0) - ({0}.value() < 0)))",
    "silu": "{0} / (R(1) + exp(-{0}))",
    "sinc": "{0} == R(0) ? T(R(1)) : T(sin(T({0} * R(EIGEN_PI))) / ({0} * R(EIGEN_PI)))",
    "softplus": "log(T(R(1) + exp({0})))",
    "softsign": "{0} / (R(1) + abs({0}))",
    "square": "{0} * {0}",
    "stop_gradient": "T({0}.value())",
    "subtract": "{0} - {1}",
    "where": "{0} ? T({1}) : T({2})",
}
ELEMENTWISE: Mapping[str, str] = MappingProxyType(_ELEMENTWISE)

_MOVED = (
    "broadcast_to concatenate diag expand_dims flip getitem moveaxis repeat reshape roll squeeze "
    "stack take take_along_axis tile transpose tril triu"
)
MOVED = frozenset(_MOVED.split())
"""Rows that only rearrange the entries of their arguments, or insert zeros."""

FOLDED: Mapping[str, str] = MappingProxyType(
    {
        "logsumexp": "logsumexp<T>",
        "max": "largest<T>",
        "mean": "sum<T>",
        "min": "smallest<T>",
        "prod": "prod<T>",
        "sum": "sum<T>",
    }
)
"""Rows that reduce the entries along axes to one, and the function that does it."""

ALONG_AXIS: Mapping[str, str] = MappingProxyType(
    {
        "cumprod": "running<T>({0}, {1}, [](const T& a, const T& b) -> T {{ return a * b; }})",
        "cumsum": "running<T>({0}, {1}, [](const T& a, const T& b) -> T {{ return a + b; }})",
        "log_softmax": "log_softmax<T>({0}, {1})",
        "softmax": "softmax<T>({0}, {1})",
    }
)
"""Rows that keep the entries along an axis, and the expressions for an array of {1} entries in each
line along it."""

LOSSES: Mapping[str, str] = MappingProxyType(
    {
        "bce": "-({1} * log(T({0})) + (R(1) - {1}) * log(T(R(1) - {0})))",
        "bce_with_logits": "{1} * log(T(R(1) + exp(-{0}))) "
        "+ (R(1) - {1}) * log(T(R(1) + exp({0})))",
        "hinge": "max(T(R(1) - {0} * {1}), R(0))",
        "huber": "abs(T({0} - {1})) <= {delta} ? T(({0} - {1}) * ({0} - {1}) / R(2)) "
        ": T({delta} * (abs(T({0} - {1})) - {delta} / R(2)))",
        "kl_div": "{1} == R(0) ? T(R(0)) : T({1} * (log(T({1})) - {0}))",
        "l1": "abs(T({0} - {1}))",
        "mse": "({0} - {1}) * ({0} - {1})",
    }
)
"""Losses, and the expressions of their terms."""

_FACTORED = "cholesky det inv logdet slogdet_logabs slogdet_sign solve triangular_solve"
MATRICES = frozenset(_FACTORED.split())
"""Rows that are functions of `gradcheck_matrices.hpp`."""

_OTHERS = "clip cross dot gelu hardtanh linear matmul norm one_hot outer pad power std trace var"
OTHERS = frozenset(_OTHERS.split())
"""Rows that `operations` composes."""

_MADE = "arange eye full full_like ones ones_like zeros zeros_like"
MADE = frozenset(_MADE.split())
"""Rows that depend on no numbers of their arguments, and so are constants."""

TABLE = frozenset({*ELEMENTWISE, *MOVED, *FOLDED, *ALONG_AXIS, *LOSSES, *MATRICES, *OTHERS, *MADE})

_NONE = "acosh asinh atanh cbrt digamma erf erfc expm1 lgamma log1p"
NONE = {name: f"Eigen::AutoDiffScalar has no {name}" for name in _NONE.split()}
"""Why some rows are missing."""
