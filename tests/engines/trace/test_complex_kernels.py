"""Kernels of pairs compute what NumPy does with complex numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.engines.trace import complex_kernels as kernels
from gradcheck_cli.engines.trace.complex_kernels import PAIRS, Pair

RNG = np.random.default_rng(0)
Z, W = (RNG.standard_normal((2, 4, 6)) for _ in range(2))
OF_NUMPY: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("add", "subtract", "multiply", "divide", "matmul")},
    **{name: getattr(np, name) for name in ("equal", "not_equal", "abs", "sign", "expm1")},
    **{name: getattr(np, name) for name in ("negative", "reciprocal", "square", "log1p")},
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "stop_gradient": lambda z: z,
}
OF_TWO = ("add", "subtract", "multiply", "divide", "power", "equal", "not_equal", "matmul")


def joined(z: Any) -> Any:
    return z.re + 1j * np.asarray(z.im) if isinstance(z, Pair) else z


@pytest.mark.parametrize("name", sorted(PAIRS.keys() - {"where"}))
def test_rows_of_pairs(name: str) -> None:
    z, w = Pair(*Z), Pair(*W)
    if name == "matmul":
        w = Pair(w.re.T, w.im.T)
    given = [z, w] if name in OF_TWO else [z]
    theirs = OF_NUMPY.get(name) or getattr(np, name)
    for args in (given, [z, w.re], [z.re, w]) if name in OF_TWO else [given]:
        expected = theirs(*map(joined, args))
        np.testing.assert_allclose(joined(PAIRS[name](*args)), expected, rtol=1e-12)


@pytest.mark.parametrize("power", [0, 1, 2, 5, -3, 0.5, -1.5])
def test_powers(power: float) -> None:
    found = joined(kernels.power(Pair(*Z), power))
    np.testing.assert_allclose(found, joined(Pair(*Z)) ** power, rtol=1e-12)


def test_a_tanh_of_large_numbers_does_not_overflow() -> None:
    z = Pair(np.array([-800.0, 800.0]), np.array([0.3, -2.0]))
    assert joined(kernels.tanh(z)).tolist() == [-1.0, 1.0]
    assert joined(kernels.sigmoid(z)).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("axes", [(1,), (0,), (0, 1)])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms(axes: tuple[int, ...], norm: Any) -> None:
    z = Pair(*Z)
    scale = {"backward": 0, "ortho": 1, "forward": 2}[norm]
    back = {0: 2, 1: 1, 2: 0}[scale]
    pairs = [
        (
            kernels.of_complex(z, axes, scale, forward=True),
            np.fft.fftn(joined(z), None, axes, norm),
        ),
        (
            kernels.of_complex(z, axes, back, forward=False),
            np.fft.ifftn(joined(z), None, axes, norm),
        ),
        (kernels.of_real(z.re, axes, scale, onesided=True), np.fft.rfftn(z.re, None, axes, norm)),
        (kernels.of_real(z.re, axes, scale, onesided=False), np.fft.fftn(z.re, None, axes, norm)),
    ]
    n = [*(z.shape[a] for a in axes[:-1]), 2 * z.shape[axes[-1]] - 3]
    inverse = kernels.to_real(z, axes, back, n[-1])
    pairs.append((inverse, np.fft.irfftn(joined(z), n, axes, norm)))
    for found, expected in pairs:
        np.testing.assert_allclose(joined(found), expected, rtol=1e-11, atol=1e-13)
