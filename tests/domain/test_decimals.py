import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck_cli.domain.decimals import DISTINCT_DIGITS, shortest
from gradcheck_cli.domain.dtypes import FORMATS


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (11.0, "float64", "11"),
        (-0.0, "float64", "-0"),
        (1.745076887727999, "float64", "1.745076887727999"),
        (float(np.float32(0.1)), "float32", "0.1"),
        (float(np.float32(-3.7835059e-44)), "float32", "-3.8e-44"),
        (100.0, "float16", "100"),
        (2e6, "float64", "2000000"),
        (float(np.float32(1.5811388e12)), "float32", "1.5811388e+12"),
        (-4e9, "float64", "-4e+09"),
        (1234567890123.0, "float64", "1234567890123"),
        (float(np.float32(3.4028235e38)), "float32", "3.4028235e+38"),
        (0.1, "float32", "0.1"),  # no float32 number: all of its float64 digits
        (math.nan, "float32", "nan"),
        (-math.inf, "float64", "-inf"),
    ],
)
def test_shortest_digits_that_read_back(value: float, dtype: str, text: str) -> None:
    assert shortest(value, dtype) == text


@pytest.mark.parametrize("dtype", sorted(FORMATS))
@given(bits=st.floats(allow_nan=False, allow_infinity=False))
def test_what_is_printed_is_the_number(dtype: str, bits: float) -> None:
    value = float(FORMATS[dtype].round(bits))
    text = shortest(value, dtype)
    assert float(FORMATS[dtype].round(float(text))) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float32_digits_are_those_of_numpy(value: float) -> None:
    assert float(shortest(value, "float32")) == float(str(np.float32(value)))


@pytest.mark.parametrize("dtype", sorted(FORMATS))
def test_distinct_digits_follow_from_the_precision(dtype: str) -> None:
    assert DISTINCT_DIGITS[dtype] == math.ceil(1 + FORMATS[dtype].bits * math.log10(2))
