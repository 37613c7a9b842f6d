"""JAX's primitives in exact arithmetic, by name: called with their operands in order and their
parameters by name.

What is not here runs its float64 kernel. JAX is not needed to read this.
"""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from gradcheck_cli.engines.exact_kernels import Kernel, as_numbers, row

MOVES = frozenset(
    [
        *("reshape", "squeeze", "expand_dims", "transpose", "broadcast_in_dim", "slice", "rev"),
        *("dynamic_slice", "dynamic_update_slice", "concatenate", "pad", "gather", "split", "tile"),
        *("copy", "copy_p", "stop_gradient", "optimization_barrier", "scatter"),
    ]
)
"""They take numbers to other places, and put zeros where none come to."""

HANDED_ON = frozenset(
    ["neg", "abs", "max", "min", "reduce_max", "reduce_min", "clamp", "select_n", "sort"]
)
"""They round nothing either, but are more than a change of places."""


def _plain(name: str) -> Kernel:
    return lambda *xs, **how: row(name)(*xs)


def _numbers(name: str) -> Kernel:
    """A row of numbers, where a mask counts as numbers too."""
    return lambda *xs, **how: row(name)(*map(as_numbers, xs))


def _reduction(name: str) -> Kernel:
    return lambda x, axes, **how: row(name)(as_numbers(x), axis=tuple(axes))


def _running(name: str) -> Kernel:
    def kernel(x: Any, axis: int, reverse: bool, **how: Any) -> Any:
        turned = row("flip")(x, axis=axis) if reverse else x
        found = row(name)(turned, axis=axis)
        return row("flip")(found, axis=axis) if reverse else found

    return kernel


def _logical(name: str) -> Kernel:
    def kernel(*xs: Any, **how: Any) -> Any:
        if any(np.asarray(x).dtype != np.bool_ for x in xs):
            raise TypeError("only the operations on booleans are restated")
        return row(name)(*xs)

    return kernel


def _select(chosen: Any, *cases: Any, **how: Any) -> Any:
    if len(cases) != 2:
        raise TypeError("only a choice of two is restated")
    return row("where")(np.asarray(chosen).astype(np.bool_), cases[1], cases[0])


def _clamp(low: Any, x: Any, high: Any, **how: Any) -> Any:
    return row("minimum")(row("maximum")(x, low), high)


def _dot_general(a: Any, b: Any, dimension_numbers: Any, **how: Any) -> Any:
    """Contracted axes share a letter, batched ones too and come first."""
    (summed_a, summed_b), (batch_a, batch_b) = dimension_numbers
    letters = iter(string.ascii_letters)
    first = [next(letters) for _ in range(a.ndim)]
    second = [next(letters) for _ in range(b.ndim)]
    for mine, theirs in zip((*summed_a, *batch_a), (*summed_b, *batch_b), strict=True):
        second[theirs] = first[mine]
    batch = [first[i] for i in batch_a]
    rest = [c for i, c in enumerate(first) if i not in (*summed_a, *batch_a)]
    rest += [c for i, c in enumerate(second) if i not in (*summed_b, *batch_b)]
    subscripts = f"{''.join(first)},{''.join(second)}->{''.join((*batch, *rest))}"
    return row("einsum")(as_numbers(a), as_numbers(b), subscripts=subscripts)


def _convert(x: Any, new_dtype: Any, **how: Any) -> Any:
    """Into a floating dtype: the rounding is the operation's own."""
    if np.dtype(new_dtype).kind in "biu":
        raise TypeError("only conversions into floating dtypes are restated")
    return as_numbers(x)


def _finite(x: Any, **how: Any) -> Any:
    from gradcheck_cli.engines.shadow import is_finite

    return is_finite(getattr(x, "value", x))


def _triangular_solve(a: Any, b: Any, **how: Any) -> Any:
    if not how["left_side"] or how["unit_diagonal"]:
        raise TypeError("only x in a x = b is restated")
    lower, turned = how["lower"], how["transpose_a"]
    if turned:
        a = row("moveaxis")(a, source=-1, destination=-2)
    return row("triangular_solve")(a, b, lower=lower != turned)


_SAME_NAME = (
    *("exp", "exp2", "expm1", "log", "log1p", "sqrt", "rsqrt", "cbrt", "square", "abs", "sign"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh"),
    *("acosh", "atanh", "erf", "erfc", "lgamma", "digamma", "floor", "ceil"),
)
_RENAMED = {
    "logistic": "sigmoid",
    "erf_inv": "erfinv",
    "max": "maximum",
    "min": "minimum",
    "pow": "power",
    "bessel_i0e": "i0e",
    "bessel_i1e": "i1e",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "neg": "negative",
}

KERNELS: dict[str, Kernel] = {
    **{name: _plain(name) for name in _SAME_NAME},
    **{name: _plain(ours) for name, ours in _RENAMED.items()},
    **{"add": _numbers("add"), "add_any": _numbers("add"), "sub": _numbers("subtract")},
    **{"mul": _numbers("multiply"), "div": _numbers("divide")},
    **{f"reduce_{name}": _reduction(name) for name in ("sum", "max", "min", "prod")},
    **{"cumsum": _running("cumsum"), "cumprod": _running("cumprod")},
    **{
        "and": _logical("logical_and"),
        "or": _logical("logical_or"),
        "not": _logical("logical_not"),
    },
    "integer_pow": lambda x, y: row("power")(x, y),
    "select_n": _select,
    "clamp": _clamp,
    "convert_element_type": _convert,
    "dot_general": _dot_general,
    "is_finite": _finite,
    "triangular_solve": _triangular_solve,
}
