"""Enclosures of functions with parameters, and of their derivatives by these, of any order.

Arb has no derivative of an incomplete function by its parameter. But all these functions are
analytic, so that Cauchy's estimate bounds what a difference of their values leaves out:
`derivative` encloses them by values alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import comb, factorial, prod
from typing import Any

import numpy as np
from flint import acb, arb, ctx

from reference_engine.arithmetic.arbs import NotInBalls
from reference_engine.arithmetic.arbs import precision as at_precision

_NARROWER = (2, 5, 12, 24, 48)
"""Binary orders by which the discs are smaller than what the function is analytic on: where an
enclosure over the first is too wide to be a bound, the next is tried."""


_LARGE = 10_000
"""Beyond, Arb's series have so many terms that one enclosure takes seconds."""


def derivative(
    function: Callable[..., Any], xs: Sequence[Any], orders: Sequence[int], room: Sequence[Any]
) -> Any:
    """The partial derivative of a function of `acb`, real on the reals, and analytic where each
    argument is within its `room` (an `arb`) of those.

    A central difference with the step h leaves out n h^2 / 24 times a derivative of two orders
    more; the radius r of an argument moves it by r times one of one order more. With M the largest
    value on discs of the radius R around the arguments, a derivative of the orders n is at most
    the product of n! M / (R - r)^n.
    """
    for narrower in _NARROWER:
        discs = [(one * arb(2) ** -narrower).mid() for one in room]
        if not all(x.rad() < disc / 4 for x, disc in zip(xs, discs, strict=True)):
            break
        around = [
            acb(x + arb(0, disc), arb(0, disc)) if n or x.rad() > 0 else acb(x)
            for x, n, disc in zip(xs, orders, discs, strict=True)
        ]
        largest = abs(function(*around))
        if largest.is_finite():
            return _difference(function, xs, orders, discs, largest.upper())
    return arb.nan()


def _difference(
    function: Callable[..., Any],
    xs: Sequence[Any],
    orders: Sequence[int],
    discs: Sequence[Any],
    largest: Any,
) -> Any:
    bits = ctx.prec
    steps = [disc * arb(2) ** -bits for disc in discs]

    def bound(*more: int) -> Any:
        """Of the derivative of that many orders more."""
        whole = [n + m for n, m in zip(orders, more, strict=True)]
        half = [disc / 2 for disc in discs]
        return largest * prod(
            (factorial(n) / one**n for n, one in zip(whole, half, strict=True)), start=arb(1)
        )

    with at_precision(bits * (sum(orders) + 2) + 64):
        total = arb(0)
        for ks in product(*(range(n + 1) for n in orders)):
            weight = prod((-1) ** k * comb(n, k) for k, n in zip(ks, orders, strict=True))
            moved = [
                acb(x.mid() + (arb(n) / 2 - k) * step)
                for x, k, n, step in zip(xs, ks, orders, steps, strict=True)
            ]
            total += weight * function(*moved).real
        total /= prod((step**n for n, step in zip(orders, steps, strict=True)), start=arb(1))
    left = arb(0)
    for i, (x, n, step) in enumerate(zip(xs, orders, steps, strict=True)):
        one, two = ([k * (j == i) for j in range(len(xs))] for k in (1, 2))
        left += x.rad() * bound(*one) + n * step**2 / 24 * bound(*two)
    return total + arb(0, left.upper())


def _narrower(one: Any, other: Any) -> Any:
    """Of two enclosures of the same number; Arb gives up, or cancels, in different places."""
    return other if not one.is_finite() or other.rad() < one.rad() else one


def _gammainc(a: Any, x: Any) -> Any:
    return _narrower(x.gamma_lower(a, regularized=1), 1 - x.gamma_upper(a, regularized=1))


def _gammaincc(a: Any, x: Any) -> Any:
    return x.gamma_upper(a, regularized=1)


def _gamma_density(a: Any, x: Any) -> Any:
    return x ** (a - 1) * (-x).exp() * a.rgamma()


def _betainc(a: Any, b: Any, x: Any) -> Any:
    mirrored = (1 - x).beta_lower(b, a, regularized=1)
    return _narrower(x.beta_lower(a, b, regularized=1), 1 - mirrored)


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    scale = (a + b).gamma() * a.rgamma() * b.rgamma()
    return x ** (a - 1) * (1 - x) ** (b - 1) * scale


def _zeta(s: Any, q: Any) -> Any:
    return s.zeta(q)


def _smallest(*xs: Any) -> Any:
    return min(x.lower() for x in xs)


def _row(
    name: str,
    function: Callable[..., Any],
    inside: Callable[..., tuple[Any, ...]],
    names: Sequence[str] = (),
    edge: Callable[..., Any] = lambda *xs: None,
) -> Callable[..., Any]:
    """The enclosure of a function of `acb`, or of its derivatives by the first arguments: their
    orders are keywords with these `names`. `inside` gives how far each argument is from where its
    domain ends, less than 0 beyond it; `edge` the value at an end, None where this is none."""

    def one(orders: Sequence[int], *xs: Any) -> Any:
        room = inside(*xs)
        if any(one < 0 for one in room):
            return arb.nan()
        at_edge = edge(*xs)
        if at_edge is not None:
            return arb(0) if any(orders) else at_edge
        if not any(orders):
            return function(*map(acb, xs)).real
        if any(one > _LARGE for one in xs):
            raise NotInBalls(name, f"its derivative by a parameter is not enclosed beyond {_LARGE}")
        return derivative(function, xs, (*orders, *[0] * (len(xs) - len(orders))), room)

    def value(*xs: Any, **keywords: Any) -> Any:
        orders = [keywords[name] for name in names]
        return np.frompyfunc(lambda *each: one(orders, *each), len(xs), 1)(*xs)

    return value


def _gamma_room(a: Any, x: Any) -> tuple[Any, ...]:
    return (_smallest(a, arb(1)), x)


def _beta_room(a: Any, b: Any, x: Any) -> tuple[Any, ...]:
    return (_smallest(a, arb(1)), _smallest(b, arb(1)), _smallest(x, 1 - x))


def _zeta_room(s: Any, q: Any) -> tuple[Any, ...]:
    return (_smallest(s - 1, arb(1)), _smallest(q, arb(1)))


def _end_of_gamma(a: Any, x: Any) -> Any:
    return arb(0) if x == 0 else None


def _end_of_beta(a: Any, b: Any, x: Any) -> Any:
    return x if x == 0 or x == 1 else None


def _end_of_density(*given: Any) -> Any:
    *powers, x = given
    for power, there in zip(powers, (0, 1), strict=False):
        if x == there and power > 1:
            return arb(0)
    return None


INCOMPLETE: dict[str, Callable[..., Any]] = {
    "gammainc": _row("gammainc", _gammainc, _gamma_room, edge=_end_of_gamma),
    "gammaincc": _row(
        "gammaincc", _gammaincc, _gamma_room, edge=lambda a, x: arb(1) if x == 0 else None
    ),
    "gammainc_slope": _row("gammainc_slope", _gammainc, _gamma_room, ("n",), _end_of_gamma),
    "gamma_density": _row("gamma_density", _gamma_density, _gamma_room, ("n",), _end_of_density),
    "betainc": _row("betainc", _betainc, _beta_room, edge=_end_of_beta),
    "betainc_slope": _row("betainc_slope", _betainc, _beta_room, ("n", "m"), _end_of_beta),
    "beta_density": _row("beta_density", _beta_density, _beta_room, ("n", "m"), _end_of_density),
    "zeta": _row("zeta", _zeta, _zeta_room),
    "zeta_slope": _row("zeta_slope", _zeta, _zeta_room, ("n",)),
}
