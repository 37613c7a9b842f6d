"""Programs and their derivatives in mpmath, with 150 digits, against which the truth is tested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mpmath as mp
import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.program import CONSTANT, INPUT, Program
from gradcheck_cli.truth.plain import inlined

DIGITS = 150
# Relative to the entry: the truncation of a central difference is then 1e-60 of a function that
# varies on the entry's own scale, and its rounding 1e-120.
STEP = mp.mpf(10) ** -30

Number = Any  # an mpf, or an object array of them


def _elementwise(function: Callable[..., Any]) -> Callable[..., Number]:
    made = np.frompyfunc(function, function.__code__.co_argcount, 1)
    return lambda *args, **_: made(*args)


def _power(x: Any, y: Any) -> Any:
    return mp.mpf(1) if y == 0 else mp.power(x, y)


def _log_sum_exp(x: Number, axis: Any = -1, keepdims: bool = False) -> Number:
    total = np.sum(_elementwise(lambda v: mp.exp(v))(x), axis=axis, keepdims=keepdims)
    return _elementwise(lambda v: mp.log(v))(total)


def _norm(x: Number, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Number:
    assert ord == 2
    return _elementwise(lambda v: mp.sqrt(v))(np.sum(x * x, axis=axis, keepdims=keepdims))


def _log_softmax(x: Number, axis: int = -1) -> Number:
    return x - _log_sum_exp(x, axis, True)


OPS: dict[str, Callable[..., Number]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "power": _elementwise(_power),
    "negative": lambda x: -x,
    "square": lambda x: x * x,
    "stop_gradient": lambda x: x,
    "sqrt": _elementwise(lambda v: mp.sqrt(v)),
    "exp": _elementwise(lambda v: mp.exp(v)),
    "expm1": _elementwise(lambda v: mp.expm1(v)),
    "log": _elementwise(lambda v: mp.log(v)),
    "log1p": _elementwise(lambda v: mp.log(1 + v)),
    "sin": _elementwise(lambda v: mp.sin(v)),
    "cos": _elementwise(lambda v: mp.cos(v)),
    "tan": _elementwise(lambda v: mp.tan(v)),
    "tanh": _elementwise(lambda v: mp.tanh(v)),
    "sigmoid": _elementwise(lambda v: 1 / (1 + mp.exp(-v))),
    "softplus": _elementwise(lambda v: mp.log(1 + mp.exp(v))),
    "erf": _elementwise(lambda v: mp.erf(v)),
    "relu": _elementwise(lambda v: v if v > 0 else 0 * v),
    "abs": _elementwise(lambda v: abs(v)),
    "maximum": _elementwise(lambda x, y: max(x, y)),
    "minimum": _elementwise(lambda x, y: min(x, y)),
    "sum": lambda x, axis=None, keepdims=False: np.sum(x, axis=axis, keepdims=keepdims),
    "mean": lambda x, axis=None, keepdims=False: np.mean(x, axis=axis, keepdims=keepdims),
    "prod": lambda x, axis=None, keepdims=False: np.prod(x, axis=axis, keepdims=keepdims),
    "matmul": lambda x, y: x @ y,
    "getitem": lambda x, index: x[index],
    "reshape": lambda x, shape: np.reshape(x, shape),
    "logsumexp": _log_sum_exp,
    "log_softmax": _log_softmax,
    "softmax": lambda x, axis=-1: _elementwise(lambda v: mp.exp(v))(_log_softmax(x, axis)),
    "norm": _norm,
}


def _exactly(values: Any) -> Number:
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return array
    return np.frompyfunc(mp.mpf, 1, 1)(array.astype(np.float64))


def _spread(values: Mapping[str, Array]) -> int:
    """Twice the number of digits between the smallest and the largest number of the inputs and
    1."""
    sizes = [np.abs(np.asarray(v, dtype=np.float64)).reshape(-1) for v in values.values()]
    size = np.concatenate([*sizes, [1.0]])
    exponents = np.log10(size[(size > 0) & np.isfinite(size)])
    return 2 * int(np.ceil(np.max(exponents) - np.min(exponents)))


class Exact:
    """A program in 150 digits, with its floating constants rounded to `rounding`."""

    def __init__(self, program: Program, rounding: str = "float64") -> None:
        self._program = inlined(program)
        self._fmt = FORMATS[rounding]

    def __call__(self, values: Mapping[str, Number]) -> Number:
        slots: list[Any] = []
        for node in self._program.nodes:
            if node.op == INPUT:
                slots.append(values[str(node.name)])
            elif node.op == CONSTANT:
                floating = node.kind == "float"
                number = self._fmt.round(float(node.value or 0)) if floating else node.value
                slots.append(_exactly(number))
            else:
                slots.append(OPS[node.op](*[slots[i] for i in node.args], **node.keywords))
        return slots[self._program.output]

    def derivative(self, values: Mapping[str, Array], name: str) -> Array:
        """The Jacobian for one input, (rows, columns), as an object array of mpf."""
        with mp.workdps(DIGITS + _spread(values)):
            return self._jacobian({n: _exactly(v) for n, v in values.items()}, name)

    def second(self, values: Mapping[str, Array], first: str, second: str) -> Array:
        """The Hessian block "first.second" of the scalar output, (columns, columns)."""
        with mp.workdps(DIGITS + _spread(values)):
            exact = {n: _exactly(v) for n, v in values.items()}

            def gradient(at: Mapping[str, Number]) -> Number:
                return self._jacobian(at, first).reshape(-1)

            return self._jacobian(exact, second, gradient)

    def bend(self, values: Mapping[str, Array], name: str) -> Number:
        """The difference of the slopes on both sides of a scalar input, for a scalar output."""
        with mp.workdps(DIGITS + _spread(values)):
            exact = {n: _exactly(v) for n, v in values.items()}
            here = exact[name]
            h = _step(here)
            above, below = (self({**exact, name: here + step}) for step in (h, -h))
            return abs(above - 2 * self(exact) + below) / h

    def _jacobian(
        self,
        values: Mapping[str, Number],
        name: str,
        function: Callable[[Mapping[str, Number]], Number] | None = None,
    ) -> Array:
        function = function or self
        start = np.asarray(values[name], dtype=object)
        columns = []
        for flat in range(start.size):
            here = start.reshape(-1)[flat]
            h = _step(here)
            sides = []
            for step in (h, -h):
                there = start.copy()
                there.reshape(-1)[flat] = here + step
                sides.append(np.asarray(function({**values, name: there}), dtype=object))
            columns.append(np.asarray((sides[0] - sides[1]) / (2 * h), dtype=object).reshape(-1))
        return np.stack(columns, axis=1)


def _step(here: Number) -> Number:
    return STEP * (abs(here) if here != 0 else mp.mpf(10) ** -40)
