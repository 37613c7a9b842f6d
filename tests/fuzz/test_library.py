"""Functions of PyTorch's library are within the ulps that proofs assume."""

from __future__ import annotations

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
