import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.report.numbers import (
    DISTINCT_DIGITS,
    PRECISION,
    error,
    shortest,
    significant,
    small_or_relative,
    with_bar,
)


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


@pytest.mark.parametrize("dtype", sorted(FORMATS))
def test_precisions_are_those_of_the_formats(dtype: str) -> None:
    assert PRECISION[dtype] == FORMATS[dtype].bits


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 ulp"),
        (3.7e-86, "0 ulp"),
        (0.304, "0.3 ulp"),
        (338.0, "4e-05 relative"),
        (9.04e15, "all digits wrong"),
        (math.inf, "all digits wrong"),
        (math.nan, "-"),
        (None, "-"),
    ],
)
def test_a_few_ulps_or_a_part_of_the_number(value: float | None, text: str) -> None:
    assert small_or_relative(value, "float32") == text


@pytest.mark.parametrize(
    ("computed", "truth", "text"),
    [
        (1.0, 1.0 + 2.0**-52, "1 ulp"),
        (1.0001, 1.0, "0.0001 relative"),
        (0.7, 1.0, "0.3 relative"),
        (2.0, 1.0, "factor 2"),
        (-3.0, 1.0, "factor -3"),
        (0.25, 1.0, "factor 1/4"),
        (-0.25, 1.0, "factor -1/4"),
        (2.718, 1.0, "factor 2.7"),
        (3.5e15, 1.0, "factor 3.5e+15"),
        (-1.0, 1.0, "wrong sign"),
        (0.0, 1e-300, "all digits wrong"),
        (1e-9, 1.0, "all digits wrong"),
        (3e-9, 0.0, "off by 3e-09"),
        (-3e-9, 0.0, "off by 3e-09"),
        (math.inf, 1.0, "infinite"),
        (math.nan, 1.0, "-"),
        (None, 1.0, "-"),
    ],
)
def test_an_error_is_said_in_words_of_use(computed: float | None, truth: float, text: str) -> None:
    fmt = FORMATS["float64"]
    off = None if computed is None else abs(computed - truth) / float(fmt.ulp(np.array(truth)))
    assert error(computed, truth, off, "float64") == text


def test_significant_digits() -> None:
    assert significant(-3.7200759760208356e-44, 9) == "-3.72007598e-44"
    assert significant(None, 3) == "-"
