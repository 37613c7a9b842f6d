import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.report.numbers import DISTINCT_DIGITS, shortest, significant, ulps, with_bar


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


@pytest.mark.parametrize(
    ("value", "bar", "text"),
    [
        (-3.7200759760208361e-44, 4.2e-53, "-3.72007598e-44 ± 4e-53"),
        (2.5000001, 0.003, "2.5 ± 0.003"),
        (1.23456789, 0.003, "1.2346 ± 0.003"),
        (0.0, 1e-12, "0 ± 1e-12"),
        (1e-9, 2.0, "1e-09 ± 2"),
        (1.5, math.inf, "1.5 ± inf"),
        (1.5, None, "1.5 ± unknown"),
        (math.nan, 1.0, "-"),
        (None, None, "-"),
    ],
)
def test_digits_end_where_the_error_bar_begins(
    value: float | None, bar: float | None, text: str
) -> None:
    assert with_bar(value, bar, "float32") == text


def test_an_ascii_stream_gets_an_ascii_sign() -> None:
    assert with_bar(1.0, 0.5, "float64", "+/-") == "1 +/- 0.5"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 ulp"),
        (0.304, "0.3 ulp"),
        (12.34, "12 ulp"),
        (4711.4, "4711 ulp"),
        (9.04e15, "9.0e+15 ulp"),
        (math.inf, "inf ulp"),
        (math.nan, "-"),
        (None, "-"),
    ],
)
def test_ulps_are_short(value: float | None, text: str) -> None:
    assert ulps(value) == text


def test_significant_digits() -> None:
    assert significant(-3.7200759760208356e-44, 9) == "-3.72007598e-44"
    assert significant(None, 3) == "-"
