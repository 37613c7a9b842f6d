"""Formats as numbers, against NumPy's own and those of ml_dtypes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck_cli.domain.dtypes import FORMATS, FloatFormat, as_numbers, identical

NAMES = ["float16", "bfloat16", "float32", "float64"]
TYPES: dict[str, np.dtype[Any]] = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}


@pytest.fixture(params=NAMES)
def fmt(request: pytest.FixtureRequest) -> FloatFormat:
    return FORMATS[request.param]


def limits(fmt: FloatFormat) -> Any:
    """What the array library says of the format."""
    describe: Any = ml_dtypes.finfo  # which has no types
    return describe(TYPES[fmt.name])


def after(fmt: FloatFormat, value: float) -> float:
    """The next number of the format, away from zero."""
    narrow = TYPES[fmt.name].type
    return float(np.nextafter(narrow(value), narrow(np.copysign(np.inf, value))))


def test_formats_are_those_that_a_spec_may_name() -> None:
    assert list(FORMATS) == NAMES
    assert all(fmt.name == name for name, fmt in FORMATS.items())


def test_limits(fmt: FloatFormat) -> None:
    own = limits(fmt)
    assert fmt.largest == float(own.max)
    assert fmt.smallest_normal == float(own.smallest_normal)
    assert fmt.smallest_subnormal == float(own.smallest_subnormal)
    assert 2 * fmt.unit_roundoff == float(own.eps)
    assert fmt.bits == own.nmant + 1
    assert fmt.numpy_dtype() == TYPES[fmt.name]


@pytest.mark.parametrize("share", [2.0**-40, 1e-5, 0.3, 0.999, 1.0, 1.5, 3.0, 100.0])
def test_ulp_is_the_distance_to_the_next_number(fmt: FloatFormat, share: float) -> None:
    for size in (1.0, fmt.smallest_normal, np.sqrt(fmt.largest)):
        value = float(fmt.round(share * size))
        assert fmt.ulp(value) == after(fmt, value) - value
        assert fmt.ulp(-value) == fmt.ulp(value)


def test_ulp_at_the_edges(fmt: FloatFormat) -> None:
    """Where there is no next number, or none is asked for."""
    tiny, large = fmt.smallest_subnormal, fmt.largest
    top = large - float(np.nextafter(TYPES[fmt.name].type(large), TYPES[fmt.name].type(0)))
    rows = {
        0.0: tiny,
        tiny: tiny,
        fmt.smallest_normal: tiny,
        fmt.smallest_normal - tiny: tiny,
        2 * fmt.smallest_normal: 2 * tiny,
        1e-320: tiny,
        large: top,
        np.inf: top,
        -np.inf: top,
        np.nan: top,
    }
    assert {v: fmt.ulp(v) for v in rows} == rows
    assert fmt.ulp(min(2 * large, 1e308)) == top  # what does not fit is measured by the largest


def test_ulp_doubles_at_a_power_of_two(fmt: FloatFormat) -> None:
    below = float(np.nextafter(TYPES[fmt.name].type(1), TYPES[fmt.name].type(0)))
    assert fmt.ulp(1.0) == 2 * fmt.ulp(below) == 2 * fmt.unit_roundoff


def test_ulp_of_an_array_has_its_shape() -> None:
    got = FORMATS["float32"].ulp([[1.0, 2.0, 0.0]])
    np.testing.assert_array_equal(got, [[2.0**-23, 2.0**-22, 2.0**-149]])
    assert got.dtype == np.float64


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(value=NUMBERS, name=st.sampled_from(NAMES))
def test_round_gives_the_nearest_number(value: float, name: str) -> None:
    fmt = FORMATS[name]
    near = float(fmt.round(value))
    if np.isinf(near):
        assert abs(value) >= fmt.largest + fmt.ulp(fmt.largest) / 2
    else:
        assert abs(near - value) <= fmt.ulp(near) / 2
        assert near == float(TYPES[name].type(near))  # a number of the format
        assert float(fmt.round(near)) == near


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_ties_go_to_even(name: str) -> None:
    fmt = FORMATS[name]
    unit = 2 * fmt.unit_roundoff
    assert fmt.round([1 + unit / 2, 1 + 3 * unit / 2]).tolist() == [1.0, 1 + 2 * unit]
    already = np.array([1.0, 1 + 2 * unit])
    assert fmt.round(already) is already


def test_round_keeps_what_is_no_number(fmt: FloatFormat) -> None:
    got = fmt.round([np.nan, np.inf, -np.inf, -0.0])
    assert np.isnan(got[0])
    assert got[1:].tolist() == [np.inf, -np.inf, 0.0]
    assert np.signbit(got[3])
    assert got.dtype == np.float64


def test_round_at_the_edges() -> None:
    fmt = FORMATS["float32"]
    half = fmt.ulp(fmt.largest) / 2
    rows = {
        float(fmt.largest + half * 0.99): fmt.largest,
        float(fmt.largest + half): np.inf,
        1e300: np.inf,
        fmt.smallest_subnormal: fmt.smallest_subnormal,
        fmt.smallest_subnormal * 0.51: fmt.smallest_subnormal,
        fmt.smallest_subnormal * 0.5: 0.0,
        1e-300: 0.0,
    }
    assert {value: float(fmt.round(value)) for value in rows} == rows


def test_rounding_warns_of_nothing(fmt: FloatFormat) -> None:
    with np.errstate(all="raise"):
        assert fmt.round([1e308, 1e-308, 5e-324]).shape == (3,)


def digits(value: float) -> int:
    """The number of significant decimal digits that Python prints."""
    return len(Decimal(repr(value)).normalize().as_tuple().digits)


@given(st.floats(allow_nan=False, width=64), st.sampled_from(NAMES))
def test_the_shortest_number_rounds_to_the_same(value: float, name: str) -> None:
    fmt = FORMATS[name]
    rounded = float(fmt.round(value))
    short = fmt.shortest(rounded)
    assert fmt.round(short) == rounded
    assert digits(short) <= digits(rounded)


def test_the_shortest_number_is_what_the_user_wrote() -> None:
    for name, fmt in FORMATS.items():
        assert fmt.shortest(float(fmt.round(0.1))) == 0.1, name
    assert FORMATS["float32"].shortest(1 / 3) == 1 / 3  # not a number of float32
    assert np.isnan(FORMATS["float32"].shortest(np.nan))


def test_half_of_the_digits_are_lost_where_half_of_them_are_left(fmt: FloatFormat) -> None:
    assert fmt.half * fmt.lost(0.5) == pytest.approx(1.0)
    assert fmt.half**2 == pytest.approx(fmt.unit_roundoff)
    assert (fmt.lost(0.0), fmt.lost(1.0)) == (1.0, 1 / fmt.unit_roundoff)


def test_arrays_are_identical_to_their_signs_shapes_and_dtypes() -> None:
    zero = np.array([0.0])
    assert identical(zero, zero.copy())
    assert not identical(zero, -zero)
    assert not identical(zero, zero.reshape(1, 1))
    assert not identical(zero, zero.astype(np.float32))


def test_complex_numbers_keep_both_parts() -> None:
    np.testing.assert_array_equal(as_numbers(np.array([1 - 2j], np.complex64)), [[1.0, -2.0]])
    assert as_numbers(np.array([0.5], np.float32)).dtype == np.float64
    assert as_numbers(np.array([3])).dtype.kind == "i"
