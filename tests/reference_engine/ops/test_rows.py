"""Every row against finite differences, in both modes and in second order, in any mix of modes."""

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from reference_engine import grad, jvp, vjp
from reference_engine.floats import as_dtype
from reference_engine.op import INTERNAL, TABLE, Op
from tests.every import by_family, every
from tests.reference_engine.samples import RANDOM, SAMPLES, Sample

ROWS = {**TABLE, **INTERNAL}
SMOOTH = [name for name in SAMPLES if ROWS[name].differentiable]
ROUGH = [name for name in SAMPLES if not ROWS[name].differentiable]
SEED = 2
few = settings(max_examples=4, deadline=None, database=None, phases=[Phase.generate])

STEP = 1e-3
# Truncation is h^4/30 times a fifth derivative, which reaches 1e4 at these points (tan): 3e-10.
# Rounding is 1e-16 / h = 1e-13 times a condition number of the same kind. Relative to the size of
# the terms, with room for both:
TOLERANCE = 1e-8


def difference(f: Callable[[float], Any]) -> Any:
    """df/dt at 0 by central differences: truncation O(h^4), rounding O(eps/h)."""
    h = STEP
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


class Scalar:
    """<v, op(x)> as a function of the arguments that can be differentiated, with directions."""

    def __init__(self, row: Op, sample: Sample, seed: int) -> None:
        arrays = sample.arrays(seed)
        self.row, self.keywords, self.arrays = row, sample.keywords, arrays
        self.active = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
        self.xs = tuple(arrays[i] for i in self.active)
        self.y = row.value(*arrays, **sample.keywords)
        rng = np.random.default_rng(seed + 1)
        self.v = rng.uniform(0.5, 1, self.y.shape) * rng.choice([-1, 1], self.y.shape)
        self.u = tuple(rng.uniform(-1, 1, x.shape) for x in self.xs)
        self.w = tuple(rng.uniform(-1, 1, x.shape) for x in self.xs)

    def output(self, *xs: Any) -> Any:
        full: list[Any] = list(self.arrays)
        for i, x in zip(self.active, xs, strict=True):
            full[i] = x
        return self.row(*full, **self.keywords)

    def __call__(self, *xs: Any) -> Any:
        return TABLE["sum"](self.v * self.output(*xs))

    def moved(self, t: float, along: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(x + t * d for x, d in zip(self.xs, along, strict=True))


def inner(a: Any, b: Any) -> Any:
    return sum(TABLE["sum"](x * y) for x, y in zip(a, b, strict=True))


def near(computed: Any, expected: Any) -> None:
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    np.testing.assert_allclose(computed, expected, rtol=0, atol=TOLERANCE * scale)


@by_family(SMOOTH)
def test_both_modes_against_differences(name: str) -> None:
    every(SAMPLES[name], lambda sample: compare_with_differences(ROWS[name], sample, SEED))


@by_family([name for name in RANDOM if ROWS[name].differentiable])
@few
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_both_modes_at_random_shapes_and_keywords(
    name: str, data: st.DataObject, seed: int
) -> None:
    compare_with_differences(ROWS[name], data.draw(RANDOM[name]), seed)


def compare_with_differences(row: Op, sample: Sample, seed: int) -> None:
    f = Scalar(row, sample, seed)
    y, y_dot = jvp(f.output, f.xs, f.u)
    _, pull = vjp(f.output, *f.xs)
    x_bars = pull(f.v)
    np.testing.assert_array_equal(y, f.y)
    assert y_dot.shape == f.y.shape
    assert [x_bar.shape for x_bar in x_bars] == [x.shape for x in f.xs]
    near(y_dot, difference(lambda t: f.output(*f.moved(t, f.u))))
    # <v, J u> = <J^T v, u>: both sides sum at most 24 products of a few roundings each.
    forward, reverse = np.sum(f.v * y_dot), inner(x_bars, f.u)
    size = sum(np.sum(np.abs(x_bar * u)) for x_bar, u in zip(x_bars, f.u, strict=True))
    assert abs(forward - reverse) <= 1e-13 * (1 + size)


@by_family(SMOOTH)
def test_second_order_in_every_mix_of_modes(name: str) -> None:
    every(SAMPLES[name], lambda sample: compare_second_order(ROWS[name], sample))


def compare_second_order(row: Op, sample: Sample) -> None:
    f = Scalar(row, sample, SEED)
    places = tuple(range(len(f.xs)))
    gradient = grad(f, places)
    expected = difference(lambda t: inner(gradient(*f.moved(t, f.w)), f.u))

    def slope(*xs: Any) -> Any:
        return jvp(f, xs, f.u)[1]

    forward_over_reverse = jvp(lambda *xs: inner(gradient(*xs), f.u), f.xs, f.w)[1]
    reverse_over_reverse = inner(grad(lambda *xs: inner(gradient(*xs), f.u), places)(*f.xs), f.w)
    reverse_over_forward = inner(grad(slope, places)(*f.xs), f.w)
    forward_over_forward = jvp(slope, f.xs, f.w)[1]
    for second in (
        forward_over_reverse,
        reverse_over_reverse,
        reverse_over_forward,
        forward_over_forward,
    ):
        near(second, expected)


@by_family(ROUGH)
def test_rows_without_a_derivative_cut_every_path(name: str) -> None:
    every(SAMPLES[name], lambda sample: assert_cut(ROWS[name], sample))


@by_family([name for name in RANDOM if not ROWS[name].differentiable])
@few
@given(data=st.data())
def test_they_do_so_at_random_shapes_and_keywords(name: str, data: st.DataObject) -> None:
    assert_cut(ROWS[name], data.draw(RANDOM[name]))


def assert_cut(row: Op, sample: Sample) -> None:
    arrays = sample.arrays(0)
    if any(a.dtype.kind != "f" for a in arrays):
        return
    y, y_dot = jvp(lambda *xs: row(*xs, **sample.keywords), arrays, arrays)
    np.testing.assert_array_equal(y, row.value(*arrays, **sample.keywords))
    assert not y_dot.any()
    _, pull = vjp(lambda *xs: row(*xs, **sample.keywords), *arrays, unconnected="none")
    assert pull(np.ones(y.shape, y.dtype)) == (None,) * len(arrays)


FORMATS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}


@by_family([name for name in SMOOTH if name != "astype"])
def test_results_keep_the_dtype(name: str) -> None:
    """The first call of a row in every dtype, the others in turn: what may differ between two
    shapes does not depend on which of the dtypes it is."""
    first, *others = SAMPLES[name]
    cases = [*((first, dtype) for dtype in FORMATS), *zip(others, cycle(FORMATS), strict=False)]
    every(cases, lambda case: compare_dtypes(ROWS[name], *case))


def compare_dtypes(row: Op, sample: Sample, dtype: str) -> None:
    kind = as_dtype(dtype)
    f = Scalar(row, sample, SEED)
    f.arrays = tuple(a.astype(kind) if a.dtype.kind == "f" else a for a in f.arrays)
    xs = tuple(x.astype(kind) for x in f.xs)
    f.v = f.v.astype(kind)
    y, y_dot = jvp(f.output, xs, tuple(u.astype(kind) for u in f.u))
    _, pull = vjp(f.output, *xs)
    places = tuple(range(len(xs)))
    second = grad(lambda *some: inner(grad(f, places)(*some), xs), places)(*xs)
    for result in (y, y_dot, *pull(f.v), *second):
        assert result.dtype == kind
    # A few roundings each, of numbers not much above the largest intermediate (y itself, about 20).
    wide = Scalar(row, sample, SEED)
    exact = jvp(wide.output, wide.xs, wide.u)[1]
    size = 1 + np.max(np.abs(exact), initial=0) + np.max(np.abs(wide.y), initial=0)
    error = np.abs(y_dot.astype(np.float64) - exact)
    assert np.all(error <= 64 * FORMATS[dtype] * size)
