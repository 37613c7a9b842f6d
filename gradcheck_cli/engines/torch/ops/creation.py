"""Arrays that are made of nothing but their shape."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import shape_of, whole_numbers
from gradcheck_cli.engines.kit.lowerings import Lowering


def arange(
    torch: Any, start: int, stop: int | None = None, step: int = 1, dtype: Any = None
) -> Any:
    numbers = whole_numbers(start, stop, step)
    return torch.arange(numbers.start, numbers.stop, numbers.step, dtype=dtype)


def zeros(torch: Any, shape: Any, dtype: Any = None) -> Any:
    return torch.zeros(shape_of(shape), dtype=dtype)


def ones(torch: Any, shape: Any, dtype: Any = None) -> Any:
    return torch.ones(shape_of(shape), dtype=dtype)


def full(torch: Any, shape: Any, fill_value: float, dtype: Any = None) -> Any:
    return torch.full(shape_of(shape), fill_value, dtype=dtype)


def eye(torch: Any, n: int, m: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    columns = n if m is None else m
    if k == 0:
        return torch.eye(n, columns, dtype=dtype)
    return (torch.arange(columns) - torch.arange(n)[:, None] == k).to(dtype)


def full_like(torch: Any, x: Any, fill_value: float) -> Any:
    return torch.full_like(x, fill_value)


ROWS: dict[str, Lowering] = {
    "arange": arange,
    "eye": eye,
    "full": full,
    "full_like": full_like,
    "ones": ones,
    "ones_like": "ones_like",
    "zeros": zeros,
    "zeros_like": "zeros_like",
}
