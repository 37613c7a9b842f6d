"""The oracle: a formula and its derivatives in mpmath, with 400 digits and none of gradcheck's
code.

A formula is a list of steps (`grammar.Formula`). Elementwise rows are evaluated by the functions of
`tests.reference_engine.samples.EXACT`, the others by the definitions below, on arrays of mpmath
numbers. Derivatives are central differences of the whole formula. The steps shrink while the
precision grows, until two precisions agree (`exactly.derivative`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np

from tests.fuzz.grammar import Formula, Step
from tests.reference_engine.exactly import TOO_MUCH, derivative
from tests.reference_engine.samples import EXACT

Array = np.ndarray[Any, Any]

DIGITS = 400
PRECISIONS = (1330, 2000, 4000, 8000, 16000)  # bits: 1330 are 400 digits
_WITHIN = -600  # bits: what differs by less of its size is a tie, at any of the precisions


class NotSmooth(ArithmeticError):
    """The formula has no derivative at the point, or none that differences could show: a kink, a
    tie, a jump, a pole, or the edge of a domain."""


class Unknown(ArithmeticError):
    """The oracle has no answer: mpmath cannot evaluate the formula, or no two precisions agree."""


_GIVES_UP = (ArithmeticError, ValueError, TypeError, NotImplementedError, mpmath.mp.NoConvergence)
"""What mpmath raises where it finds no number: its zeta does not converge far to the left."""


def value(formula: Formula, inputs: Mapping[str, Array], *, smooth: bool = True) -> Array:
    """The output as an array of mpmath numbers, in the caller's precision.

    Raises Unknown, and NotSmooth if the value is not finite or, with `smooth`, if a row has no
    derivative.
    """
    known = {name: _numbers(array) for name, array in inputs.items()}
    for step in formula.steps:
        arguments = [
            known[argument] if isinstance(argument, str) else _numbers(np.asarray(argument))
            for argument in step.arguments
        ]
        try:
            known[step.name] = _apply(step, arguments, smooth)
        except NotSmooth:
            raise
        except _GIVES_UP as error:
            raise Unknown(f"{step.row}: {type(error).__name__}: {error}") from error
    return known[formula.steps[-1].name]


def entry(formula: Formula, block: str, place: tuple[int, int]) -> Any:
    """One exact derivative. `block` is an input, and `place` the entries of the flattened output
    and of the flattened input. For second derivatives of a scalar output, `block` is "a.b", and
    `place` has the entries of a and b. Raises NotSmooth and Unknown."""
    if "." not in block:
        return mixed(formula, place[0], [(block, place[1])])
    first, _, second = block.partition(".")
    return mixed(formula, 0, [(first, place[0]), (second, place[1])])


def mixed(formula: Formula, row: int, by: Sequence[tuple[str, int]]) -> Any:
    """The derivative of entry `row` of the flattened output with respect to entries of inputs, each
    named by the input and its position in the flattened array. Raises NotSmooth and Unknown."""
    inputs = formula.inputs
    places = list(dict.fromkeys(by))
    xs = tuple(float(np.ravel(inputs[name])[k]) for name, k in places)
    orders = tuple(by.count(place) for place in places)

    def moved(*numbers: Any) -> Any:
        arrays = {name: _numbers(array).copy() for name, array in inputs.items()}
        for (name, k), number in zip(places, numbers, strict=True):
            arrays[name].reshape(-1)[k] = number
        return value(formula, arrays).reshape(-1)[row]

    smallest = min((abs(float(x)) for a in inputs.values() for x in np.ravel(a) if x), default=1.0)
    scales = tuple(min(1.0, smallest, *([abs(x)] if x else [])) for x in xs)
    try:
        return derivative(moved, xs, orders, scales, precisions=PRECISIONS, largest=TOO_MUCH)
    except (NotSmooth, Unknown):
        raise
    except (ArithmeticError, mpmath.mp.NoConvergence) as error:
        raise Unknown(str(error)) from error


def _numbers(array: Array) -> Array:
    if array.dtype == object:
        return array
    flat = [mpmath.mpf(float(x)) if array.dtype.kind == "f" else x for x in array.ravel().tolist()]
    made = np.empty(len(flat), object)
    made[:] = flat
    return made.reshape(array.shape)


def _apply(step: Step, arguments: Sequence[Array], smooth: bool) -> Array:
    if smooth and step.row in BREAKS and BREAKS[step.row](*arguments):
        raise NotSmooth(f"{step.row} has no derivative there")
    if step.row in STRUCTURED:
        result = _array(STRUCTURED[step.row](*arguments, **step.keywords))
        if any(isinstance(y, mpmath.mpc) for y in result.flat):
            raise NotSmooth(f"{step.row} is no real number there")
        return result
    exact = EXACT[step.row]

    def one(*xs: Any) -> Any:
        if smooth and not exact.domain(*xs):
            raise NotSmooth(f"{step.row} at {', '.join(mpmath.nstr(x, 8) for x in xs)}")
        y = mpmath.mpmathify(exact.function(*xs, **step.keywords))
        if not isinstance(y, mpmath.mpf) or not mpmath.isfinite(y):
            raise NotSmooth(f"{step.row} is no finite number there")
        return y

    return _each(one, *arguments)


def _array(result: Any) -> Array:
    if isinstance(result, np.ndarray):
        return result
    made = np.empty((), object)
    made[()] = result
    return made


def _each(function: Callable[..., Any], *arrays: Array) -> Array:
    return _array(np.frompyfunc(function, len(arrays), 1)(*arrays))


def _meet(a: Any, b: Any) -> bool:
    """Whether two numbers are equal up to rounding."""
    return bool(abs(a - b) <= mpmath.ldexp(max(abs(a), abs(b)), _WITHIN))


def _tied(x: Array) -> bool:
    return any(_meet(a, b) for a, b in pairwise(sorted(x.ravel())))


def _any_meet(a: Array, b: Array) -> bool:
    return bool(np.any(_each(_meet, a, b)))


def _is_nothing(x: Array) -> bool:
    return all(v == 0 for v in x.ravel())


def _is_singular(x: Array, *_: Any, **__: Any) -> bool:
    size = max(abs(v) for v in x.ravel())
    return bool(abs(_det(x)) <= mpmath.ldexp(size * size, _WITHIN))


BREAKS: dict[str, Callable[..., bool]] = {
    **dict.fromkeys(("max", "min", "median", "sort", "cummax", "cummin"), _tied),
    **dict.fromkeys(("maximum", "minimum", "greater"), _any_meet),
    **dict.fromkeys(("inv", "solve", "logdet", "slogdet_logabs"), _is_singular),
    "norm": _is_nothing,
    "std": lambda x: all(_meet(v, x.flat[0]) for v in x.flat),
}
"""Row -> whether it has no derivative at such arguments, beside what `samples.EXACT` says."""


def _sum(x: Array) -> Any:
    return mpmath.fsum(x.ravel())


def _product(x: Array) -> Any:
    return mpmath.fprod(x.ravel())


def _exp_shifted(x: Array) -> tuple[Any, Array]:
    top = max(x.ravel())
    return top, _each(lambda v: mpmath.exp(v - top), x)


def _softmax(x: Array) -> Array:
    _, e = _exp_shifted(x)
    return _array(e / _sum(e))


def _logsumexp(x: Array) -> Any:
    top, e = _exp_shifted(x)
    return top + mpmath.log(_sum(e))


def _norm(x: Array) -> Any:
    return mpmath.sqrt(_sum(x * x))


def _var(x: Array) -> Any:
    centre = _sum(x) / x.size
    return _sum((x - centre) ** 2) / x.size


def _median(x: Array) -> Any:
    flat = sorted(x.ravel())
    n = len(flat)
    return (flat[(n - 1) // 2] + flat[n // 2]) / 2


def _running(combine: Callable[[Any, Any], Any]) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        made = np.empty(x.shape, object)
        for i, v in enumerate(x):
            made[i] = v if i == 0 else combine(made[i - 1], v)
        return made

    return run


def _det(x: Array) -> Any:
    (a, b), (c, d) = x
    return a * d - b * c


def _inv(x: Array) -> Array:
    d = _det(x)
    (a, b), (c, e) = x
    return np.array([[e / d, -b / d], [-c / d, a / d]], object)


STRUCTURED: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "mean": lambda x: _sum(x) / x.size,
    "prod": _product,
    "max": lambda x: max(x.ravel()),
    "min": lambda x: min(x.ravel()),
    "logsumexp": _logsumexp,
    "softmax": _softmax,
    "log_softmax": lambda x: _array(x - _logsumexp(x)),
    "norm": _norm,
    "var": _var,
    "std": lambda x: mpmath.sqrt(_var(x)),
    "median": _median,
    "sort": lambda x: np.array(sorted(x), object),
    "flip": lambda x: x[::-1],
    "cumsum": _running(lambda a, b: a + b),
    "cumprod": _running(lambda a, b: a * b),
    "cummax": _running(max),
    "cummin": _running(min),
    "dot": lambda a, b: _sum(a * b),
    "cross": lambda a, b: np.array(
        [
            a[1] * b[2] - a[2] * b[1],
            a[2] * b[0] - a[0] * b[2],
            a[0] * b[1] - a[1] * b[0],
        ],
        object,
    ),
    "matmul": lambda a, b: np.array(
        [[a[i, 0] * b[0, j] + a[i, 1] * b[1, j] for j in range(2)] for i in range(2)], object
    ),
    "transpose": lambda x: x.T,
    "tril": lambda x: np.where(np.tril(np.ones(x.shape, bool)), x, mpmath.mpf(0)),
    "trace": lambda x: x[0, 0] + x[1, 1],
    "det": _det,
    "logdet": lambda x: mpmath.log(_det(x)),
    "slogdet_logabs": lambda x: mpmath.log(abs(_det(x))),
    "inv": _inv,
    "solve": lambda a, b: _inv(a).dot(b),
    "matrix_power": lambda x, n: reduce(lambda p, _: p.dot(x), range(n - 1), x),
    "greater": lambda a, b: _each(lambda x, y: bool(x > y), a, b),
    "where": lambda c, a, b: _each(lambda z, x, y: x if z else y, c, a, b),
}
"""Row -> its definition on arrays of mpmath numbers: vectors, 2x2 matrices and single numbers."""
