"""Evaluates formulas to numbers that are correct to the last digit of any dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array

# Bits. Two consecutive precisions must agree. A result that does not settle is returned as the last
# precision gave it.
_PRECISIONS = (128, 256, 512, 1024, 2048, 4096, 8192)
_AGREED = 2.0**-70  # relative: 17 bits more than float64 has
_NOTHING = "1e-400"  # far below every float64: a result that cancels down to this is zero
_NO_NUMBER = (ArithmeticError, ValueError, TypeError)  # a pole; a comparison of complex numbers


class Numbers:
    """Compiled expressions, called with the values of their symbols.

    They are evaluated with more and more digits until the results agree, so that no rounding error
    remains. A result that is not a real number (a pole, the logarithm of a negative number) is nan.
    """

    def __init__(self, symbols: Sequence[Any], expressions: Sequence[Any]) -> None:
        self._symbols = list(symbols)
        self._expressions = list(expressions)
        self._together = self._compiled(self._expressions)
        self._apart: list[Callable[..., Any]] | None = None

    def _compiled(self, expressions: Any) -> Callable[..., Any]:
        import sympy

        from gradcheck_cli.engines.symbolic.functions import NUMERIC

        modules = [NUMERIC, "mpmath"]
        # dummify: an input may be called exp
        return sympy.lambdify(self._symbols, expressions, modules, dummify=True, cse=True)

    def __call__(self, values: Sequence[float]) -> list[Any]:
        """The values as mpmath numbers."""
        import mpmath

        before: list[Any] = []
        now: list[Any] = []
        for bits in _PRECISIONS:
            with mpmath.workprec(bits):
                now = [_real(x) for x in self._at([mpmath.mpf(v) for v in values])]
                if before and all(map(_agrees, before, now)):
                    break
            before = now
        return [mpmath.mpf(0) if abs(x) < mpmath.mpf(_NOTHING) else x for x in now]

    def _at(self, values: Sequence[Any]) -> Sequence[Any]:
        try:
            return self._together(*values)
        except _NO_NUMBER:
            if self._apart is None:
                self._apart = [self._compiled(expression) for expression in self._expressions]
            return [_guarded(call, values) for call in self._apart]


def _guarded(call: Callable[..., Any], values: Sequence[Any]) -> Any:
    try:
        return call(*values)
    except _NO_NUMBER:
        return float("nan")


def _real(x: Any) -> Any:
    import mpmath

    number = mpmath.mpmathify(x)
    if isinstance(number, mpmath.mpc):
        return number.real if number.imag == 0 else mpmath.nan
    return number


def _agrees(before: Any, now: Any) -> bool:
    import mpmath

    if mpmath.isfinite(before) and mpmath.isfinite(now):
        largest = max(abs(before), abs(now))
        small = largest < mpmath.mpf(_NOTHING)
        return bool(small or abs(now - before) <= _AGREED * largest)
    return bool(mpmath.isnan(before) and mpmath.isnan(now)) or bool(before == now)


def products(left: Sequence[Sequence[float]], matrix: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Rows of float64 times a matrix of mpmath numbers, with sums in enough digits that no rounding
    shows."""
    import mpmath

    with mpmath.workprec(2 * _PRECISIONS[0]):
        columns = list(zip(*matrix, strict=True))
        return [[mpmath.fdot(row, column) for column in columns] for row in left]


def as_floats(numbers: Any, shape: tuple[int, ...]) -> Array:
    """The numbers as float64, rounded once."""
    flat = [float(x) for x in np.asarray(numbers, dtype=object).ravel()]
    return np.asarray(flat, dtype=np.float64).reshape(shape)
