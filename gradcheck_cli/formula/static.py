"""Arithmetic on numbers that are known before the run: constants, loop variables, keywords."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from gradcheck_cli.formula.errors import Problem

_LARGEST_INT = 2**1024 - 2**970  # what rounds to infinity; also what keeps 9**9**9 cheap

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_LOGICAL: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}


def is_number(value: object) -> bool:
    """Whether arithmetic is possible with a static value."""
    return isinstance(value, bool | int | float)


def binary(op: ast.operator, left: Any, right: Any) -> bool | int | float:
    """left op right in Python's numbers. Raises Problem if the result is not a number."""
    logical = _LOGICAL.get(type(op))
    if logical is not None:
        if not (isinstance(left, bool) and isinstance(right, bool)):
            raise Problem("& and | combine comparisons, not numbers")
        return bool(logical(left, right))
    if not (is_number(left) and is_number(right)):
        raise Problem("this is not arithmetic on numbers")
    try:
        if isinstance(op, ast.Pow):
            return _checked(_power(left, right))
        return _checked(_BINARY[type(op)](left, right))
    except ZeroDivisionError:
        raise Problem("division by zero in a constant") from None
    except OverflowError:
        raise Problem("the constant is larger than any number", "write inf") from None


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        bits = base.bit_length() * exponent
        if bits > 2 * _LARGEST_INT.bit_length():
            raise OverflowError
    return base**exponent


def _checked(value: Any) -> bool | int | float:
    if isinstance(value, complex):
        raise Problem("the constant is a complex number", "formulas are real")
    if isinstance(value, int) and abs(value) >= _LARGEST_INT:
        raise OverflowError
    assert isinstance(value, bool | int | float)
    return value


def compare(op: ast.cmpop, left: Any, right: Any) -> bool:
    """left op right in Python's numbers."""
    if not (is_number(left) and is_number(right)):
        raise Problem("only numbers can be compared")
    return bool(_COMPARE[type(op)](left, right))


def unary(op: ast.unaryop, value: Any) -> bool | int | float:
    """op value in Python's numbers."""
    if not is_number(value):
        raise Problem("this is not arithmetic on numbers")
    if isinstance(op, ast.Invert):
        if not isinstance(value, bool):
            raise Problem("~ negates comparisons, not numbers")
        return not value
    return _checked(-value if isinstance(op, ast.USub) else +value)


def literal(value: object) -> Any:
    """The value of a literal. Raises Problem for literals that are not part of the language."""
    if isinstance(value, complex):
        raise Problem("complex numbers are not part of the formula language")
    if isinstance(value, bytes):
        raise Problem("bytes are not part of the formula language")
    if isinstance(value, float) and math.isinf(value):
        raise Problem("the number is larger than any floating-point number", "write inf")
    if isinstance(value, int) and abs(value) >= _LARGEST_INT:
        raise Problem("the number is larger than any floating-point number", "write inf")
    return value


def as_constant(value: bool | int | float) -> bool | int | float:
    """The number as a node can hold it: integers of more than 64 bits become floats."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    return value
