"""Write operations and their numbers for messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.indices import index_of
from gradcheck_cli.domain.program import INFIX, Node
from gradcheck_cli.truth.plain import elementwise

LARGEST_WHOLE = 1_000_000  # smaller integers are written in full
SHOWN = 4  # the most inputs of an operation to show; few have more than three


def number(value: float, digits: int = 3) -> str:
    """A short text of the number: three digits, no trailing noise, but 1.001 is not shown as 1."""
    if value == 0:
        return "0"  # -0 would only distract
    if np.isfinite(value) and value == int(value) and abs(value) < LARGEST_WHOLE:
        return str(int(value))
    if np.isfinite(value) and abs(value) > 0.5:
        while digits < 17 and float(f"{value:.{digits}g}") == np.rint(value) != value:
            digits += 1
    return f"{value:.{digits}g}"


def two_texts(one: float, other: float, digits: int = 6) -> tuple[str, str]:
    """The texts of two numbers, with as many digits as it takes to tell them apart."""
    shown = f"{one:.{digits}g}", f"{other:.{digits}g}"
    if shown[0] != shown[1] and 0 not in (one, other):
        return shown
    while one != other and digits < 17 and number(one, digits) == number(other, digits):
        digits += 3
    return number(one, min(digits, 17)), number(other, min(digits, 17))


def element(node: Node, array: Array, index: tuple[int, ...]) -> float | None:
    """The element of an argument that broadcasts to `index` of the result of `node`; None if there
    is none."""
    shape = np.shape(array)
    if len(shape) > len(index) or (shape and not elementwise(node.op)):
        return None
    tail = index[len(index) - len(shape) :]
    if any(n != 1 and i >= n for n, i in zip(shape, tail, strict=True)):
        return None
    return float(
        np.asarray(array)[tuple(0 if n == 1 else i for n, i in zip(shape, tail, strict=True))]
    )


def application(node: Node, args: list[Array], index: tuple[int, ...]) -> str:
    """The operation with its inputs: "exp(100)", "1 / inf"."""
    values = [element(node, array, index) for array in args]
    digits = _digits(node.op, values)
    shown = [
        f"[{'x'.join(map(str, np.shape(array)))}]" if value is None else number(value, digits)
        for array, value in zip(args, values, strict=True)
    ]
    if node.op in INFIX and len(shown) == 2:
        return f"{shown[0]} {INFIX[node.op]} {shown[1]}"
    if node.op == "negative":
        return f"-{shown[0]}"
    name = node.custom.name if node.custom else node.op
    return f"{name}({', '.join(shown)})"


def call_phrase(name: str, numbers: Sequence[float], result: float) -> str:
    """An engine's operation with its inputs: "aten.mul.Tensor(1.14e+26, 2)". Inputs without a
    single number for the element (nan) are left out."""
    known = [n for n in numbers if not np.isnan(n)]
    if numbers and not known and not np.isnan(result):
        return f"{name}(...)"
    known = known or list(numbers)
    more = ", ..." if len(known) > SHOWN else ""
    op = next((sign for sign in ("add", "subtract") if sign[:3] in name.lower()), name)
    digits = _digits(op, list(known))
    return f"{name}({', '.join(number(n, digits) for n in known[:SHOWN])}{more})"


def _digits(op: str, values: Sequence[float | None]) -> int:
    """Three digits, or as many as it takes to show what a sum or difference leaves of its terms."""
    if op not in ("add", "subtract") or len(values) != 2 or None in values:
        return 3
    a, b = (float(v) for v in values if v is not None)
    largest, rest = max(abs(a), abs(b)), abs(a + b if op == "add" else a - b)
    if not (np.isfinite(largest) and rest < largest):
        return 3
    return min(17, 3 + int(np.log10(largest / rest))) if rest else 9


def first_index(mask: Array) -> tuple[int, ...]:
    """The first True of a mask of any shape; () for a scalar."""
    return index_of(int(np.argmax(mask)), np.shape(mask))
