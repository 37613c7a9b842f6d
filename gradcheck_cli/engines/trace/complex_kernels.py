"""Kernels of complex numbers, as pairs of real and imaginary parts.

A Fourier transform is a product with the matrix of all its waves. Cosines that are 0 or 1 are
exact, and all others are rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.trace.exact_kernels import Kernel, row

Turns = np.ndarray[Any, np.dtype[np.int64]]
"""Angles, in parts of a whole turn."""

UNSCALED, BY_ROOT, BY_COUNT = 0, 1, 2
"""What a transform is divided by, in PyTorch's codes: nothing, the root of the number of elements,
or that number."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Complex numbers as two arrays of one shape."""

    re: Any
    im: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return self.re.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)


def pair_of(x: Any) -> Pair:
    """A pair from numbers with their parts along the last axis."""
    return Pair(row("getitem")(x, index=(..., 0)), row("getitem")(x, index=(..., 1)))


def joined_parts(z: Any) -> Any:
    """A pair as one array with the parts along a last axis. Other values are unchanged."""
    if not isinstance(z, Pair):
        return z
    shape = np.broadcast_shapes(z.re.shape, z.im.shape)
    parts = [row("broadcast_to")(x, shape=shape) for x in (z.re, z.im)]
    return row("stack")(*parts, axis=-1)


def on_parts(kernel: Kernel, places: Sequence[int] = ()) -> Kernel:
    """A kernel of pairs, as a kernel of arrays. Arguments in `places`, and results that are pairs,
    have their parts along the last axis."""

    def call(*given: Any, **how: Any) -> Any:
        args = [pair_of(x) if place in places else x for place, x in enumerate(given)]
        made = kernel(*args, **how)
        return tuple(map(joined_parts, made)) if isinstance(made, tuple) else joined_parts(made)

    return call


def as_pair(z: Any) -> Pair:
    """A real array as complex numbers."""
    return z if isinstance(z, Pair) else Pair(z, np.zeros(np.shape(z)))


def constant(x: Any) -> Any:
    """Complex constants of the code as a pair."""
    if isinstance(x, complex) or getattr(getattr(x, "dtype", None), "kind", "") == "c":
        return Pair(np.asarray(x.real), np.asarray(x.imag))
    return x


def linear(kernel: Kernel) -> Kernel:
    """A kernel of complex numbers that is linear in its first argument."""
    return lambda z, *rest, **how: Pair(kernel(z.re, *rest, **how), kernel(z.im, *rest, **how))


def bilinear(kernel: Kernel) -> Kernel:
    """A product of two arrays of which at least one is complex."""

    def of_pairs(a: Any, b: Any, **how: Any) -> Pair:
        if not isinstance(a, Pair):
            return Pair(kernel(a, b.re, **how), kernel(a, b.im, **how))
        if not isinstance(b, Pair):
            return Pair(kernel(a.re, b, **how), kernel(a.im, b, **how))
        re = kernel(a.re, b.re, **how) - kernel(a.im, b.im, **how)
        return Pair(re, kernel(a.re, b.im, **how) + kernel(a.im, b.re, **how))

    return of_pairs


def conjugate(z: Any) -> Any:
    return Pair(z.re, -z.im) if isinstance(z, Pair) else z


def absolute(z: Pair) -> Any:
    return row("hypot")(z.re, z.im)


def angle(z: Pair) -> Any:
    return row("atan2")(z.im, z.re)


def polar(size: Any, turned: Any) -> Pair:
    return Pair(size * row("cos")(turned), size * row("sin")(turned))


multiply = bilinear(row("multiply"))


def add(a: Any, b: Any) -> Pair:
    a, b = as_pair(a), as_pair(b)
    return Pair(a.re + b.re, a.im + b.im)


def negative(z: Pair) -> Pair:
    return Pair(-z.re, -z.im)


def subtract(a: Any, b: Any) -> Pair:
    return add(a, negative(as_pair(b)))


def divide(a: Any, b: Any) -> Pair:
    if not isinstance(b, Pair):
        return Pair(a.re / b, a.im / b)
    above, below = multiply(a, conjugate(b)), b.re * b.re + b.im * b.im
    return Pair(above.re / below, above.im / below)


def reciprocal(z: Pair) -> Pair:
    return divide(1.0, z)


def exp(z: Pair) -> Pair:
    return polar(row("exp")(z.re), z.im)


def log(z: Pair) -> Pair:
    return Pair(row("log")(absolute(z)), angle(z))


def power(z: Any, w: Any) -> Pair:
    if isinstance(z, Pair) and not isinstance(w, Pair):
        if isinstance(w, int | float) and w == int(w) and abs(w) <= MOST_FACTORS:
            whole = _whole_power(z, abs(int(w)))
            return reciprocal(whole) if w < 0 else whole
        return polar(row("power")(absolute(z), w), w * angle(z))
    return exp(multiply(w, log(as_pair(z))))


MOST_FACTORS = 64
"""Of a power that is written as products, which have no logarithm of 0."""


def _whole_power(z: Pair, n: int) -> Pair:
    if n == 0:
        return as_pair(np.ones(z.shape))
    if n == 1:
        return z
    half = _whole_power(z, n // 2)
    square: Pair = multiply(half, half)
    return multiply(square, z) if n % 2 else square


def sqrt(z: Pair) -> Pair:
    return polar(row("sqrt")(absolute(z)), 0.5 * angle(z))


def sinh(z: Pair) -> Pair:
    return Pair(
        row("sinh")(z.re) * row("cos")(z.im),
        row("cosh")(z.re) * row("sin")(z.im),
    )


def cosh(z: Pair) -> Pair:
    return Pair(
        row("cosh")(z.re) * row("cos")(z.im),
        row("sinh")(z.re) * row("sin")(z.im),
    )


def tanh(z: Pair) -> Pair:
    along, across = row("tanh")(z.re), row("tan")(z.im)
    return divide(Pair(along, across), Pair(1.0 + 0.0 * along, along * across))


def sigmoid(z: Pair) -> Pair:
    half = tanh(Pair(0.5 * z.re, 0.5 * z.im))
    return Pair(0.5 + 0.5 * half.re, 0.5 * half.im)


def _turned(kernel: Callable[[Pair], Pair]) -> Kernel:
    """-i f(i z): sin of sinh, tan of tanh."""

    def call(z: Pair) -> Pair:
        found = kernel(Pair(-z.im, z.re))
        return Pair(found.im, -found.re)

    return call


def where(mask: Any, a: Any, b: Any) -> Pair:
    a, b = as_pair(a), as_pair(b)
    return Pair(row("where")(mask, a.re, b.re), row("where")(mask, a.im, b.im))


def equal(a: Any, b: Any) -> Any:
    a, b = as_pair(a), as_pair(b)
    return row("logical_and")(row("equal")(a.re, b.re), row("equal")(a.im, b.im))


PAIRS: dict[str, Kernel] = {
    **{"add": add, "subtract": subtract, "multiply": multiply, "divide": divide},
    **{"negative": negative, "reciprocal": reciprocal, "power": power, "exp": exp, "log": log},
    **{"abs": absolute, "sqrt": sqrt, "sinh": sinh, "cosh": cosh, "tanh": tanh, "where": where},
    **{"sigmoid": sigmoid, "sin": _turned(sinh), "tan": _turned(tanh), "equal": equal},
    "rsqrt": lambda z: reciprocal(sqrt(z)),
    "cos": lambda z: cosh(Pair(-z.im, z.re)),
    "square": lambda z: multiply(z, z),
    "expm1": lambda z: subtract(exp(z), 1.0),
    "log1p": lambda z: log(add(z, 1.0)),
    "sign": lambda z: divide(z, absolute(z)),
    "not_equal": lambda a, b: row("logical_not")(equal(a, b)),
    "matmul": bilinear(row("matmul")),
    "stop_gradient": linear(row("stop_gradient")),
}
"""Rows of the op table for complex numbers."""


def _row_of_number(x: Any, number: float) -> Any:
    """The number, (1,), as a row of the run that contains `x`. Computations with it are exact, and
    it does not change with `x`."""
    one = row("getitem")(row("reshape")(x, shape=(-1,)), index=slice(0, 1))
    return row("full_like")(row("stop_gradient")(one), fill_value=number)


def _cosines(x: Any, turns: Turns, whole: int) -> Any:
    """cos(2 pi turns / whole). `x` is any array of the run; the constants become rows of the same
    run."""
    distinct, places = np.unique(np.minimum(turns % whole, -turns % whole), return_inverse=True)
    simple = {0: 1.0, whole / 6: 0.5, whole / 4: 0.0, whole / 3: -0.5, whole / 2: -1.0}
    known = np.array([turn in simple for turn in distinct])
    values = np.array([simple.get(turn, np.nan) for turn in distinct])
    if known.all():
        return values[places].reshape(turns.shape)
    angles = row("acos")(_row_of_number(x, -1.0)) * (2.0 * distinct) / float(whole)
    all_values = row("where")(known, values, row("cos")(angles))
    return row("reshape")(row("take")(all_values, places.reshape(-1), axis=0), shape=turns.shape)


def _turns(taken: Sequence[int], given: Sequence[int], sizes: Sequence[int]) -> tuple[Turns, int]:
    """The angle between every position of the input and every position of the result."""
    whole = math.lcm(*sizes)
    turns: Turns = np.zeros((1, 1), np.int64)
    for n, first, last in zip(sizes, taken, given, strict=True):
        own = np.outer(np.arange(first), np.arange(last)) * (whole // n)
        turns = (turns[:, None, :, None] + own[None, :, None, :]).reshape(
            turns.shape[0] * first, turns.shape[1] * last
        )
    return turns, whole


class _Transform:
    """The matrix between the axes `dim` of an array, with these sizes of the input and the result,
    for signals of the lengths `sizes`."""

    def __init__(
        self, x: Any, ndim: int, dim: Sequence[int], given: Sequence[int], sizes: Sequence[int]
    ) -> None:
        self._dim = [d % ndim for d in dim]
        self._outer = [i for i in range(ndim) if i not in self._dim]
        self._given = given
        taken = [x.shape[d] for d in self._dim]
        turns, whole = _turns(taken, given, sizes)
        self.cos = _cosines(x, turns, whole)
        self.sin = _cosines(x, 4 * turns - whole, 4 * whole)

    def flat(self, x: Any) -> Any:
        """The array with the axes of the transform joined to one last axis."""
        moved = _in_order(x, (*self._outer, *self._dim))
        if len(self._dim) == 1:
            return moved
        return row("reshape")(moved, shape=(*(x.shape[i] for i in self._outer), -1))

    def back(self, y: Any) -> Any:
        if len(self._dim) > 1:
            y = row("reshape")(y, shape=(*y.shape[:-1], *self._given))
        return _in_order(y, np.argsort([*self._outer, *self._dim]).tolist())


def _in_order(x: Any, axes: Sequence[int]) -> Any:
    is_so = list(axes) == list(range(x.ndim))
    return x if is_so else row("transpose")(x, axes=tuple(axes))


def _scaled(x: Any, y: Any, normalization: int, count: int) -> Any:
    if normalization == UNSCALED:
        return y
    if normalization == BY_COUNT:
        by: Any = float(count)
    else:
        by = row("sqrt")(_row_of_number(x, float(count)))
    return Pair(y.re / by, y.im / by) if isinstance(y, Pair) else y / by


def of_real(x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Pair:
    """The Fourier transform of real numbers along these axes; `onesided`: its first half."""
    sizes = [x.shape[d] for d in dim]
    given = [*sizes[:-1], sizes[-1] // 2 + 1] if onesided else sizes
    transform = _Transform(x, x.ndim, dim, given, sizes)
    flat = transform.flat(x)
    re = transform.back(row("matmul")(flat, transform.cos))
    im = transform.back(-row("matmul")(flat, transform.sin))
    return _scaled(x, Pair(re, im), normalization, math.prod(sizes))


def of_complex(z: Pair, dim: Sequence[int], normalization: int, forward: bool) -> Pair:
    """The Fourier transform along these axes, or its inverse (not `forward`)."""
    sizes = [z.shape[d] for d in dim]
    transform = _Transform(z.re, z.ndim, dim, sizes, sizes)
    re, im = transform.flat(z.re), transform.flat(z.im)
    cos, sin = transform.cos, transform.sin if forward else -transform.sin
    y_re = row("matmul")(re, cos) + row("matmul")(im, sin)
    y_im = row("matmul")(im, cos) - row("matmul")(re, sin)
    y = Pair(transform.back(y_re), transform.back(y_im))
    return _scaled(z.re, y, normalization, math.prod(sizes))


def to_real(z: Pair, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    """The real inverse transform of the first half of a spectrum. Only the real part counts for
    frequencies that are their own mirror image."""
    dim = [d % z.ndim for d in dim]
    sizes = [*(z.shape[d] for d in dim[:-1]), last_dim_size]
    index = (*(slice(None),) * dim[-1], slice(0, last_dim_size // 2 + 1))
    half = [row("getitem")(part, index=index) for part in (z.re, z.im)]
    transform = _Transform(half[0], z.ndim, dim, sizes, sizes)
    twice = np.full(last_dim_size // 2 + 1, 2.0)
    twice[0] = 1.0
    if last_dim_size % 2 == 0:
        twice[-1] = 1.0
    weights = np.tile(twice, math.prod(z.shape[d] for d in dim[:-1]))
    re, im = (transform.flat(part) * weights for part in half)
    y = row("matmul")(re, transform.cos) - row("matmul")(im, transform.sin)
    return _scaled(z.re, transform.back(y), normalization, math.prod(sizes))


def kernel_of(own: Mapping[str, Kernel], rows: Mapping[str, str], name: str) -> Kernel | None:
    """The kernel of an operation of this name that takes or gives complex numbers, which are pairs
    to it: its own one, or that of its row."""
    kernel = PAIRS.get(rows.get(name, ""))
    plain: Kernel | None = None if kernel is None else lambda *xs, **how: kernel(*xs)
    return own.get(name, plain)
