"""The rules of enclosures: for each row of the op table, range, error and where it has no value.

A rule takes the `Rounding` of the engine, the enclosed arguments (`Enclosed`, `Mask`, or arrays of
indices) and the keywords of a batched node, and gives the enclosed result. A row without a rule
raises `Exceeds`: then nothing is proven of a program that has it.

Arguments x, y have ranges [lo, hi] and computed numbers x + e with |e| <= d |x| + a.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from gradcheck_cli.search.enclosed import (
    Bounds,
    Enclosed,
    Flags,
    Rounding,
    exact,
    made,
    unrounded,
    up,
)

Keywords = Mapping[str, Any]
Rule = Callable[..., Any]
F = TypeVar("F", bound=Rule)

RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[F], F]:
    """Enters a rule under the names of rows."""

    def enter(function: F) -> F:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


def _flags(*xs: Enclosed) -> tuple[Flags, Flags]:
    bad, undefined = xs[0].bad, xs[0].undefined
    for x in xs[1:]:
        bad, undefined = bad | x.bad, undefined | x.undefined
    return bad, undefined


def read(rounding: Rounding, x: Enclosed) -> Enclosed:
    """An argument as an engine takes it that flushes subnormal numbers."""
    if not rounding.flush:
        return x
    with np.errstate(all="ignore"):
        small = x.least - x.error < rounding.normal
        nothing = (x.lo == 0) & (x.hi == 0) & (x.a == 0)
        a = np.where(small & ~nothing, up(x.a + rounding.normal), x.a)
    return Enclosed(x.lo, x.hi, x.d, a, x.bad, x.undefined)


# Arithmetic.


@rule("negative")
def negative(rounding: Rounding, x: Enclosed) -> Enclosed:
    return Enclosed(-x.hi, -x.lo, x.d, x.a, x.bad, x.undefined)


@rule("add")
def _add(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    """|e| <= max(dx, dy) |x + y| + ax + ay where x and y have one sign, else what cancels stays.
    A sum that underflows is exact."""
    with np.errstate(all="ignore"):
        lo, hi = x.lo + y.lo, x.hi + y.hi
        alike = ((x.lo >= 0) & (y.lo >= 0)) | ((x.hi <= 0) & (y.hi <= 0))
        stays = np.where(x.d == 0, 0.0, x.d * x.most) + np.where(y.d == 0, 0.0, y.d * y.most)
        d = np.where(alike, np.maximum(x.d, y.d), 0.0)
        a = x.a + y.a + np.where(alike, 0.0, up(stays))
    above, below = (x.lo >= 0) & (y.lo >= 0), (x.hi <= 0) & (y.hi <= 0)
    found = made(
        rounding, lo, hi, d, a, *_flags(x, y), least=sums(rounding), above=above, below=below
    )
    return relative(found)


def sums(rounding: Rounding) -> float:
    """What underflow costs a sum: nothing, but where subnormal results are flushed."""
    return rounding.normal if rounding.flush else 0.0


def relative(x: Enclosed) -> Enclosed:
    """An error that is stated by the size of the number where all numbers have about one size: the
    next factor is then not taken at its largest."""
    with np.errstate(all="ignore"):
        least = x.least
        near = (least > 0) & (x.most <= 4 * least) & (x.a > x.d * least * 2.0**-10)
        d = np.where(near, up(x.d + x.a / least), x.d)
    return Enclosed(x.lo, x.hi, d, np.where(near, 0.0, x.a), x.bad, x.undefined)


@rule("subtract")
def _subtract(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    return _add(rounding, x, negative(rounding, y))


def products(x: Enclosed, y: Enclosed, same: bool) -> tuple[Bounds, Bounds]:
    """The range of x y; of x x it is not below 0. 0 times infinity is 0: no factor is infinite."""
    with np.errstate(all="ignore"):
        if same:
            return np.square(x.least), np.square(x.most)
        corners = [_times(p, q) for p in (x.lo, x.hi) for q in (y.lo, y.hi)]
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


def _times(p: Bounds, q: Bounds) -> Bounds:
    return np.where((p == 0) | (q == 0), 0.0, p * q)


@rule("multiply")
def multiply(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    for one, other in ((x, y), (y, x)):
        if _is(one, 1.0) and not rounding.flush:
            return unrounded(other.lo, other.hi, other.d, other.a, *_flags(one, other))
    scales = _is_power_of_two(x) or _is_power_of_two(y)
    with np.errstate(all="ignore"):
        lo, hi = products(x, y, x is y)
        d = up(x.d + y.d + x.d * y.d)
        a = _times(x.a, y.most * (1 + y.d)) + _times(y.a, x.most * (1 + x.d)) + x.a * y.a
    above = ((x.lo >= 0) & (y.lo >= 0)) | ((x.hi <= 0) & (y.hi <= 0)) | (x is y)
    below = ((x.lo >= 0) & (y.hi <= 0)) | ((x.hi <= 0) & (y.lo >= 0))
    u = 0.0 if scales else rounding.unit
    found = made(rounding, lo, hi, d, a, *_flags(x, y), relative=u, above=above, below=below)
    return _with_zeros(found, _nothing(x) | _nothing(y))


def _nothing(x: Enclosed) -> Flags:
    """Whether it is 0, and the engine has 0."""
    return np.asarray((x.most == 0) & (x.a == 0))


def _is(x: Enclosed, number: float) -> bool:
    return bool(np.all(x.lo == number) and np.all(x.hi == number) and not np.any(x.error))


def _is_power_of_two(x: Enclosed) -> bool:
    """Whether it is one exact power of two, with which products are exact but for underflow."""
    number = float(x.lo.flat[0])
    return bool(np.frexp(abs(number))[0] == 0.5) and _is(x, number)


def _with_zeros(x: Enclosed, nothing: Flags) -> Enclosed:
    """The result, exactly 0 where a factor is exactly 0 and the other is a number."""
    at = nothing & ~x.bad
    lo, hi, d, a = (np.where(at, 0.0, part) for part in (x.lo, x.hi, x.d, x.a))
    return Enclosed(lo, hi, d, a, x.bad, x.undefined)


@rule("square")
def _square(rounding: Rounding, x: Enclosed) -> Enclosed:
    return multiply(rounding, x, x)


@rule("divide")
def divide(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    """|e| <= (dx + r) / (1 - r) |q| + ax / (|y| (1 - r)), r = dy + ay / |y| below 1."""
    with np.errstate(all="ignore"):
        pole = (y.lo <= 0) & (y.hi >= 0)
        r = y.relative
        hits = pole | ~(r < 1)
        corners = [p / q for p in (x.lo, x.hi) for q in (y.lo, y.hi)]
        lo, hi = np.minimum.reduce(corners), np.maximum.reduce(corners)
        d = up((x.d + r) / (1 - r))
        a = np.where(x.a == 0, 0.0, up(x.a / (y.least * (1 - r))))
    bad, undefined = _flags(x, y)
    lo, hi = np.where(pole, -np.inf, lo), np.where(pole, np.inf, hi)
    above = ((x.lo >= 0) & (y.lo > 0)) | ((x.hi <= 0) & (y.hi < 0))
    below = ((x.lo >= 0) & (y.hi < 0)) | ((x.hi <= 0) & (y.lo > 0))
    found = made(rounding, lo, hi, d, a, bad | hits, undefined | pole, above=above, below=below)
    return _with_zeros(found, _nothing(x) & ~hits)


@rule("reciprocal")
def _reciprocal(rounding: Rounding, x: Enclosed) -> Enclosed:
    return divide(rounding, exact(np.ones(x.lo.shape)), x)


@rule("sqrt")
def sqrt(rounding: Rounding, x: Enclosed) -> Enclosed:
    """|sqrt(x + e) - sqrt(x)| <= d sqrt(x) + sqrt(a), or a / sqrt(x). The slope has a pole at 0."""
    with np.errstate(all="ignore"):
        lo, hi = np.sqrt(np.maximum(x.lo, 0)), np.sqrt(np.maximum(x.hi, 0))
        bad, undefined = _flags(x)
        bad = bad | ~(x.lo - x.d * np.abs(x.lo) - x.a >= 0) | (x.d >= 1)
        apart = np.where(x.a == 0, 0.0, np.minimum(np.sqrt(x.a), x.a / (lo * np.sqrt(1 - x.d))))
        d = x.d / (1 + np.sqrt(1 - np.minimum(x.d, 1)))
    return made(rounding, lo, hi, up(d), up(apart), bad, undefined | (x.lo <= 0), above=True)


@rule("rsqrt")
def _rsqrt(rounding: Rounding, x: Enclosed) -> Enclosed:
    return _reciprocal(rounding, sqrt(rounding, x))


@rule("abs")
def _abs(rounding: Rounding, x: Enclosed) -> Enclosed:
    return unrounded(x.least, x.most, x.d, x.a, x.bad, x.undefined)


@rule("power")
def _power(rounding: Rounding, x: Enclosed, n: Enclosed) -> Enclosed:
    """Of one exact exponent for all. x^n of a whole n above 0 is a product of n factors; else the
    base is above 0 and |(x + e)^n - x^n| <= |(1 + r)^n - 1| x^n."""
    if not (np.all(n.lo == n.lo.flat[0]) and np.all(n.hi == n.lo) and not np.any(n.error)):
        return _power_of_both(rounding, x, n)
    p = float(n.lo.flat[0])
    if p == 0:
        return exact(np.ones(np.broadcast_shapes(x.lo.shape, n.lo.shape)))
    if p == 1:
        return x
    if p == 2:
        return multiply(rounding, x, x)
    whole = p.is_integer()
    negative = (x.hi <= 0) if whole and p % 2 else np.zeros(x.lo.shape, np.bool_)
    bad, undefined = _flags(x)
    with np.errstate(all="ignore"):
        if whole and p > 0:
            lo, hi = (_odd(x.lo, p), _odd(x.hi, p)) if p % 2 else (x.least**p, x.most**p)
            d = (1 + x.d) ** p - 1
            a = np.where(x.a == 0, 0.0, p * x.a * (x.most * (1 + x.d) + x.a) ** (p - 1))
        else:
            r = x.relative
            pole = (x.lo <= 0) & (x.hi >= 0) if whole else x.lo <= 0
            ends = x.least**p, x.most**p
            lo, hi = np.minimum(*ends), np.maximum(*ends)
            lo, hi = np.where(negative, -hi, lo), np.where(negative, -lo, hi)
            d = np.maximum(np.abs((1 + r) ** p - 1), np.abs((1 - r) ** p - 1))
            a = np.zeros(x.lo.shape)
            bad, undefined = bad | pole | ~(r < 1), undefined | pole
            if p > 0:  # 0 has the value 0
                edge = (x.lo == 0) & (x.a == 0) & (x.d < 1)
                bad = bad & ~(edge & ~x.bad)
                d = np.where(edge, np.maximum((1 + x.d) ** p - 1, 1 - (1 - x.d) ** p), d)
            lo, hi = np.where(pole & (p < 0), -np.inf, lo), np.where(pole & (p < 0), np.inf, hi)
    return made(
        rounding,
        lo,
        hi,
        up(d),
        up(a),
        bad,
        undefined,
        relative=rounding.library,
        least=rounding.library_least,
        above=(x.lo >= 0) | (p % 2 == 0),
    )


def _power_of_both(rounding: Rounding, x: Enclosed, n: Enclosed) -> Enclosed:
    """exp(n log x) of x above 0: n log x moves by |n| |log(1 - r)| + |e_n| |log x|."""
    with np.errstate(all="ignore"):
        r = x.relative
        pole = x.lo <= 0
        logs = np.log(np.maximum(x.lo, 0)), np.log(np.maximum(x.hi, 0))
        corners = [np.exp(_times(p, q)) for p in logs for q in (n.lo, n.hi)]
        lo, hi = np.minimum.reduce(corners), np.maximum.reduce(corners)
        longest = np.maximum(np.abs(logs[0]), np.abs(logs[1]))
        base = np.where(r == 0, 0.0, -np.log1p(-r))
        e = n.error
        moved = up(_times(n.most + e, base) + _times(e, longest))
        slop = 2.0**-45 * np.maximum(1.0, n.most * longest)
        lo, hi = lo * np.maximum(1 - slop, 0), hi * (1 + slop)
        d = up(np.expm1(moved))
        bad, undefined = _flags(x, n)
        bad = bad | pole | ~(r < 1) | ~np.isfinite(d)
    lo, hi = np.where(pole, -np.inf, lo), np.where(pole, np.inf, hi)
    zero = np.zeros(np.shape(d))
    return made(
        rounding,
        lo,
        hi,
        d,
        zero,
        bad,
        undefined | pole,
        relative=rounding.library,
        least=rounding.library_least,
        above=~pole,
    )


def _odd(x: Bounds, p: float) -> Bounds:
    return np.sign(x) * np.abs(x) ** p


# Functions of a library.


def _library(
    rounding: Rounding,
    x: Enclosed,
    ends: tuple[Bounds, Bounds],
    d: Bounds,
    a: Bounds,
    bad: Flags | bool = False,
    undefined: Flags | bool = False,
    *,
    least: float | None = None,
    within: tuple[float, float] = (-np.inf, np.inf),
) -> Enclosed:
    """The result of a function whose values lie `within`. `least` is what underflow may cost."""
    found = made(
        rounding,
        *ends,
        d,
        a,
        x.bad | bad,
        x.undefined | undefined,
        relative=rounding.library,
        least=rounding.library_least if least is None else least,
    )
    lo, hi = np.clip(found.lo, *within), np.clip(found.hi, *within)
    return Enclosed(lo, hi, found.d, found.a, found.bad, found.undefined)


def _moved(x: Enclosed) -> Bounds:
    return np.where(x.bad, np.inf, x.error)


@rule("exp")
def _exp(rounding: Rounding, x: Enclosed) -> Enclosed:
    with np.errstate(all="ignore"):
        ends = np.exp(x.lo), np.exp(x.hi)
        d = up(np.expm1(_moved(x)))
    return _library(rounding, x, ends, d, np.zeros(d.shape), within=(0.0, np.inf))


@rule("exp2")
def _exp2(rounding: Rounding, x: Enclosed) -> Enclosed:
    with np.errstate(all="ignore"):
        ends = np.exp2(x.lo), np.exp2(x.hi)
        d = up(np.expm1(_moved(x)))  # 2^e - 1 is less
    return _library(rounding, x, ends, d, np.zeros(d.shape), within=(0.0, np.inf))


@rule("expm1")
def _expm1(rounding: Rounding, x: Enclosed) -> Enclosed:
    """expm1(x + e) - expm1(x) = exp(x) expm1(e). For one sign of x and e = d x it is below
    d max(1, x + 1) |expm1(x)|, about: only what is exact is relative here."""
    with np.errstate(all="ignore"):
        ends = np.expm1(x.lo), np.expm1(x.hi)
        e = _moved(x)
        a = np.where(e == 0, 0.0, up(np.exp(x.hi) * np.expm1(e)))
    least = _steady(rounding)
    return _library(rounding, x, ends, np.zeros(a.shape), a, least=least, within=(-1.0, np.inf))


def _log_like(function: Any, shift: float, scale: float = 1.0) -> Rule:
    """`scale` log(shift + x): an error of |e| / (shift + x) in relative terms."""

    def found(rounding: Rounding, x: Enclosed) -> Enclosed:
        with np.errstate(all="ignore"):
            least = shift + x.lo
            e = np.where(shift == 0, x.relative, up(_moved(x) / least))
            pole = least <= 0
            bad = pole | ~(e < 1)
            ends = function(np.maximum(x.lo, -shift)), function(np.maximum(x.hi, -shift))
            a = np.where(e == 0, 0.0, up(-np.log1p(-e) * scale))
        ends = tuple(np.nan_to_num(end, nan=-np.inf, posinf=np.inf, neginf=-np.inf) for end in ends)
        zero = np.zeros(a.shape)
        return _library(rounding, x, ends, zero, a, bad, pole, least=_steady(rounding))

    return found


def _steady(rounding: Rounding) -> float:
    """What a function costs near its zero, whose small results are its small arguments."""
    return rounding.normal if rounding.flush else rounding.library_least


RULES["log"] = _log_like(np.log, 0.0)
RULES["log1p"] = _log_like(np.log1p, 1.0)
RULES["log2"] = _log_like(np.log2, 0.0, 1.443)
RULES["log10"] = _log_like(np.log10, 0.0)


def _concave(function: Any, within: tuple[float, float]) -> Rule:
    """An odd function, concave above 0, with slope 1 at most: f((1 + d) x) <= (1 + d) f(x)."""

    def found(rounding: Rounding, x: Enclosed) -> Enclosed:
        with np.errstate(all="ignore"):
            ends = function(x.lo), function(x.hi)
        least = _steady(rounding)
        return _library(rounding, x, ends, _along(x.d), x.a, least=least, within=within)

    return found


def _along(d: Bounds) -> Bounds:
    """Beyond d = 1 the computed argument may have the other sign."""
    return np.where(d < 1, d, 2 + d)


def _erf(rounding: Rounding, x: Enclosed) -> Enclosed:
    import scipy.special

    ends = scipy.special.erf(x.lo), scipy.special.erf(x.hi)
    return _library(rounding, x, ends, _along(x.d), up(1.13 * x.a), within=(-1.0, 1.0))


RULES["tanh"] = _concave(np.tanh, (-1.0, 1.0))
RULES["atan"] = _concave(np.arctan, (-np.pi / 2 - 1e-15, np.pi / 2 + 1e-15))
RULES["asinh"] = _concave(np.arcsinh, (-np.inf, np.inf))
RULES["erf"] = _erf


@rule("sigmoid")
def sigmoid(rounding: Rounding, x: Enclosed) -> Enclosed:
    """The derivative of its logarithm is below 1. As 1 / (1 + exp(-x)) it gives 0 where exp(-x)
    overflows, in place of a number below the smallest normal one."""
    with np.errstate(all="ignore"):
        ends = 1 / (1 + np.exp(-x.lo)), 1 / (1 + np.exp(-x.hi))
        d = up(np.expm1(_moved(x)))
    least = rounding.normal
    return _library(rounding, x, ends, d, np.zeros(d.shape), least=least, within=(0.0, 1.0))


@rule("silu")
def _silu(rounding: Rounding, x: Enclosed) -> Enclosed:
    """As x / (1 + exp(-x))."""
    one = exact(np.ones(x.lo.shape))
    return divide(rounding, x, _add(rounding, one, _exp(rounding, negative(rounding, x))))


@rule("logistic_density")
def _logistic_density(rounding: Rounding, x: Enclosed) -> Enclosed:
    """Even, and the derivative of its logarithm is below 1 in size."""
    with np.errstate(all="ignore"):
        far, near = (np.exp(-size) / (1 + np.exp(-size)) ** 2 for size in (x.most, x.least))
        d = up(np.expm1(_moved(x)))
    least = rounding.normal
    return _library(rounding, x, (far, near), d, np.zeros(d.shape), least=least, within=(0.0, 0.25))


@rule("sech_squared")
def _sech_squared(rounding: Rounding, x: Enclosed) -> Enclosed:
    """Even, and the derivative of its logarithm is below 2 in size."""
    with np.errstate(all="ignore"):
        far, near = (4 * np.exp(-2 * s) / (1 + np.exp(-2 * s)) ** 2 for s in (x.most, x.least))
        d = up(np.expm1(2 * _moved(x)))
    least = rounding.normal
    return _library(rounding, x, (far, near), d, np.zeros(d.shape), least=least, within=(0.0, 1.0))


@rule("softplus")
def _softplus(rounding: Rounding, x: Enclosed) -> Enclosed:
    with np.errstate(all="ignore"):
        ends = np.logaddexp(0, x.lo), np.logaddexp(0, x.hi)
        d = up(np.expm1(_moved(x)))
    found = _library(rounding, x, ends, d, np.zeros(d.shape), within=(0.0, np.inf))
    return found


def _wave(function: Any, crest: float, trough: float) -> Rule:
    """sin or cos, whose largest value is at `crest` + 2 pi k and whose least at `trough`."""

    def found(rounding: Rounding, x: Enclosed) -> Enclosed:
        with np.errstate(all="ignore"):
            ends = function(x.lo), function(x.hi)
            lo, hi = np.minimum(*ends), np.maximum(*ends)
            hi = np.where(_meets(x, crest), 1.0, hi)
            lo = np.where(_meets(x, trough), -1.0, lo)
            far = ~(x.most < 2.0**40)
        ends = np.where(far, -1.0, lo), np.where(far, 1.0, hi)
        zero, least = np.zeros(x.lo.shape), _steady(rounding)
        return _library(rounding, x, ends, zero, _moved(x), least=least, within=(-1.0, 1.0))

    return found


def _meets(x: Enclosed, place: float) -> Flags:
    """Whether place + 2 pi k may lie in the range."""
    turns = 2 * np.pi
    margin = 1e-9 * (1 + x.most)
    first = np.ceil((x.lo - margin - place) / turns)
    return first * turns + place <= x.hi + margin


RULES["sin"] = _wave(np.sin, np.pi / 2, -np.pi / 2)
RULES["cos"] = _wave(np.cos, 0.0, np.pi)


@rule("cosh")
def _cosh(rounding: Rounding, x: Enclosed) -> Enclosed:
    """The derivative of its logarithm is below 1."""
    with np.errstate(all="ignore"):
        d = up(np.expm1(_moved(x)))
        ends = np.cosh(x.least), np.cosh(x.most)
    return _library(rounding, x, ends, d, np.zeros(d.shape), within=(1.0, np.inf))


@rule("sinh")
def _sinh(rounding: Rounding, x: Enclosed) -> Enclosed:
    with np.errstate(all="ignore"):
        ends = np.sinh(x.lo), np.sinh(x.hi)
        e = _moved(x)
        a = np.where(e == 0, 0.0, up(np.cosh(x.most + e) * e))
    return _library(rounding, x, ends, np.zeros(a.shape), a, least=_steady(rounding))


@rule("tan")
def _tan(rounding: Rounding, x: Enclosed) -> Enclosed:
    """Between two poles."""
    with np.errstate(all="ignore"):
        e = _moved(x)
        wide = Enclosed(x.lo - e, x.hi + e, x.d, x.a, x.bad, x.undefined)
        pole = _meets(wide, np.pi / 2) | _meets(wide, -np.pi / 2)
        real = _meets(x, np.pi / 2) | _meets(x, -np.pi / 2)
        ends = np.where(real, -np.inf, np.tan(x.lo)), np.where(real, np.inf, np.tan(x.hi))
        steepest = 1 + np.maximum(np.tan(wide.lo) ** 2, np.tan(wide.hi) ** 2)
        a = np.where(e == 0, 0.0, up(e * steepest * (1 + 1e-6)))
    zero = np.zeros(a.shape)
    return _library(rounding, x, ends, zero, a, pole | real, real, least=_steady(rounding))


def _on_one(function: Any, falls: bool) -> Rule:
    """asin or acos, with poles of the slope at -1 and 1."""

    def found(rounding: Rounding, x: Enclosed) -> Enclosed:
        with np.errstate(all="ignore"):
            e = _moved(x)
            most = np.maximum(np.abs(x.lo - e), np.abs(x.hi + e))
            ends = function(np.clip(x.lo, -1, 1)), function(np.clip(x.hi, -1, 1))
            ends = ends[::-1] if falls else ends
            a = np.where(e == 0, 0.0, up(e / np.sqrt((1 - most) * (1 + most))))
            bad = ~(most <= 1) | ~np.isfinite(a)
        zero = np.zeros(a.shape)
        least = _steady(rounding)
        return _library(rounding, x, ends, zero, np.nan_to_num(a), bad, x.most >= 1, least=least)

    return found


RULES["asin"] = _on_one(np.arcsin, False)
RULES["acos"] = _on_one(np.arccos, True)


@rule("cbrt")
def _cbrt(rounding: Rounding, x: Enclosed) -> Enclosed:
    """|cbrt(x + e) - cbrt(x)| <= d |cbrt(x)| + 2 cbrt(a / 2), or a / x^(2/3)."""
    with np.errstate(all="ignore"):
        ends = np.cbrt(x.lo), np.cbrt(x.hi)
        lowest = x.least * (1 - np.minimum(x.d, 1))
        steep = np.where(lowest >= x.a, x.a / np.cbrt(lowest) ** 2, np.inf)
        a = np.where(x.a == 0, 0.0, up(np.minimum(1.6 * np.cbrt(x.a), steep)))
    return _library(rounding, x, ends, _along(x.d), a, False, x.least <= 0)


@rule("atanh")
def _atanh(rounding: Rounding, x: Enclosed) -> Enclosed:
    with np.errstate(all="ignore"):
        e = _moved(x)
        most = np.maximum(np.abs(x.lo - e), np.abs(x.hi + e))
        ends = np.arctanh(np.clip(x.lo, -1, 1)), np.arctanh(np.clip(x.hi, -1, 1))
        a = np.where(e == 0, 0.0, up(e / ((1 - most) * (1 + most))))
        bad = ~(most < 1)
    zero, least = np.zeros(a.shape), _steady(rounding)
    a = np.where(bad, np.inf, a)
    return _library(rounding, x, ends, zero, a, bad, x.most >= 1, least=least)


@rule("acosh")
def _acosh(rounding: Rounding, x: Enclosed) -> Enclosed:
    with np.errstate(all="ignore"):
        e = _moved(x)
        low = x.lo - e
        ends = np.arccosh(np.maximum(x.lo, 1)), np.arccosh(np.maximum(x.hi, 1))
        a = np.where(e == 0, 0.0, up(e / np.sqrt((low - 1) * (low + 1))))
        bad = ~(low >= 1) | ~np.isfinite(a)
    zero, least = np.zeros(a.shape), _steady(rounding)
    a = np.where(bad, np.inf, a)
    return _library(rounding, x, ends, zero, a, bad, x.lo <= 1, least=least)


@rule("erfc")
def _erfc(rounding: Rounding, x: Enclosed) -> Enclosed:
    """The derivative of its logarithm is below 2 x + 1.13 in size, for x above 0, and below 1.13
    elsewhere."""
    import scipy.special

    with np.errstate(all="ignore"):
        e = _moved(x)
        ends = scipy.special.erfc(x.hi), scipy.special.erfc(x.lo)
        d = up(np.expm1(e * (2 * np.maximum(x.hi + e, 0) + 1.13)))
        slop = 2.0**-40 * (1 + np.maximum(x.hi, 0) ** 2)
        ends = ends[0] * (1 - np.minimum(slop, 1)), ends[1] * (1 + slop)
    return _library(rounding, x, ends, d, np.zeros(d.shape), within=(0.0, 2.0))


@rule("atan2")
def _atan2(rounding: Rounding, y: Enclosed, x: Enclosed) -> Enclosed:
    """Of x above 0, the arc tangent of y / x."""
    quotient = divide(rounding, y, x)
    found = RULES["atan"](rounding, quotient)
    beyond = x.lo <= 0
    bad, undefined = found.bad | beyond, found.undefined | beyond
    d, a = np.where(bad, np.inf, found.d), np.where(bad, np.inf, found.a)
    lo, hi = np.where(beyond, -4.0, found.lo), np.where(beyond, 4.0, found.hi)
    return Enclosed(lo, hi, d, a, bad, undefined)
