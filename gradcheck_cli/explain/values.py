"""Saying what an operation did to which numbers."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import Node

INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "power": "**",
    "matmul": "@",
}


def number(value: float) -> str:
    """Short, for a sentence: three digits, no trailing noise."""
    if value == 0:
        return "0"  # a sign of zero would be one more thing to wonder about
    if np.isfinite(value) and value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.3g}"


def element(array: Array, index: tuple[int, ...]) -> float | None:
    """The element of an argument that meets `index` of the result by broadcasting; None if none
    does."""
    shape = np.shape(array)
    if len(shape) > len(index):
        return None
    tail = index[len(index) - len(shape) :]
    if any(n != 1 and i >= n for n, i in zip(shape, tail, strict=True)):
        return None
    return float(
        np.asarray(array)[tuple(0 if n == 1 else i for n, i in zip(shape, tail, strict=True))]
    )


def application(node: Node, args: list[Array], index: tuple[int, ...]) -> str:
    """The operation with the numbers that went in: "exp(100)", "1 / inf"."""
    shown = []
    for array in args:
        value = element(array, index)
        shown.append(f"[{'x'.join(map(str, np.shape(array)))}]" if value is None else number(value))
    if node.op in INFIX and len(shown) == 2:
        return f"{shown[0]} {INFIX[node.op]} {shown[1]}"
    if node.op == "negative":
        return f"-{shown[0]}"
    name = node.custom.name if node.custom else node.op
    return f"{name}({', '.join(shown)})"


def first_index(mask: Array) -> tuple[int, ...]:
    """The first True of a mask of any shape; () for a scalar."""
    place = np.argwhere(mask)[0]
    return tuple(int(i) for i in place)
