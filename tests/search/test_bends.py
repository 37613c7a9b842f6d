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


def test_an_axis_may_be_a_tuple() -> None:
    one, other = (
        spec_of("{x: {value: [1, 2], domain: [0.5, 2]}}", f"logsumexp(x * x, axis={axis})")
        for axis in ("(0,)", "0")
    )
    domain = domain_in(one)
    low, high = domain.low[None], domain.low[None] + 1000
    moves = [
        [bend.moves(domain, low, high) for bend in bends(spec.program, domain, spec.wrt, ROUNDING)]
        for spec in (one, other)
    ]
    assert moves[0] == moves[1]
    assert len(moves[0]) == 2
