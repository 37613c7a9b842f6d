"""The four dtypes, weakly typed numbers, and narrow formats that are rounded once."""

from typing import Any

import numpy as np
import pytest

from reference_engine.floats import as_dtype, is_float, is_narrow
from reference_engine.op import TABLE


def test_names_of_dtypes() -> None:
    assert as_dtype("float32") == np.float32
    assert as_dtype(np.float16) == np.float16
    assert as_dtype("bfloat16").name == "bfloat16"
    assert [is_float(as_dtype(n)) for n in ("float16", "bfloat16", "float32", "float64")] == [
        True
    ] * 4
    assert not any(is_float(np.dtype(n)) for n in ("bool", "int64", "complex128", "longdouble"))
    assert [is_narrow(as_dtype(n)) for n in ("float16", "bfloat16", "float32")] == [
        True,
        True,
        False,
    ]
    assert not any(is_narrow(np.dtype(n)) for n in ("int16", "V2"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("number", [2, 0.1])
@pytest.mark.parametrize("name", ["add", "multiply", "divide", "power", "maximum"])
def test_python_numbers_take_the_dtype_of_the_array(name: str, number: Any, dtype: str) -> None:
    row = TABLE[name]
    for x in (np.array([0.5, 3.0], as_dtype(dtype)), np.array(3.0, as_dtype(dtype))):
        rounded = np.array(number, x.dtype)
        for mixed, same in (
            (row(x, number), row(x, rounded)),
            (row(number, x), row(rounded, x)),
            (row(x[()], number), row(x, rounded)),
            (TABLE["where"](x > 1, x, number), TABLE["where"](x > 1, x, rounded)),
        ):
            assert mixed.dtype == x.dtype
            np.testing.assert_array_equal(mixed, same)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["sigmoid", "softplus", "softmax", "logsumexp", "norm", "mean"])
def test_narrow_results_are_rounded_once(name: str, dtype: str) -> None:
    """float32 carries 13 or 16 more bits, so its rounding decides a narrow one next to never."""
    kind = as_dtype(dtype)
    rows = np.random.default_rng(0).normal(size=(200, 5)).astype(kind)
    narrow = np.stack([TABLE[name](row) for row in rows])
    exact = np.stack([TABLE[name](row.astype(np.float64)) for row in rows]).astype(kind)
    assert narrow.dtype == kind
    assert np.mean(narrow != exact) <= 0.002
