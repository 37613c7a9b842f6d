"""The points at which each row of the op table is tested: random points of its domain, as data.

A `Sample` draws the arrays of one call. `REAL`, `POSITIVE` and so on say from where; shapes and
keywords follow. Points stay at least 0.05 away from kinks, ties and poles, which is far more than
the steps of the finite differences (0.004 at most).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from hypothesis.strategies import SearchStrategy

Array = npt.NDArray[Any]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]


def REAL(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.uniform(-2, 2, shape)


def POSITIVE(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.uniform(0.3, 3, shape)


def ABOVE_MINUS_ONE(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.uniform(-0.7, 3, shape)


def AWAY_FROM_ZERO(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.uniform(0.3, 3, shape) * rng.choice([-1, 1], shape))


def BETWEEN_POLES_OF_TAN(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.uniform(-1.1, 1.1, shape) + np.pi * rng.integers(-2, 3, shape)


def DISTINCT(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers at least 0.15 apart, and at least 0.075 from multiples of 0.2."""
    n = int(np.prod(shape))
    grid = 0.2 * (rng.permutation(n) - n // 2) + 0.1
    return (grid + rng.uniform(-0.025, 0.025, n)).reshape(shape)


def INSIDE_ONE(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.uniform(-0.85, 0.85, shape)


def ABOVE_ONE(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.uniform(1.2, 4, shape)


def AWAY_FROM_HALVES(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.uniform(-0.4, 0.4, shape) + rng.integers(-3, 4, shape)


def BETWEEN_WHOLE(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.uniform(0.2, 0.8, shape) + rng.integers(-3, 3, shape)


def NEAR_PLUS_MINUS_ONE(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Divisors near 1 and -1. No quotient of a number from BETWEEN_WHOLE by them is within 0.1 of
    an integer."""
    return np.asarray(rng.uniform(0.98, 1.02, shape) * rng.choice([-1, 1], shape))


def UPPER(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers at least 0.05 from all numbers of DISTINCT."""
    return np.asarray(DISTINCT(rng, shape) + 0.1)


def between(low: float, high: float) -> Draw:
    return lambda rng, shape: rng.uniform(low, high, shape)


def BOOL(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(0, 2, shape).astype(bool)


@dataclass(frozen=True)
class Sample:
    """One way to call a row: the draws and shapes of its arrays, and the keywords."""

    draws: tuple[Draw, ...]
    shapes: tuple[tuple[int, ...], ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)

    def arrays(self, seed: int) -> tuple[Array, ...]:
        rng = np.random.default_rng(seed)
        return tuple(draw(rng, shape) for draw, shape in zip(self.draws, self.shapes, strict=True))

    def __str__(self) -> str:
        shapes = "x".join(str(shape).replace(" ", "") for shape in self.shapes)
        keywords = ",".join(f"{k}={v}" for k, v in self.keywords.items())
        return f"{shapes} {keywords}".strip()


SHAPES: tuple[tuple[int, ...], ...] = ((3,), (), (2, 1, 2), (1,), (0, 2))
PAIRS = (
    ((3,), (3,)),
    ((), ()),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((), (2, 2)),
    ((1, 1, 2), (2, 1)),
    ((1,), (0, 1)),
)


def unary(draw: Draw, **keywords: Any) -> list[Sample]:
    return [Sample((draw,), (shape,), keywords) for shape in SHAPES]


def binary(first: Draw, second: Draw) -> list[Sample]:
    return [Sample((first, second), pair) for pair in PAIRS]


def apart() -> list[Sample]:
    """Two arrays without ties between any elements that are combined."""
    return [Sample((DISTINCT, UPPER), pair) for pair in PAIRS if pair != ((), ())]


def one(draw: Draw, *shape: int, **keywords: Any) -> Sample:
    return Sample((draw,), (shape,), keywords)


def reduction(draw: Draw, *, empty: bool = True) -> list[Sample]:
    return [
        one(draw, 3),
        one(draw),
        one(draw, 1),
        one(draw, 2, 3, axis=0),
        one(draw, 2, 3, axis=-1, keepdims=True),
        one(draw, 2, 3, 2, axis=(0, 2)),
        one(draw, 2, 3, 2, axis=(2, 0), keepdims=True),
        one(draw, 2, 3, keepdims=True),
        one(draw, 3, 1, axis=1),
        *([one(draw, 0, 2, axis=0), one(draw, 2, 0, axis=1)] if empty else []),
        one(draw, 2, 0, axis=0),
    ]


def along_axis(draw: Draw) -> list[Sample]:
    return [
        one(draw, 3),
        one(draw, 2, 3),
        one(draw, 2, 3, axis=0),
        one(draw, 1),
        one(draw, 3, 1),
        one(draw, 0, 3),
    ]


SPECIAL = (0.0, -0.0, 1.0, -1.0, 1e-300, -1e-300, 1e300, -1e300)
"""What every elementwise row is asked for, in each argument, as far as its domain has it."""


def _everywhere(*xs: float) -> bool:
    return True


@dataclass(frozen=True)
class Exact:
    """An elementwise row as a function of mpmath numbers, right to every digit.

    function     called with one mpf for each argument, and the keywords; the caller sets the
                 precision, so that constants are written mpmath.mpf(1) / 3, mpmath.pi
    points       tuples of arguments: SPECIAL, and points at which the function is hard
    orders       the highest order of derivative that is tested at ordinary points
    strained     points at which only the value and the first derivative are tested
    delicate     points at which no other engine is tested: the remaining digits depend on how each
                 operation happens to round
    calls        the keywords of each call, over all points
    domain       where all derivatives exist: an open set without kinks and poles
    roundings    units of roundoff that a value or a derivative may be off; if not the usual few,
                 say why next to it
    """

    function: Callable[..., Any]
    points: tuple[tuple[float, ...], ...]
    orders: int = 2
    strained: tuple[tuple[float, ...], ...] = ()
    delicate: tuple[tuple[float, ...], ...] = ()
    calls: tuple[Mapping[str, Any], ...] = ({},)
    domain: Callable[..., bool] = _everywhere
    roundings: int = 16


def single(*points: float) -> tuple[tuple[float, ...], ...]:
    """Points of a function of one argument."""
    return tuple((x,) for x in points)


def pairs(text: str) -> tuple[tuple[float, ...], ...]:
    """Points of a function of two arguments: "first second; first second"."""
    return tuple(tuple(float(x) for x in pair.split()) for pair in text.split(";"))


def any_broadcast(*draws: Draw, **keywords: SearchStrategy[Any]) -> SearchStrategy[Sample]:
    """Calls with arrays of any shapes that broadcast, and keywords from these strategies."""
    shapes = mutually_broadcastable_shapes(
        num_shapes=len(draws), min_dims=0, max_dims=3, min_side=0, max_side=3
    )
    return st.builds(
        lambda broadcast, chosen: Sample(draws, broadcast.input_shapes, chosen),
        shapes,
        st.fixed_dictionaries(keywords),
    )


def any_shape(draw: Draw, **keywords: SearchStrategy[Any]) -> SearchStrategy[Sample]:
    """Calls with one array of any shape."""
    return any_broadcast(draw, **keywords)


def any_pair(first: Draw, second: Draw) -> SearchStrategy[Sample]:
    """Calls with two arrays of any shapes that broadcast."""
    return any_broadcast(first, second)


def by_mpmath(exact: Exact) -> Callable[..., Any]:
    """The row's value, element by element, by the function of mpmath numbers."""

    def value(*arrays: Any, **keywords: Any) -> Array:
        broadcast = np.broadcast_arrays(*arrays)
        with mpmath.workprec(200):
            flat = [
                float(exact.function(*(mpmath.mpf(float(x)) for x in xs), **keywords))
                for xs in zip(*(a.ravel() for a in broadcast), strict=True)
            ]
        return np.array(flat, np.float64).reshape(broadcast[0].shape)

    return value


def any_sizes(*, min_dims: int = 0, min_side: int = 0) -> SearchStrategy[tuple[int, ...]]:
    """Shapes of up to three axes, with at most 24 elements."""
    return (
        st.lists(st.integers(min_side, 4), min_size=min_dims, max_size=3)
        .map(tuple)
        .filter(lambda shape: np.prod(shape) <= 24)
    )


@st.composite
def any_reduction(
    pick: Any, draw: Draw, *, min_side: int = 1, many: bool = True, **keywords: SearchStrategy[Any]
) -> Sample:
    """A call that reduces no axis, one, several (`many`) or all axes of an array of any shape."""
    shape = pick(any_sizes(min_side=min_side))
    ndim = len(shape)
    choices = [st.none()]
    if ndim:
        choices.append(st.integers(-ndim, ndim - 1))
    if ndim and many:
        signed = st.sampled_from([lambda i: i, lambda i: i - ndim])
        some = st.lists(st.tuples(st.integers(0, ndim - 1), signed), min_size=1, max_size=ndim)
        apart = some.filter(lambda pairs: len({i for i, _ in pairs}) == len(pairs))
        choices.append(apart.map(lambda pairs: tuple(sign(i) for i, sign in pairs)))
    axis = pick(st.one_of(choices))
    chosen = pick(st.fixed_dictionaries(keywords))
    return Sample((draw,), (shape,), {"axis": axis, "keepdims": pick(st.booleans()), **chosen})


@st.composite
def any_along(
    pick: Any, *draws: Draw, min_side: int = 1, **keywords: SearchStrategy[Any]
) -> Sample:
    """A call along one axis of arrays of one shape."""
    shape = pick(any_sizes(min_dims=1, min_side=min_side))
    axis = pick(st.integers(-len(shape), len(shape) - 1))
    chosen = pick(st.fixed_dictionaries(keywords))
    return Sample(draws, (shape,) * len(draws), {"axis": axis, **chosen})


def DISTINCT_SIZES(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers of either sign, with absolute values at least 0.15 apart and at least 0.25."""
    n = int(np.prod(shape))
    sizes = 0.2 * rng.permutation(n) + 0.3 + rng.uniform(-0.025, 0.025, n)
    return np.asarray((sizes * rng.choice([-1, 1], n)).reshape(shape))


def below(size: int) -> Draw:
    """Indices into an axis of this size, from either end."""
    return lambda rng, shape: rng.integers(-size, size, shape)
