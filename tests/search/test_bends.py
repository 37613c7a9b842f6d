import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.search.bends import bends
from gradcheck_cli.search.box import to_ordinals
from gradcheck_cli.search.enclosures.enclosed import Rounding

from .searched import domain_in, spec_of

ROUNDING = Rounding.of(FORMATS["float32"], False)


def test_the_second_derivative_times_x_is_enclosed_from_below() -> None:
    spec = spec_of("{x: {value: 1, domain: [0.5, 2]}, y: {value: 1, domain: [1, 3]}}", "x**3 * y")
    domain = domain_in(spec)
    by_x, by_y = bends(spec.program, domain, spec.wrt, ROUNDING)
    low = to_ordinals(np.array([[1.0, 2.0]]), FORMATS["float32"])
    high = to_ordinals(np.array([[1.5, 3.0]]), FORMATS["float32"])
    assert np.isclose(by_x.moves(domain, low, high), 12.0)  # x |6 x y| at x = 1, y = 2
    assert by_y.moves(domain, low, high) == 0


def test_of_many_numbers_there_is_none() -> None:
    spec = spec_of("{x: {value: [1, 1, 1, 1, 1], domain: [0, 2]}}", "sum(x * x)")
    assert bends(spec.program, domain_in(spec), spec.wrt, ROUNDING) == []
