"""Functions of the libraries of engines are within the ulps that proofs assume."""

from __future__ import annotations

import numpy as np
import pytest

from tests.every import first
from tests.fuzz.library import assumed, functions, worst

EVERY = {"float32": 10007, "float64": 10007, "float16": 1, "bfloat16": 1}


HALF = ("float16", "bfloat16")  # which PyTorch computes in float32, and rounds once


@pytest.mark.parametrize(
    ("engine", "dtype"),
    first(
        3,
        [
            (engine, dtype)
            for dtype in EVERY
            for engine in ("torch", "jax", "tensorflow")
            if engine != "torch" or dtype not in HALF
        ],
    ),
)
def test_no_function_is_off_by_more(engine: str, dtype: str) -> None:
    for one in functions(engine).values():
        if one.within and dtype != "float32":
            continue
        most, _ = worst(one, dtype, EVERY[dtype], engine)
        assert 0.45 < most <= assumed(one, engine, dtype), one.name


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_squares_and_cubes_are_products(dtype: type) -> None:
    """In wide loops, in those that take numbers one by one, and of single numbers."""
    import torch

    rng = np.random.default_rng(0)
    x = (np.exp2(rng.uniform(-60, 40, 50_000)) * rng.choice([-1, 1], 50_000)).astype(dtype)
    whole = torch.from_numpy(x)
    spread = torch.empty(2 * len(x), dtype=whole.dtype)[::2]
    spread.copy_(whole)
    with np.errstate(over="ignore", under="ignore"):
        square, cube = x * x, (x * x) * x
    for taken in (whole, spread):
        np.testing.assert_array_equal((taken**2).numpy(), square)
        np.testing.assert_array_equal((taken**3).numpy(), cube)
    alone = [((one**2).item(), (one**3).item()) for one in whole[:500]]
    assert alone == list(zip(square[:500].tolist(), cube[:500].tolist(), strict=True))
