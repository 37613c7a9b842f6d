"""Pooling, as one composes it of windows."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import Pair, each
from gradcheck_cli.engines.kit.lowerings import Lowering


def _windows(kernel_size: Pair, stride: Pair | None, padding: Pair) -> tuple[Any, ...]:
    """Lengths, steps and widths over all four axes."""
    steps = each(kernel_size if stride is None else stride, 2)
    widths = [(0, 0), (0, 0), *((p, p) for p in each(padding, 2))]
    return (1, 1, *each(kernel_size, 2)), (1, 1, *steps), widths


def max_pool2d(
    jax: Any, x: Any, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0
) -> Any:
    windows = _windows(kernel_size, stride, padding)
    return jax.lax.reduce_window(x, -jax.numpy.inf, jax.lax.max, *windows)


def avg_pool2d(
    jax: Any,
    x: Any,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    count_include_pad: bool = True,
) -> Any:
    windows = _windows(kernel_size, stride, padding)
    total = jax.lax.reduce_window(x, 0.0, jax.lax.add, *windows)
    if count_include_pad:
        height, width = each(kernel_size, 2)
        return total / (height * width)
    return total / jax.lax.reduce_window(jax.numpy.ones_like(x), 0.0, jax.lax.add, *windows)


ROWS: dict[str, Lowering] = {"avg_pool2d": avg_pool2d, "max_pool2d": max_pool2d}
