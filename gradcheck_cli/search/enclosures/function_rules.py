"""The rules of library functions: exponentials, logarithms, trigonometric functions (see `rules`).
Each is within the ulps that a proof assumes, and within more if an engine is known to be worse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.search.enclosures.enclosed import (
    Bounds,
    Enclosed,
    Flags,
    Rounding,
    exact,
    rounded,
    up,
)
from gradcheck_cli.search.enclosures.rules import (
    RULES,
    Rule,
    add,
    divide,
    negative,
    or_overflowing,
    rule,
)

_LOG1P = 2.0**-45
"""Relative. JAX's log1p of float64 takes a quotient of polynomials from -0.414 on, which is right
from -0.293 on, and is off by 2^-45.1 between."""
_CBRT_OF_FLUSHED = 2.0**-50
_NEAR = 4.0
"""Times. Between numbers whose sizes differ more, an error is small beside the larger ones."""
_LOG1P_FROM = -0.29  # where it is right, however its argument is rounded


def library(
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
    plain: bool = False,
    single: bool = False,
    above: Mapping[str, Bounds] | None = None,
    own: Bounds | None = None,
) -> Enclosed:
    """The result of a function whose values lie `within`. `least` is the cost of underflow, `plain`
    as for `rounded`. `single`: it is one library function, whose error is given in ulps; an engine
    that combines several has an error relative to the number. `above`: the floor of a function with
    f(0) = 0 and slope 1 there, before it is rounded. Engines return small arguments as they are.
    `own`: its relative error, in place of what is known of its kernel."""
    value = Enclosed(*ends, d, a, x.bad | bad, x.undefined | undefined, **(above or {}))
    least = rounding.library_least if least is None else least
    relative = rounding.library_over(x) if own is None else own
    once = single and not rounding.loose
    near = above is not None
    found = rounded(
        rounding, value, relative=relative, in_ulps=once, least=least, plain=plain, near=near
    )
    lo, hi = np.clip(found.lo, *within), np.clip(found.hi, *within)
    return replace(found, lo=lo, hi=hi)


def from_zero(x: Enclosed, slope: Bounds, part: Bounds) -> tuple[Bounds, Bounds]:
    """d and a of a function with f(0) = 0, a slope of at most `slope`, and |x| <= `part` |f(x)|. An
    error d |x| of its argument becomes one of d `slope` `part` |f(x)|, however small x is. If this
    factor is large, the error at the largest |x| is used instead."""
    factor = up(slope * part)
    near = factor <= _NEAR
    d = np.where(near, np.where(x.d == 0, 0.0, x.d * factor), 0.0)
    a = np.where(near, np.where(x.a == 0, 0.0, x.a * slope), error_of(x) * slope)
    return up(d), np.where(error_of(x) == 0, 0.0, up(a))


def above_zero(
    rounding: Rounding, x: Enclosed, slope: Bounds | float = 1.0, part: Bounds | float = 1.0
) -> dict[str, Any] | None:
    """The floor of such a function, whose error is that of `from_zero`. Below the floor F of x, it
    is at most F (1 + 4 F) in size. None for an engine that flushes nothing."""
    if not rounding.flush:
        return None
    floor, firm = x.floor, np.minimum(x.firm, x.a)
    near = up(np.asarray(slope * part)) <= _NEAR
    firm = firm + np.where(near | (x.d == 0), 0.0, x.d * x.most)
    firm = np.where(firm == 0, 0.0, up(firm * slope))
    floor = np.where(np.less(floor, 0.1), floor * (1 + 4 * np.asarray(floor)), np.inf)
    return {"floor": floor, "firm": firm}


def error_of(x: Enclosed) -> Bounds:
    return np.where(x.bad, np.inf, x.error)


def _power_of(function: Any, turned: float) -> Rule:
    """exp or exp2, which increases by a factor of at most exp(e) for an error of e. It may be
    computed as exp of a product, whose rounding moves the argument by `turned` |x| u. Far below 0
    the result is almost 0, however large the error is."""

    def rule(rounding: Rounding, x: Enclosed) -> Enclosed:
        ends = function(x.lo), function(x.hi)
        own = turned * rounding.unit
        above = np.maximum(x.hi, x.hi * (1 - x.d) + x.a) * (1 - min(own, 1.0))
        top = up(function(above))
        gone = (x.hi < 0) & (x.d < 1) & (top < rounding.subnormal)
        x = replace(x, bad=x.bad & ~(gone & x.overflows))
        moves = error_of(x) + (0.0 if turned == 0 else own * (x.most + error_of(x)))
        d = np.where(gone, 0.0, up(np.expm1(moves)))
        a = np.where(gone, top, 0.0)
        how: Any = {"within": (0.0, np.inf), "plain": True, "single": turned == 0}
        found = library(rounding, x, ends, d, a, **how)
        one = (x.lo == 0) & (x.hi == 0) & (x.error == 0) & ~x.bad  # 1 in all engines
        lo, hi = np.where(one, 1.0, found.lo), np.where(one, 1.0, found.hi)
        d, a = np.where(one, 0.0, found.d), np.where(one, 0.0, found.a)
        return replace(found, lo=lo, hi=hi, d=d, a=a)

    return rule


RULES["exp"] = _exp = _power_of(np.exp, 0.0)
RULES["exp2"] = _power_of(np.exp2, 1.4)


@rule("expm1")
def _expm1(rounding: Rounding, x: Enclosed) -> Enclosed:
    """Its slope is exp(x). expm1(x) / x increases with x, and is 1 at 0."""
    ends = np.expm1(x.lo), np.expm1(x.hi)
    slope = np.exp(x.hi + error_of(x))
    part = np.where(x.lo < 0, x.lo / np.expm1(x.lo), 1.0)
    d, a = from_zero(x, slope, part)
    above = above_zero(rounding, x, slope, part)
    how: dict[str, Any] = {"plain": rounding.flush, "single": True, "above": above}
    return library(rounding, x, ends, d, a, within=(-1.0, np.inf), **how)


def _log_like(function: Any, shift: float, scale: float = 1.0) -> Rule:
    """`scale` log(shift + x): the relative error of shift + x is |e| / (shift + x). If x overflows,
    the result is infinite or right. Nothing is known about subnormal numbers on an engine that
    flushes: TensorFlow's log of one or two of them is -103.97."""

    def rule(rounding: Rounding, number: Enclosed) -> Enclosed:
        x = or_overflowing(number)
        least = shift + x.lo
        e = x.relative if shift == 0 else up(error_of(x) / least)
        pole = least <= 0
        bad = pole | ~(e < 1)
        ends = function(np.maximum(x.lo, -shift)), function(np.maximum(x.hi, -shift))
        d, a = np.zeros(e.shape), np.where(e == 0, 0.0, up(-np.log1p(-e) * scale))
        if shift:
            top = np.maximum(x.hi, 0.0)
            part = np.where(top > 0, top / np.log1p(top), 1.0)
            d, a = from_zero(x, 1 / (least * (1 - e)), part)
        ends = tuple(np.nan_to_num(end, nan=-np.inf, posinf=np.inf, neginf=-np.inf) for end in ends)
        rough = bool(shift) & rounding.loose & ~(x.lo > _LOG1P_FROM)
        d = up(d + np.where(rough, _LOG1P, 0.0))
        lost = None if shift else steady(rounding)
        plain = rounding.flush and shift > 0
        found = library(rounding, x, ends, d, a, bad, pole, least=lost, plain=plain, single=True)
        return replace(found, bad=found.bad | number.bad)

    return rule


def steady(rounding: Rounding) -> float:
    """The cost of underflow near a function's zero if it is computed as twice a half of its
    argument, as JAX's asin is. Others return small arguments unchanged, which are flushed only at
    the end."""
    return 2 * rounding.normal if rounding.flush else rounding.library_least


RULES["log"] = _log_like(np.log, 0.0)
RULES["log1p"] = _log_like(np.log1p, 1.0)
RULES["log2"] = _log_like(np.log2, 0.0, 1.443)
RULES["log10"] = _log_like(np.log10, 0.0)


def _concave(function: Any, within: tuple[float, float]) -> Rule:
    """An odd function, concave above 0, with a slope of at most 1: f((1 + d) x) <= (1 + d) f(x)."""

    def rule(rounding: Rounding, x: Enclosed) -> Enclosed:
        ends = function(x.lo), function(x.hi)
        flush = rounding.flush
        how: dict[str, Any] = {"plain": flush, "single": True, "above": above_zero(rounding, x)}
        return library(rounding, x, ends, along(x.d), x.a, within=within, **how)

    return rule


def along(d: Bounds) -> Bounds:
    """Beyond d = 1 the computed argument may have the other sign."""
    return np.where(d < 1, d, 2 + d)


RULES["tanh"] = _concave(np.tanh, (-1.0, 1.0))
RULES["atan"] = _concave(np.arctan, (-np.pi / 2 - 1e-15, np.pi / 2 + 1e-15))
RULES["asinh"] = _concave(np.arcsinh, (-np.inf, np.inf))


@rule("sigmoid")
def sigmoid(rounding: Rounding, x: Enclosed) -> Enclosed:
    """Its logarithm has a slope below 1. Computed as 1 / (1 + exp(-x)) it is 0 where exp(-x)
    overflows; the exact number is then below the smallest normal one."""
    ends = 1 / (1 + np.exp(-x.lo)), 1 / (1 + np.exp(-x.hi))
    d = up(np.expm1(error_of(x)) + rounding.approximation)
    least = rounding.normal
    return library(rounding, x, ends, d, np.zeros(d.shape), least=least, within=(0.0, 1.0))


@rule("silu")
def _silu(rounding: Rounding, x: Enclosed) -> Enclosed:
    """x / (1 + exp(-x))."""
    one = exact(np.ones(x.lo.shape))
    return divide(rounding, x, add(rounding, one, _exp(rounding, negative(rounding, x))))


def _logistic_density(rate: float, top: float) -> Rule:
    """The logistic density of rate * x, scaled to `top` at 0. It is even, and the slope of its
    logarithm is below `rate` in size."""

    def rule(rounding: Rounding, x: Enclosed) -> Enclosed:
        e_far, e_near = (np.exp(-rate * size) for size in (x.most, x.least))
        ends = 4 * top * e_far / (1 + e_far) ** 2, 4 * top * e_near / (1 + e_near) ** 2
        d = up(np.expm1(rate * error_of(x)))
        least = rounding.normal
        return library(rounding, x, ends, d, np.zeros(d.shape), least=least, within=(0.0, top))

    return rule


RULES["logistic_density"] = _logistic_density(1, 0.25)
RULES["sech_squared"] = _logistic_density(2, 1.0)


@rule("softplus")
def softplus(rounding: Rounding, x: Enclosed) -> Enclosed:
    ends = np.logaddexp(0, x.lo), np.logaddexp(0, x.hi)
    d = up(np.expm1(error_of(x)))
    found = library(rounding, x, ends, d, np.zeros(d.shape), within=(0.0, np.inf))
    return found


def _wave(function: Any, crest: float, trough: float) -> Rule:
    """sin or cos, whose maxima are at `crest` + 2 pi k and whose minima are at `trough` + 2 pi
    k."""

    def rule(rounding: Rounding, x: Enclosed) -> Enclosed:
        ends = function(x.lo), function(x.hi)
        lo, hi = np.minimum(*ends), np.maximum(*ends)
        hi = np.where(_meets(x, crest), 1.0, hi)
        lo = np.where(_meets(x, trough), -1.0, lo)
        far = ~(x.most < 2.0**40)
        ends = np.where(far, -1.0, lo), np.where(far, 1.0, hi)
        d, a = np.zeros(x.lo.shape), error_of(x)
        how: dict[str, Any] = {"plain": rounding.flush, "single": True}
        if function is np.sin:
            size = np.minimum(x.most, 3.0)
            part = np.where(size > 0, size / np.sin(size), 1.0)
            part = np.where(x.most < 3.0, part, np.inf)
            d, a = from_zero(x, np.ones(d.shape), part)
            how["above"] = above_zero(rounding, x, 1.0, part)
        return library(rounding, x, ends, d, a, within=(-1.0, 1.0), **how)

    return rule


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
    """Its logarithm has a slope below 1. It may be computed by exp(|x| - log 2), whose argument is
    rounded, or by exp(|x|), which overflows earlier."""
    d = up(np.expm1(error_of(x)) + 2 * x.most * rounding.unit)
    ends = np.cosh(x.least), np.cosh(x.most)
    bad = beyond_exp(rounding, x)
    return library(rounding, x, ends, d, np.zeros(d.shape), bad, within=(1.0, np.inf))


@rule("sinh")
def _sinh(rounding: Rounding, x: Enclosed) -> Enclosed:
    """Computed like cosh."""
    ends = np.sinh(x.lo), np.sinh(x.hi)
    d, a = from_zero(x, np.cosh(x.most + error_of(x)), np.ones(x.lo.shape))
    d = up(d + 2 * x.most * rounding.unit)
    return library(rounding, x, ends, d, a, beyond_exp(rounding, x), plain=rounding.flush)


def beyond_exp(rounding: Rounding, x: Enclosed) -> Flags:
    """Whether exp(|x|) may overflow in the format in which functions are computed."""
    largest = max(rounding.largest, float(np.finfo(np.float32).max))
    return np.asarray(~(x.most + error_of(x) < np.log(largest) * (1 - rounding.library)))


@rule("tan")
def _tan(rounding: Rounding, x: Enclosed) -> Enclosed:
    """The tangent between two poles."""
    e = error_of(x)
    wide = Enclosed(x.lo - e, x.hi + e, x.d, x.a, x.bad, x.undefined)
    pole = _meets(wide, np.pi / 2) | _meets(wide, -np.pi / 2)
    real = _meets(x, np.pi / 2) | _meets(x, -np.pi / 2)
    ends = np.where(real, -np.inf, np.tan(x.lo)), np.where(real, np.inf, np.tan(x.hi))
    steepest = 1 + np.maximum(np.tan(wide.lo) ** 2, np.tan(wide.hi) ** 2)
    part = np.where(wide.most < np.pi / 2, 1.0, np.inf)
    d, a = from_zero(x, steepest * (1 + 1e-6), part)
    flush = rounding.flush
    return library(rounding, x, ends, d, a, pole | real, real, plain=flush, single=True)


def _on_one(function: Any, falls: bool) -> Rule:
    """asin or acos, whose slope has poles at -1 and 1."""

    def rule(rounding: Rounding, x: Enclosed) -> Enclosed:
        e = error_of(x)
        most = np.maximum(np.abs(x.lo - e), np.abs(x.hi + e))
        ends = function(np.clip(x.lo, -1, 1)), function(np.clip(x.hi, -1, 1))
        ends = ends[::-1] if falls else ends
        part = np.full(e.shape, np.inf if falls else 1.0)
        d, a = from_zero(x, 1 / np.sqrt((1 - most) * (1 + most)), part)
        bad = ~(most <= 1) | ~np.isfinite(a)
        d = up(np.nan_to_num(d) + rounding.approximation)
        how: dict[str, Any] = {}
        if falls or rounding.again:
            how["least"] = steady(rounding)
        elif rounding.flush:
            slope = 1 / np.sqrt((1 - most) * (1 + most))
            how = {"plain": True, "above": above_zero(rounding, x, slope)}
        return library(rounding, x, ends, d, np.nan_to_num(a), bad, x.most >= 1, **how)

    return rule


RULES["asin"] = _on_one(np.arcsin, False)
RULES["acos"] = _on_one(np.arccos, True)


@rule("cbrt")
def _cbrt(rounding: Rounding, x: Enclosed) -> Enclosed:
    """|cbrt(x + e) - cbrt(x)| <= d |cbrt(x)| + 2 cbrt(a / 2), or a / x^(2/3). Of numbers that it
    flushes, JAX has -5.6e-16 for the root."""
    ends = np.cbrt(x.lo), np.cbrt(x.hi)
    lowest = x.least * (1 - np.minimum(x.d, 1))
    steep = np.where(lowest >= x.a, x.a / np.cbrt(lowest) ** 2, np.inf)
    a = np.where(x.a == 0, 0.0, up(np.minimum(1.6 * np.cbrt(x.a), steep)))
    a = a + np.where(np.asarray(x.flushed) > 0, _CBRT_OF_FLUSHED, 0.0)
    return library(rounding, x, ends, along(x.d), a, False, x.least <= 0)


@rule("atanh")
def _atanh(rounding: Rounding, x: Enclosed) -> Enclosed:
    """It may be computed as (log1p(x) - log1p(-x)) / 2."""
    e = error_of(x)
    most = np.maximum(np.abs(x.lo - e), np.abs(x.hi + e))
    ends = np.arctanh(np.clip(x.lo, -1, 1)), np.arctanh(np.clip(x.hi, -1, 1))
    d, a = from_zero(x, 1 / ((1 - most) * (1 + most)), np.ones(e.shape))
    bad = ~(most < 1)
    d = up(np.where(bad, 0.0, d) + (_LOG1P if rounding.loose else 0.0))
    a = np.where(bad, np.inf, a)
    return library(rounding, x, ends, d, a, bad, x.most >= 1, plain=rounding.flush)


@rule("acosh")
def _acosh(rounding: Rounding, x: Enclosed) -> Enclosed:
    e = error_of(x)
    low = x.lo - e
    ends = np.arccosh(np.maximum(x.lo, 1)), np.arccosh(np.maximum(x.hi, 1))
    a = np.where(e == 0, 0.0, up(e / np.sqrt((low - 1) * (low + 1))))
    bad = ~(low >= 1) | ~np.isfinite(a)
    zero, least = np.zeros(a.shape), steady(rounding)
    a = np.where(bad, np.inf, a)
    return library(rounding, x, ends, zero, a, bad, x.lo <= 1, least=least)


@rule("log1mexp")
def _log1mexp(rounding: Rounding, x: Enclosed) -> Enclosed:
    """log(1 - exp(-x)) increases to 0, with slope 1 / (exp(x) - 1)."""
    e = error_of(x)
    lowest = x.lo - e
    bad, pole = ~(lowest > 0), x.lo <= 0
    a = np.where(e == 0, 0.0, up(e / np.expm1(lowest)))
    ends = (np.log(-np.expm1(-np.maximum(t, 0))) for t in (x.lo, x.hi))
    far = (np.log1p(-np.exp(-np.maximum(t, 0))) for t in (x.lo, x.hi))
    lo, hi = (np.where(t < 0.7, p, q) for t, p, q in zip((x.lo, x.hi), ends, far, strict=True))
    lo, hi = lo - np.abs(lo) * 2.0**-46, hi + np.abs(hi) * 2.0**-46
    a, d = np.where(bad, np.inf, a), np.full(a.shape, 4 * rounding.library)
    return library(rounding, x, (lo, hi), d, a, bad, pole, within=(-np.inf, 0.0))
