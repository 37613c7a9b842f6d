import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from gradcheck_cli.domain.scale import scale_of, tangent_scale


@pytest.mark.parametrize("exponent", [-1074, -1000, -600, -12, 0, 5, 600, 1023])
@pytest.mark.parametrize("signs", [[1.0], [1.0, -1.0], [-1.0] * 20])
def test_a_power_of_two_has_itself_as_scale(exponent: int, signs: list[float]) -> None:
    values = np.array(signs) * math.ldexp(1.0, exponent)
    assert scale_of(values) == math.ldexp(1.0, exponent)


@pytest.mark.parametrize("size", [1e-310, 1e-200, 3e-5, 0.3, 3e5, 1e200, 1.7e308])
def test_the_scale_is_below_the_root_mean_square_and_above_half_of_it(size: float) -> None:
    values = np.random.default_rng(0).uniform(0.5, 1.0, 20) * size
    largest = np.max(values)
    mean = largest * math.sqrt(np.mean((values / largest) ** 2))
    assert scale_of(values) <= mean < 2 * scale_of(values)


@given(arrays(np.float64, array_shapes(min_dims=0, max_dims=2, min_side=0), elements=st.floats()))
def test_a_scale_is_a_power_of_two_whatever_the_numbers(values: np.ndarray) -> None:
    """Infinities, nans, subnormals and empty arrays are among them."""
    scale = scale_of(values)
    assert math.isfinite(scale)
    assert scale > 0
    assert math.frexp(scale)[0] == 0.5


def test_zeros_and_nothing_have_scale_one() -> None:
    assert scale_of(np.zeros(3)) == scale_of(np.zeros(0)) == tangent_scale(np.zeros(3)) == 1.0


def test_infinities_and_nans_do_not_count() -> None:
    assert scale_of(np.array([np.inf, 4.0, np.nan])) == 4.0
    assert scale_of(np.array([np.inf])) == 1.0


@pytest.mark.parametrize(
    ("size", "scale"), [(1e200, 4096.0), (3e5, 4096.0), (2.0, 2.0), (1e-200, 1 / 4096)]
)
def test_a_tangent_of_this_scale_fits_every_dtype(size: float, scale: float) -> None:
    assert tangent_scale(np.full(20, size)) == scale
    assert np.isfinite(np.float16(6 * scale))
