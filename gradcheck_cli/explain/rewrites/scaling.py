"""Divide numbers by the largest of them, if that changes the result by a known power of it.

A function that is homogeneous of degree k, f(c x) = c^k f(x), needs no intermediate number larger
or smaller than its result and inputs: x / sqrt(x^2 + y^2), the overlap of two boxes, (s / r)^12 -
(s / r)^6.

Sources: Higham, Accuracy and stability of numerical algorithms, 27.8; Blue, A portable Fortran
program to find the Euclidean norm of a vector, 1978.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import Residue
from gradcheck_cli.explain.algebra.expressions import Expr, has_at_most, ordered
from gradcheck_cli.explain.rewrites.rule import Rewrite, Site, by_hand

LARGEST = 60  # the most operations of a scaled part: as many as a person would rewrite
MOST_INPUTS = 16
TINY: Residue = 1e-9  # tolerance of degrees, which are sums of a few exponents

Degrees = Mapping[Expr, float]
"""For each input, the degree of a value: it grows by this power of the input's factor."""
_NOTHING: Degrees = {}

_POWERS = {"square": 2.0, "var": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0, "cbrt": 1 / 3}
_WORDS = {
    "same": """
        abs add broadcast_to concatenate cumsum diag expand_dims flip getitem hypot max maximum mean
        median min minimum moveaxis negative norm relu repeat reshape roll sort squeeze stack std
        stop_gradient subtract sum take trace transpose tril triu where""",
    "compared": "less less_equal greater greater_equal equal not_equal atan2",
    "products": "multiply matmul dot outer",
    "sites": "add atan2 divide multiply norm power reciprocal rsqrt sqrt std subtract",
}
_OF_SQUARES = ("std", "norm", "hypot")
_SAME, _COMPARED, _PRODUCTS, _SITES = (frozenset(words.split()) for words in _WORDS.values())


@dataclass(frozen=True, slots=True)
class _Part:
    """degrees     of the value; None if it has no inputs, and thus any degree
    ties        combinations of degrees that must be 0, or nothing is known
    """

    degrees: Degrees | None
    ties: tuple[Degrees, ...] = ()


def _plus(a: Degrees, b: Degrees, times: float = 1.0) -> Degrees:
    total = dict(a)
    for x, degree in b.items():
        total[x] = total.get(x, 0.0) + times * degree
    return {x: degree for x, degree in total.items() if abs(degree) > TINY}


def _part(expr: Expr, parts: Mapping[int, _Part]) -> _Part:
    """The degrees of one operation, from its arguments."""
    if expr.op == INPUT:
        return _Part({expr: 1.0} if expr.kind == "float" else None)
    args = [parts[id(arg)] for arg in expr.args]
    given = [arg.degrees for arg in args if arg.degrees is not None]
    ties = tuple(dict.fromkeys(tie for arg in args for tie in map(_key, arg.ties)))
    known = tuple(map(dict, ties))
    if not given:
        return _Part(None, known)
    if expr.op in _SAME or expr.op in _COMPARED:
        if expr.op == "where":
            given = [p.degrees for p in args[1:] if p.degrees is not None] or [_NOTHING]
        equal = tuple(t for other in given[1:] if (t := _plus(given[0], other, -1.0)))
        return _Part(given[0] if expr.op in _SAME else _NOTHING, known + equal)
    degrees = _degrees(expr, args, given)
    if degrees is None:
        return _Part(_NOTHING, known + tuple(one for one in given if one))
    return _Part(degrees, known)


def _degrees(expr: Expr, args: Sequence[_Part], given: Sequence[Degrees]) -> Degrees | None:
    """The degrees of an operation whose arguments may differ in degree; None for a function of
    plain numbers, as most are. `given` are the known degrees of `args`."""
    if expr.op in _PRODUCTS:
        return reduce(_plus, given)
    if expr.op == "divide":
        return _plus(args[0].degrees or _NOTHING, args[1].degrees or _NOTHING, -1.0)
    if expr.op in _POWERS:
        return _plus(_NOTHING, given[0], _POWERS[expr.op])
    if expr.op == "power" and expr.args[1].op == CONSTANT:
        return _plus(_NOTHING, given[0], float(expr.args[1].value or 0))
    if expr.op == "prod":
        return _plus(_NOTHING, given[0], math.prod(expr.args[0].shape) / math.prod(expr.shape))
    return None


def _key(degrees: Degrees) -> tuple[tuple[Expr, float], ...]:
    return tuple(degrees.items())


def _parts(site: Site) -> dict[int, _Part] | None:
    """The parts of all subexpressions; None if there are too many, or a custom gradient among
    them."""
    known: dict[int, _Part] = site.workshop.proposed.setdefault(scaled_by_the_largest, {})
    if not has_at_most(site.expr, LARGEST):
        return None
    inside = ordered(site.expr)
    if any(expr.op == CUSTOM for expr in inside):
        return None
    for expr in inside:
        if id(expr) not in known:
            known[id(expr)] = _part(expr, known)
    return known


def _free(inputs: Sequence[Expr], ties: Sequence[Degrees]) -> Iterator[dict[Expr, float]]:
    """Independent directions in which the inputs can be scaled so that all ties hold: the null
    space of the ties, by Gauss-Jordan elimination."""
    rows = [[tie.get(x, 0.0) for x in inputs] for tie in ties]
    pivots: list[int] = []
    for column in range(len(inputs)):
        done = len(pivots)
        best = max(range(done, len(rows)), key=lambda i: abs(rows[i][column]), default=None)
        if best is None or abs(rows[best][column]) < TINY:
            continue
        rows[done], rows[best] = rows[best], rows[done]
        rows[done] = [value / rows[done][column] for value in rows[done]]
        for i, row in enumerate(rows):
            if i != done:
                rows[i] = [a - row[column] * b for a, b in zip(row, rows[done], strict=True)]
        pivots.append(column)
    for column in range(len(inputs)):
        if column not in pivots:
            weights = {inputs[column]: 1.0}
            for i, pivot in enumerate(pivots):
                if abs(rows[i][column]) > TINY:
                    weights[inputs[pivot]] = -rows[i][column]
            yield weights


def _degree(degrees: Degrees | None, weights: Mapping[Expr, float]) -> float:
    return sum(weights.get(x, 0.0) * degree for x, degree in (degrees or {}).items())


def _by(site: Site, value: Expr, m: Expr, degree: float) -> Expr:
    """value * m ** degree, in steps that overflow only if the result does."""
    shop = site.workshop
    step = shop.multiply if degree > 0 else shop.divide
    whole = int(abs(degree) + TINY)
    rest = abs(degree) - whole
    if rest > TINY:
        value = step(value, shop.power(m, 0.5 if abs(rest - 0.5) < TINY else rest))
    for _ in range(whole):
        value = step(value, m)
    return value


@dataclass(frozen=True, slots=True)
class _Group:
    """Inputs with their weights, and the number that they are divided by."""

    weights: Mapping[Expr, float]
    m: Expr


def _group(site: Site, weights: Mapping[Expr, float]) -> _Group:
    sizes = []
    for x, weight in sorted(weights.items(), key=lambda pair: pair[0].name or ""):
        if weight == 1:
            size = site.call("abs", x)
            sizes.append(size if x.shape == () else site.call("max", size))
    largest = reduce(lambda a, b: site.call("maximum", a, b), sizes)
    return _Group(weights, site.call("stop_gradient", largest))


def _rewritten(site: Site, parts: Mapping[int, _Part], groups: Sequence[_Group]) -> Expr:
    """The expression with every input divided, and the constants next to them scaled to match."""
    made: dict[int, Expr] = {}
    for expr in ordered(site.expr):
        new = expr
        if expr.op == INPUT:
            for group in groups:
                new = _by(site, new, group.m, -group.weights.get(expr, 0.0))
        elif expr.args:
            args = [made[id(arg)] for arg in expr.args]
            if expr.op in _SAME or expr.op in _COMPARED:
                args = _with_constants(site, expr, args, parts, groups)
            if any(a is not b for a, b in zip(args, expr.args, strict=True)):
                new = site.call(expr.op, *args, **expr.keywords)
        made[id(expr)] = new
    new = made[id(site.expr)]
    for group in groups:
        new = _by(site, new, group.m, _degree(parts[id(site.expr)].degrees, group.weights))
    return new


def _with_constants(
    site: Site, expr: Expr, args: list[Expr], parts: Mapping[int, _Part], groups: Sequence[_Group]
) -> list[Expr]:
    """The arguments, with those without inputs scaled to the degree of the others."""
    given: list[Any] = [parts[id(arg)].degrees for arg in expr.args]
    measured = given[1:] if expr.op == "where" else given
    degrees = next((degrees for degrees in measured if degrees is not None), None)
    for i, arg in enumerate(expr.args):
        constant = given[i] is None and arg.kind != "bool" and arg.value != 0
        if constant and not (expr.op == "where" and i == 0):
            for group in groups:
                args[i] = _by(site, args[i], group.m, -_degree(degrees, group.weights))
    return args


@by_hand(broad=True)
def scaled_by_the_largest(site: Site) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:
    """f(x), homogeneous of degree k -> m ** k * f(x / m), m = stop_gradient(max(abs(x)))"""
    if site.expr.op not in _SITES or (parts := _parts(site)) is None:
        return
    mine = parts[id(site.expr)]
    inside = ordered(site.expr)
    inputs = [expr for expr in inside if expr.op == INPUT and expr.kind == "float"]
    if mine.degrees is None or len(inputs) > MOST_INPUTS:
        return
    each = list(map(_scaled_to_least, _free(inputs, mine.ties)))
    joined = list(map(_scaled_to_least, _joined(each)))
    choices = [[one] for one in joined] + [[one] for one in each if one not in joined]
    if len(joined) > 1:
        choices.append(joined)
    number = site.workshop.number
    for weights in choices:
        if _helps(site, inside, parts, weights):
            groups = [_group(site, one) for one in weights]
            stated = tuple(site.call("greater", group.m, number(0)) for group in groups)
            yield _rewritten(site, parts, groups), stated


def _scaled_to_least(weights: Degrees) -> Degrees:
    """The direction, scaled so that its least weight is 1."""
    least = min(weights.values(), key=lambda weight: (abs(weight), -weight))
    return {x: weight / least for x, weight in weights.items()}


def _joined(each: Sequence[Degrees]) -> list[Degrees]:
    """Directions that share inputs, joined into one: b, a and c of b * b - a * c scale alike."""
    joined: list[Degrees] = []
    for one in each:
        sharing = [other for other in joined if other.keys() & one.keys()]
        joined = [other for other in joined if not other.keys() & one.keys()]
        joined.append(reduce(_plus, sharing, one))
    return joined


def _helps(
    site: Site, inside: Sequence[Expr], parts: Mapping[int, _Part], weights: Sequence[Degrees]
) -> bool:
    """Whether some intermediate value is farther from 1 than the inputs and the result, if all
    these inputs are far from 1."""

    def degree(part: Expr) -> float:
        return abs(sum(_degree(parts[id(part)].degrees, one) for one in weights))

    squared = [2 * degree(part) for part in inside if part.op in _OF_SQUARES]
    squared += [2 * degree(part.args[1]) for part in inside if _squares_its_divisor(site, part)]
    return max([*map(degree, inside), *squared]) > max(degree(site.expr), 1.0) + TINY


def _squares_its_divisor(site: Site, expr: Expr) -> bool:
    """Whether the derivative x / y ** 2 of a fraction leaves the dtype's range here."""
    value = site.value(expr.args[1]) if expr.op == "divide" else None
    if value is None:
        return False
    square = np.square(np.asarray(value, np.float64))
    return bool(np.any((square > site.fmt.largest) | (square < site.fmt.smallest_normal)))


RULES: tuple[Rewrite, ...] = (scaled_by_the_largest,)
