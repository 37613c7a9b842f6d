import math

import numpy as np
import pytest

from gradcheck_cli.domain.decimals import PRECISION
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.report import Reading
from gradcheck_cli.report.numbers import (
    depth,
    error,
    nested,
    reading_text,
    significant,
    small_or_relative,
    with_bar,
)


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


def test_nested_lists_keep_their_shape() -> None:
    assert nested([[1.0, math.nan], [0.5, -math.inf]], "float64") == "[[1, nan], [0.5, -inf]]"
    assert depth([[1.0], [2.0]]) == 2


def test_a_gradient_that_is_not_there_is_none() -> None:
    assert nested(None, "float64") == "none"


def test_names_and_points_are_said() -> None:
    reading = Reading("torch", "float32", "reverse", 1, 0.25, {"a": 1.0, "b": [2.0, 3.0]})
    assert reading_text(reading, "loss") == (
        "points[1]: loss = 0.25, dloss/da = 1, dloss/db = [2, 3]"
    )
    assert reading_text(reading, "output").startswith("points[1]: value = 0.25, d/da")


def test_of_many_numbers_the_ends_are_shown() -> None:
    rows = [[float(10 * i + j) for j in range(9)] for i in range(9)]
    shown = reading_text(Reading("torch", "float32", "reverse", None, rows, {"a": rows[:3]}), "f")
    assert shown.startswith("f = [[0, 1, ..., 7, 8], [10, 11, ..., 17, 18], ..., [70,")
    assert "df/da = [[0, 1, 2, 3, 4, 5, 6, 7, 8], [10" in shown
