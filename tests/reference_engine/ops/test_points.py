"""At the points that a row speaks of, both modes give the stated gradient, and kinks are found."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from reference_engine import jvp, vjp
from reference_engine.floats import as_dtype
from reference_engine.op import INTERNAL, TABLE, Op, Point
from tests.every import by_family

ROWS = {**TABLE, **INTERNAL}
POINTS = [(row, point) for row in ROWS.values() for point in row.points]
of_their_row = partial(by_family, name_of=lambda case: case[0].name)
ROUNDINGS = 16  # a derivative takes a few operations, each right to a unit or two


def arguments(row: Op, point: Point) -> list[Any]:
    """Floats in the point's dtype; the others as they are stated."""
    kind = as_dtype(point.dtype)
    arrays = [np.asarray(value) for value in point.at]
    return [
        a.astype(kind) if a.dtype.kind == "f" and i not in row.kinds else a
        for i, a in enumerate(arrays)
    ]


def close(computed: Any, expected: Any, dtype: str) -> None:
    unit = float(np.finfo(dtype).eps)
    smallest = float(np.finfo(dtype).smallest_subnormal)
    wanted = np.broadcast_to(np.asarray(expected, np.float64), np.shape(computed))
    np.testing.assert_allclose(computed, wanted, rtol=ROUNDINGS * unit, atol=smallest)


@of_their_row(POINTS)
def test_reverse_mode_gives_the_stated_gradient(case: tuple[Op, Point]) -> None:
    row, point = case
    xs = arguments(row, point)
    active = [i for i, x in enumerate(xs) if x.dtype.kind == "f"]

    def f(*some: Any) -> Any:
        full = list(xs)
        for i, x in zip(active, some, strict=True):
            full[i] = x
        return row(*full, **point.keywords)

    y, pull = vjp(f, *(xs[i] for i in active), unconnected="none")
    if point.value is not None:
        close(y, point.value, point.dtype)
    if y.dtype.kind != "f":
        assert set(point.gradient) == {None}
        return
    for i, x_bar in zip(active, pull(np.ones(y.shape, y.dtype)), strict=True):
        if point.gradient[i] is None:
            assert x_bar is None
        else:
            close(x_bar, point.gradient[i], point.dtype)


@of_their_row(POINTS)
def test_forward_mode_gives_it_too(case: tuple[Op, Point]) -> None:
    row, point = case
    xs = arguments(row, point)
    for i, slope in enumerate(point.gradient):
        if slope is None or xs[i].dtype.kind != "f":
            continue

        def f(x: Any, i: int = i) -> Any:
            return row(*xs[:i], x, *xs[i + 1 :], **point.keywords)

        stated = np.broadcast_to(np.asarray(slope, np.float64), xs[i].shape)
        for j in np.ndindex(xs[i].shape):  # the tangent of one input element at a time
            x_dot = np.zeros_like(xs[i])
            x_dot[j] = 1
            y_dot = jvp(f, (xs[i],), (x_dot,))[1]
            if np.isnan(stated[j]):
                assert np.isnan(y_dot).any()
                continue
            # an element that the tangent does not reach may be 0 * inf
            total = np.sum(y_dot[~np.isnan(y_dot)]) if np.ndim(y_dot) else y_dot
            close(total, stated[j], point.dtype)


@of_their_row([case for case in POINTS if case[1].kind in ("kink", "tie", "jump")])
def test_the_row_finds_its_kinks(case: tuple[Op, Point]) -> None:
    row, point = case
    xs = arguments(row, point)
    found = row.at_kink(*xs, **point.keywords)
    assert found is not None
    assert found.shape == row.value(*xs, **point.keywords).shape
    assert found.any()


# What the rows' own examples do not show: ties among some elements, on some axes, without bounds.
FOUND: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("relu", ([0.0, -0.0, 1.0],), {}, [True, True, False]),
    ("abs", ([0.0, -2.0],), {}, [True, False]),
    ("maximum", ([1.0, 2.0], [1.0, 1.0]), {}, [True, False]),
    ("minimum", ([1.0, 2.0], [1.0, 1.0]), {}, [True, False]),
    ("clip", ([0.0, 1.0, 0.5, -1.0],), {"min": 0, "max": 1}, [True, True, False, False]),
    ("clip", ([0.0, 1.0],), {"max": 1.0}, [False, True]),
    ("clip", ([0.0, 1.0],), {}, [False, False]),
    ("max", ([1.0, 3.0, 2.0],), {}, False),
    ("max", ([[1.0, 1.0], [2.0, 3.0]],), {"axis": 1}, [True, False]),
    ("min", ([[1.0, 1.0], [2.0, 3.0]],), {"axis": 1, "keepdims": True}, [[True], [False]]),
    ("norm", ([[0.0, 0.0], [0.0, 2.0]],), {"axis": 1}, [True, False]),
    ("less", ([1.0, 2.0], [1.0, 1.0]), {}, [True, False]),
    ("sign", ([0.0, 1.0],), {}, [True, False]),
]


@pytest.mark.parametrize(("name", "arrays", "keywords", "expected"), FOUND)
def test_kinks_are_told_from_other_elements(
    name: str, arrays: Any, keywords: Any, expected: Any
) -> None:
    found = ROWS[name].at_kink(*(np.array(a) for a in arrays), **keywords)
    np.testing.assert_array_equal(found, expected)
