import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.search.box import from_ordinals, to_ordinals

from .searched import domain_in, spec_of


@pytest.mark.parametrize("dtype", FORMATS)
def test_ordinals_count_the_numbers_of_a_format(dtype: str) -> None:
    fmt = FORMATS[dtype]
    numbers = np.array([-fmt.largest, -1.0, -fmt.smallest_subnormal, 0.0, 1.0, fmt.largest])
    ordinals = to_ordinals(numbers, fmt)
    np.testing.assert_array_equal(from_ordinals(ordinals, fmt), numbers)
    assert ordinals[2:4].tolist() == [-1, 0]
    assert from_ordinals(ordinals[4] + 1, fmt) == 1 + 2 * fmt.unit_roundoff
    assert np.isinf(from_ordinals(ordinals[5] + 1, fmt))


def test_a_domain_has_the_outermost_numbers_of_its_interval() -> None:
    spec = spec_of("{x: {value: 1, domain: [0.1, .inf]}, y: [1, 2]}", "sum(x * y)")
    domain = domain_in(spec)
    (low,), (high,) = domain.numbers(np.stack([domain.low, domain.high]))
    assert np.float32(np.nextafter(np.float32(low), np.float32(0))) < 0.1 <= low
    assert high == FORMATS["float32"].largest
    assert (domain.names, domain.still["y"].tolist()) == (("x",), [1.0, 2.0])


def test_an_interval_between_two_numbers_is_refused() -> None:
    spec = spec_of("{x: {value: 1.00001, domain: [1.00001, 1.00002]}}", "x")
    with pytest.raises(ValueError, match="no number of float16"):
        domain_in(spec, "float16")
