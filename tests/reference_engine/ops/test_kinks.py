"""At kinks, ties and jumps the stated convention holds in both modes, and the row finds them."""

from typing import Any

import numpy as np
import pytest

from reference_engine import jvp, vjp
from reference_engine.op import INTERNAL, TABLE

ROWS = {**TABLE, **INTERNAL}
INF = np.inf

# row, arrays, keywords, the Jacobian's row sums by argument (dy/dx_i at every element), at_kink
CONVENTIONS: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[Any, ...], Any]] = [
    ("relu", ([0.0, -0.0, 1.0],), {}, ([0, 0, 1],), [True, True, False]),
    ("abs", ([0.0, -2.0],), {}, ([0, -1],), [True, False]),
    ("sqrt", ([0.0, 4.0],), {}, ([INF, 0.25],), None),
    ("maximum", ([1.0, 2.0], [1.0, 1.0]), {}, ([0.5, 1], [0.5, 0]), [True, False]),
    ("minimum", ([1.0, 2.0], [1.0, 1.0]), {}, ([0.5, 0], [0.5, 1]), [True, False]),
    (
        "clip",
        ([0.0, 1.0, 0.5, -1.0, 2.0],),
        {"min": 0, "max": 1},
        ([1, 1, 1, 0, 0],),
        [True, True, False, False, False],
    ),
    ("clip", ([0.0, 1.0],), {"max": 1.0}, ([1, 1],), [False, True]),
    ("clip", ([0.0, 1.0],), {}, ([1, 1],), [False, False]),
    ("max", ([1.0, 3.0, 3.0],), {}, ([0, 0.5, 0.5],), True),
    ("max", ([1.0, 3.0, 2.0],), {}, ([0, 1, 0],), False),
    ("min", ([2.0, 2.0, 2.0],), {}, ([1 / 3, 1 / 3, 1 / 3],), True),
    (
        "max",
        ([[1.0, 1.0], [2.0, 3.0]],),
        {"axis": 1},
        ([[0.5, 0.5], [0, 1]],),
        [True, False],
    ),
    (
        "min",
        ([[1.0, 1.0], [2.0, 3.0]],),
        {"axis": 1, "keepdims": True},
        ([[0.5, 0.5], [1, 0]],),
        [[True], [False]],
    ),
    ("norm", ([0.0, 0.0],), {}, ([0, 0],), True),
    ("norm", ([[0.0, 0.0], [0.0, 2.0]],), {"axis": 1}, ([[0, 0], [0, 1]],), [True, False]),
    ("less", ([1.0, 2.0], [1.0, 1.0]), {}, ([0, 0], [0, 0]), [True, False]),
    ("less_equal", ([1.0, 2.0], [1.0, 1.0]), {}, ([0, 0], [0, 0]), [True, False]),
    ("greater", ([1.0, 2.0], [1.0, 1.0]), {}, ([0, 0], [0, 0]), [True, False]),
    ("greater_equal", ([1.0, 2.0], [1.0, 1.0]), {}, ([0, 0], [0, 0]), [True, False]),
    ("equal", ([1.0, 2.0], [1.0, 1.0]), {}, ([0, 0], [0, 0]), [True, False]),
    ("not_equal", ([1.0, 2.0], [1.0, 1.0]), {}, ([0, 0], [0, 0]), [True, False]),
    ("sign", ([0.0, 1.0],), {}, ([0, 0],), [True, False]),
]


@pytest.mark.parametrize(("name", "arrays", "keywords", "expected", "kinks"), CONVENTIONS)
def test_convention(name: str, arrays: Any, keywords: Any, expected: Any, kinks: Any) -> None:
    row = ROWS[name]
    xs = tuple(np.array(a) for a in arrays)
    y, pull = vjp(lambda *xs: row(*xs, **keywords), *xs)
    for x_bar, slope in zip(pull(np.ones(y.shape)), expected, strict=True):
        np.testing.assert_array_equal(x_bar, slope)
    for i, slope in enumerate(expected):
        for j in np.ndindex(xs[i].shape):  # the tangent of one input element at a time
            x_dots = tuple(np.zeros(x.shape) for x in xs)
            x_dots[i][j] = 1
            y_dot = jvp(lambda *xs: row(*xs, **keywords), xs, x_dots)[1]
            assert np.nansum(y_dot) == np.asarray(slope)[j]
    found = row.at_kink(*xs, **keywords)
    if kinks is None:
        assert found is None
    else:
        assert found is not None
        assert found.shape == y.shape
        np.testing.assert_array_equal(found, kinks)


def test_every_row_with_kinks_has_its_convention_tested() -> None:
    assert {n for n, row in ROWS.items() if row.kinks_at} <= {name for name, *_ in CONVENTIONS}
