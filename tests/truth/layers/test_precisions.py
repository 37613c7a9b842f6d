"""Differences over short steps accuse no layer that loses its digits there; what is wrong stays
wrong, in such a layer too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.checks.making import examined
from tests.every import first


def opaque(forward: Callable[[Any], Any], backward: Callable[[Any], Any]) -> Callable[..., Any]:
    """A layer of which no operation is seen: both run in NumPy, the derivative in float64."""

    class Opaque(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return torch.from_numpy(np.asarray(forward(x.detach().numpy())))

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            slope = np.asarray(backward(x.detach().double().numpy()))
            return g * torch.from_numpy(slope).to(g.dtype)

        @staticmethod
        def jvp(ctx: Any, x_dot: Any) -> Any:
            return Opaque.backward(ctx, x_dot)

    return lambda x: Opaque.apply(x)


def codes(layer: Callable[..., Any], x: list[float], dtype: str) -> set[str]:
    with np.errstate(all="ignore"):
        answer = examined(layer, {"x": x}, dtype=dtype, blaming=False)
    assert answer.failure is None
    return {one.code for one in answer.findings}


LOSSY = {
    "a line beside the point": (lambda x: (1 - np.cos(x)) / x, lambda x: 0.5 - x * x / 8),
    "a dead zone": (lambda x: (np.sqrt(1 + x * x) - 1) / x, lambda x: 0.5 - 3 * x * x / 8),
    "a pole": (lambda x: (1 - np.cos(x)) / x**2, lambda x: -x / 12),
    "a root": (lambda x: (np.sqrt(1 + x) - 1) / x, lambda x: -0.125 + x / 8),
    "a kink": (lambda x: (np.log(1 + x) - x) / x, lambda x: -0.5 + 2 * x / 3 - 3 * x * x / 4),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("x", first(2, [3e-8, 1e-5, 1e-9, 1e-7]))
@pytest.mark.parametrize("name", list(LOSSY))
def test_a_right_layer_that_loses_digits(name: str, x: float, dtype: str) -> None:
    assert codes(opaque(*LOSSY[name]), [x], dtype) <= {"GC501"}


@pytest.mark.parametrize("factor", [0.5, -1.0])
@pytest.mark.parametrize("name", list(LOSSY))
def test_no_wrong_one_passes(name: str, factor: float) -> None:
    forward, backward = LOSSY[name]
    wrong = opaque(forward, lambda x: factor * backward(x))
    found = codes(wrong, [1e-7], "float64")
    assert found & {"GC101", "GC501"}
    if name in ("a line beside the point", "a dead zone"):
        assert "GC101" in found


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_many_of_them(dtype: str) -> None:
    x = list(np.linspace(1e-7, 2e-7, 1100))
    forward, backward = LOSSY["a line beside the point"]
    assert codes(opaque(forward, backward), x, dtype) == {"GC501"}
    assert "GC101" in codes(opaque(forward, lambda x: -backward(x)), x, dtype)
    assert codes(opaque(forward, lambda x: 1.5 * backward(x)), x, dtype) & {"GC101", "GC501"}


@pytest.mark.parametrize(
    "forward",
    [
        lambda x: np.round(128 * x) / 128,  # the same in both precisions
        lambda x: np.where(np.abs(x) < 0.01, 0 * x, x),
        lambda x: np.floor(1000 * x) / 1000 + (1 - np.cos(x)),
    ],
)
def test_stairs_that_are_meant(forward: Callable[[Any], Any]) -> None:
    straight_through = opaque(forward, np.ones_like)
    for dtype in ("float32", "float64"):
        assert codes(straight_through, [0.0041], dtype) == {"GC101"}


@pytest.mark.parametrize("factor", [1.0, -1.0])
@pytest.mark.parametrize("x", [1 + 1e-7, 1 + 3e-7, 1 - 2e-7])
def test_a_slope_of_the_shortest_steps_alone_confirms_nothing(x: float, factor: float) -> None:
    """Where 1 - x**5 stays the same, its quotient by 1 - x falls; the function rises."""
    slope = opaque(
        lambda x: (1 - x**5) / (1 - x), lambda x: factor * (1 + 2 * x + 3 * x**2 + 4 * x**3)
    )
    found = codes(slope, [x], "float64")
    assert found <= {"GC501"} if factor == 1 else found & {"GC101", "GC501"}


@pytest.mark.parametrize(("factor", "wanted"), [(1.0, set()), (1.5, {"GC101"})])
def test_an_operation_that_rises_in_stairs(factor: float, wanted: set[str]) -> None:
    """The derivative of one stair is no certificate."""
    layer = opaque(lambda x: (1 - np.cos(x / 1000)) / x, lambda x: factor * 5e-7 + 0 * x)
    assert codes(layer, [1e-3], "float64") == wanted


BESIDE_AN_EDGE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "entropy": (
        lambda x: -x * np.log(x) - (1 - x) * np.log(1 - x),
        lambda x: np.log1p(-x) - np.log(x),
    ),
    "divergence": (
        lambda x: x * np.log(x / 0.25) + (1 - x) * np.log((1 - x) / 0.75),
        lambda x: np.log(x / 0.25) - np.log1p(-x) + np.log(0.75),
    ),
    "root of a rounded sum": (lambda x: np.sqrt(x) + (1 - x) ** 2, lambda x: 0.5 / np.sqrt(x) - 2),
    "power": (lambda x: x**0.9 + np.log(1 + x), lambda x: 0.9 * x**-0.1 + 1),
    "product": (lambda x: x * np.log(x), lambda x: 1 + np.log(x)),
    "product beside 1": (lambda x: 1 + x * np.log(x), lambda x: 1 + np.log(x)),
    "root": (np.sqrt, lambda x: 0.5 / np.sqrt(x)),
    "logit": (lambda x: np.log(x / (1 - x)), lambda x: 1 / (x * (1 - x))),
    "line": (lambda x: np.sin(x), lambda x: np.cos(x)),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("x", first(2, [1e-12, 1e-30, 1e-9, 1e-17]))
@pytest.mark.parametrize("name", list(BESIDE_AN_EDGE))
def test_steps_that_are_shorter_than_a_digit_of_one(name: str, x: float, dtype: str) -> None:
    """1 - x is 1 on all steps from x to its edge at 0, so no difference sees that part."""
    forward, backward = BESIDE_AN_EDGE[name]
    assert codes(opaque(forward, backward), [x], dtype) <= {"GC501"}
    wrong = codes(opaque(forward, lambda x: 1.5 * backward(x)), [x], dtype)
    assert wrong & {"GC101", "GC501"}
    if name in ("product", "root", "logit", "line"):
        assert "GC101" in wrong


@pytest.mark.parametrize("x", [30.0, 36.0, 700.0])
@pytest.mark.parametrize("factor", first(3, [1.2, 0.5, -1.0, 1.5, 3.0]))
def test_a_bar_as_wide_as_the_derivative_confirms_nothing(factor: float, x: float) -> None:
    layer = opaque(
        lambda x: np.log(1 + np.exp(x)) - x, lambda x: -factor * np.exp(-x) / (1 + np.exp(-x))
    )
    assert codes(layer, [x], "float64") & {"GC501", "GC101"}
