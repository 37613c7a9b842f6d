"""Arrays of `flint.arb`, numbers with an error bound, on which the enclosures work.

Overlapping balls have no order: an operation that must decide raises Undecided, and the caller
raises the precision. Exact numbers are compared exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb, ctx

from reference_engine.arithmetic.constants import Constant
from reference_engine.traced import Traced, Value

Objects = np.ndarray[Any, np.dtype[Any]]


class Undecided(ArithmeticError):
    """Balls overlap although an operation must know which number is larger. More bits may help."""


class NotInBalls(NotImplementedError):
    """An operation has no enclosure. `row` is its name, `reason` says why."""

    def __init__(self, row: str, reason: str) -> None:
        super().__init__(f"{row} has no enclosure: {reason}")
        self.row = row
        self.reason = reason


class DecidedByRounding(NotInBalls):
    """An operation has another value and another derivative, depending on how its input is
    rounded."""


def objects(values: Any) -> Objects:
    """An array of `arb` with the same shape. Nothing is rounded."""
    if type(values) in (int, float):
        return scalar_object(arb(values))
    values = np.asarray(values)
    if values.dtype == object:
        flat = [x if type(x) is arb else _number(x) for x in values.ravel()]
    elif values.dtype.kind in "biu":
        flat = [arb(x) for x in values.ravel().tolist()]
    else:  # every format of up to 64 bits fits into float64
        flat = [arb(x) for x in values.astype(np.float64).ravel().tolist()]
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(values.shape)


def scalar_object(x: Any) -> Objects:
    """One number as an array without axes."""
    made = np.empty((), dtype=object)
    made[()] = x
    return made


def _number(x: Any) -> Any:
    if isinstance(x, arb):
        return x
    return arb(int(x) if isinstance(x, (int, np.integer, np.bool_)) else float(x))


def unwrap(x: Value) -> Objects:
    """The array of `arb` that an enclosure works on. Booleans are returned unchanged."""
    if isinstance(x, Constant):
        return scalar_object(x.ball())
    if isinstance(x, Traced):  # a Ball: what stands above balls was taken off before
        return x.value
    if type(x) in (int, float):
        return scalar_object(arb(x))
    x = np.asarray(x)
    return x if x.dtype == np.bool_ else objects(x)


class precision:
    """Inside the block, results of operations are rounded to this many bits."""

    __slots__ = ("_before", "_bits")

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def __enter__(self) -> None:
        self._before = ctx.prec
        ctx.prec = self._bits

    def __exit__(self, *raised: object) -> None:
        ctx.prec = self._before
