"""Functions of PyTorch's library are within the ulps that proofs assume."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.search.enclosures.faithful import ULPS
from tests.fuzz.library import FUNCTIONS, worst

pytest.importorskip("torch")


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_function_is_off_by_more(name: str, dtype: str) -> None:
    one = FUNCTIONS[name]
    most, _ = worst(one, dtype, 10007)
    assert 0.49 < most <= ULPS[one.kernel][dtype == "float64"]


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
