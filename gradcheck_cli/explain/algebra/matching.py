"""Match patterns with normal forms.

`log(1 + exp(x))` matches modulo commutation and association, at any depth of sums and products: it
matches a part of a longer sum or product, also behind a factor of a sum or inside a reciprocal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import SAME_CONSTANT
from gradcheck_cli.explain.algebra.normal_form import (
    COMMUTATIVE,
    ZERO,
    Algebra,
    NormalForm,
    arithmetic,
    factors_of,
    term_count,
    terms_of,
)
from gradcheck_cli.explain.algebra.patterns import NUMBERS, KeywordVariable

Bindings = Mapping[str, Any]


def match(algebra: Algebra, p: NormalForm, t: NormalForm, b: Bindings) -> Iterator[Bindings]:
    """All ways to match the whole of `t` with `p`, as bindings that extend `b`."""
    if p.kind == "variable":
        bound = b.get(p.op)
        if bound is not None:
            if bound is t:
                yield b
        elif p.op not in NUMBERS or t.kind == "number":
            yield {**b, p.op: t}
    elif p.kind == "number":
        if t.kind == "number" and same_number(p.value, t.value):
            yield b
    elif p.kind == "call":
        yield from _match_call(algebra, p, t, b)
    elif p.kind == "product":
        coefficient, factors = factors_of(t)
        rest = algebra.product(factors, coefficient / p.value if p.value else math.inf)
        yield from _factors(algebra, _in_order_of_binding(p.parts), rest, b, whole=True)
    elif p.kind == "sum":
        yield from _match_sum(algebra, p, t, b)


def same_number(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= SAME_CONSTANT * max(abs(a), abs(b))


def bound_value(algebra: Algebra, p: NormalForm, b: Bindings) -> NormalForm | None:
    """The value of a pattern whose variables are all bound, else None."""
    if p.kind == "variable":
        return b.get(p.op)
    if p.kind == "number":
        return algebra.number(p.value)
    if p.kind == "call":
        args = [bound_value(algebra, arg, b) for arg in p.args]
        known = [arg for arg in args if arg is not None]
        if len(known) < len(args):
            return None
        keywords: dict[str, Any] = {}
        for name, value in p.keywords.items():
            if isinstance(value, KeywordVariable):
                if value.name not in b:
                    return None
                keywords.update(b[value.name] if value.rest else {name: b[value.name]})
            else:
                keywords[name] = value
        return arithmetic(algebra, p.op, known, keywords)
    parts: list[tuple[NormalForm, float]] = []
    for part, weight in p.parts:
        value = bound_value(algebra, part, b)
        if value is None:
            return None
        parts.append((value, weight))
    if p.kind == "product":
        return algebra.product(parts, p.value)
    return algebra.sum(parts, p.value)


def _match_call(algebra: Algebra, p: NormalForm, t: NormalForm, b: Bindings) -> Iterator[Bindings]:
    if p.op == "power" and p.args[1].kind == "variable" and t.kind == "product":
        # constant powers are products
        if t.value == 1 and len(t.parts) == 1 and p.args[1].op in NUMBERS:
            base, exponent = t.parts[0]
            for found in match(algebra, p.args[0], base, b):
                yield from match(algebra, p.args[1], algebra.number(exponent), found)
        return
    if t.kind != "call" or t.op != p.op or len(t.args) != len(p.args):
        return
    known = _match_keywords(p.keywords, t.keywords, b)
    if known is None:
        return
    orders = [t.args, t.args[::-1]] if p.op in COMMUTATIVE else [t.args]
    for order in orders:
        yield from _match_all(algebra, p.args, order, known)


def _match_all(
    algebra: Algebra, ps: tuple[NormalForm, ...], ts: tuple[NormalForm, ...], b: Bindings
) -> Iterator[Bindings]:
    if not ps:
        yield b
        return
    # variables are matched last: by then they may be bound
    i = min(range(len(ps)), key=lambda j: ps[j].kind == "variable")
    for found in match(algebra, ps[i], ts[i], b):
        yield from _match_all(algebra, ps[:i] + ps[i + 1 :], ts[:i] + ts[i + 1 :], found)


def _match_keywords(
    p: Mapping[str, Any], t: Mapping[str, Any], b: Bindings
) -> dict[str, Any] | None:
    bindings = dict(b)
    for name, wanted in p.items():
        value: Any
        if isinstance(wanted, KeywordVariable) and wanted.rest:
            value = {other: v for other, v in t.items() if other not in p}
        else:
            value = t.get(name)
        if isinstance(wanted, KeywordVariable):
            if wanted.name in bindings and bindings[wanted.name] != value:
                return None
            bindings[wanted.name] = value
        elif value != wanted:
            return None
    return bindings


def _in_order_of_binding(
    parts: tuple[tuple[NormalForm, float], ...],
) -> tuple[tuple[NormalForm, float], ...]:
    """The parts in the order to match: compounds first, as they bind variables; variables for
    constants last, as they take the remaining coefficient."""

    def rank(part: tuple[NormalForm, float]) -> int:
        norm, _ = part
        return 0 if norm.kind != "variable" else 1 + (norm.op in NUMBERS)

    return tuple(sorted(parts, key=rank))


def _factors(
    algebra: Algebra,
    ps: tuple[tuple[NormalForm, float], ...],
    t: NormalForm,
    b: Bindings,
    *,
    whole: bool,
    rest_key: str = "",
) -> Iterator[Bindings]:
    """Match factor by factor. If `whole`, nothing of `t` may remain; else the rest is bound to
    `rest_key`."""
    if not ps:
        if not whole:
            yield {**b, rest_key: t}
        elif t.kind == "number" and same_number(t.value, 1.0):
            yield b
        return
    (p, exponent), others = ps[0], ps[1:]
    value = bound_value(algebra, p, b)
    if value is not None:
        divided = algebra.product([(t, 1.0), (value, -exponent)])
        if whole or _simpler(t, divided):
            yield from _factors(algebra, others, divided, b, whole=whole, rest_key=rest_key)
        return
    if p.kind == "variable" and not others:
        yield from _match_root_of(algebra, p, exponent, t, b, whole, rest_key)
        return
    for factor, own in factors_of(t)[1]:
        if own == exponent:
            for scale in _scales(p, factor, own):
                turned = algebra.scaled(factor, 1 / scale)
                left = algebra.product([(t, 1.0), (factor, -own)], scale**own)
                for found in match(algebra, p, turned, b):
                    yield from _factors(
                        algebra, others, left, found, whole=whole, rest_key=rest_key
                    )


def _scales(p: NormalForm, t: NormalForm, exponent: float) -> list[float]:
    """The multiples of the pattern's sum that a factor may be: 1, or the ratio of the constants;
    without constants, 1 and -1."""
    if p.kind != "sum" or t.kind != "sum":
        return [1.0]
    if p.value == 0 or t.value == 0:
        turns = p.value == t.value and exponent == int(exponent)
        return [1.0, -1.0] if turns else [1.0]
    ratio = t.value / p.value
    if ratio < 0 and exponent != int(exponent):
        return []
    return [1.0] if same_number(ratio, 1.0) else [ratio]


def _match_root_of(
    algebra: Algebra,
    p: NormalForm,
    exponent: float,
    t: NormalForm,
    b: Bindings,
    whole: bool,
    rest_key: str,
) -> Iterator[Bindings]:
    """Match the last factor, a free variable, with everything that remains; if it stands for a
    constant, with the coefficient."""
    if p.op in NUMBERS:
        coefficient, factors = factors_of(t)
        left = algebra.product(factors)
        if coefficient != 1 and abs(exponent) == 1 and not (whole and factors):
            known = b if whole else {**b, rest_key: left}
            yield from match(algebra, p, algebra.number(coefficient**exponent), known)
        return
    if not whole:
        b = {**b, rest_key: algebra.number(1.0)}
    if t.kind == "number":
        return  # nothing remains
    if exponent == 1:
        yield from match(algebra, p, t, b)
        return
    coefficient, factors = factors_of(t)
    if not whole:  # (c x)^2 is better left as c^2 x^2: roots of constants round
        b = {**b, rest_key: algebra.number(coefficient)}
        coefficient, t = 1.0, algebra.product(factors)
    if not factors or coefficient <= 0 or exponent == 0:
        return
    if exponent == int(exponent) and any((e / exponent) % 1 for _, e in factors):
        return
    if exponent < 0 and any(e > 0 for _, e in factors):
        return  # x / y is not a reciprocal
    root = algebra.product([(f, e / exponent) for f, e in factors], coefficient ** (1 / exponent))
    if algebra.power(root, exponent) is t:
        yield from match(algebra, p, root, b)


def _simpler(before: NormalForm, after: NormalForm) -> bool:
    """Whether the division removed a factor, or replaced it by another."""
    return len(factors_of(after)[1]) <= len(factors_of(before)[1])


def _match_sum(algebra: Algebra, p: NormalForm, t: NormalForm, b: Bindings) -> Iterator[Bindings]:
    constant = terms_of(algebra, t)[0]
    if t.kind != "sum" and not any(q.kind == "variable" for q, _ in p.parts):
        return
    free = any(q.kind == "variable" for q, _ in p.parts)
    if p.value != 0:
        if not same_number(p.value, constant):
            return
        t = algebra.sum([(t, 1.0)], -constant)
    elif constant != 0 and not free:
        return
    yield from _terms(algebra, _in_order_of_binding(p.parts), t, b, 1.0, whole=True)


def _terms(
    algebra: Algebra,
    ps: tuple[tuple[NormalForm, float], ...],
    t: NormalForm,
    b: Bindings,
    scale: float,
    *,
    whole: bool,
    rest_key: str = "",
) -> Iterator[Bindings]:
    """Match scale * pattern term by term."""
    if not ps:
        if not whole:
            yield {**b, rest_key: t}
        elif t.kind == "number" and abs(t.value) < ZERO:
            yield b
        return
    (p, weight), others = ps[0], ps[1:]
    value = bound_value(algebra, p, b)
    if value is not None:
        left = algebra.sum([(t, 1.0), (value, -weight * scale)])
        if whole or _fewer(algebra, t, left):
            yield from _terms(algebra, others, left, b, scale, whole=whole, rest_key=rest_key)
        return
    if p.kind == "variable" and not others:
        if t.kind == "number" and p.op not in NUMBERS:
            return  # nothing remains
        known = b if whole else {**b, rest_key: algebra.number(0.0)}
        yield from match(algebra, p, algebra.scaled(t, 1 / (weight * scale)), known)
        return
    for term, own in terms_of(algebra, t)[1]:
        left = algebra.sum([(t, 1.0), (term, -own)])
        ratio = own / (weight * scale)
        for found in match(algebra, p, algebra.scaled(term, ratio), b):
            yield from _terms(algebra, others, left, found, scale, whole=whole, rest_key=rest_key)


def _fewer(algebra: Algebra, before: NormalForm, after: NormalForm) -> bool:
    """Whether the subtraction removed terms."""
    return term_count(algebra, after) < term_count(algebra, before)


@dataclass(frozen=True, slots=True)
class Fit:
    """A match of a pattern with a part of a value = scale * pattern^exponent (+ or *) rest."""

    bindings: Bindings
    scale: float = 1.0
    exponent: float = 1.0
    added: NormalForm | None = None
    times: NormalForm | None = None


@cache
def _required_ops(p: NormalForm) -> frozenset[str]:
    """The operations that a form must contain to match a pattern. Operations on constants alone may
    have become numbers, and powers products."""
    parts = (*p.args, *(part for part, _ in p.parts))
    own = {p.op} if p.kind == "call" and p.op != "power" and not all(map(_constant, p.args)) else ()
    return frozenset(own).union(*map(_required_ops, parts))


def _constant(p: NormalForm) -> bool:
    if p.kind == "variable":
        return p.op in NUMBERS
    return all(map(_constant, (*p.args, *(part for part, _ in p.parts))))


def fits(algebra: Algebra, p: NormalForm, t: NormalForm) -> Iterator[Fit]:
    """All ways to match a part at the top of `t` with `p`."""
    if not _required_ops(p) <= t.calls:
        return
    if p.kind == "product":
        yield from _fits_product(algebra, p, t)
    elif p.kind == "sum":
        yield from _fits_sum(algebra, p, t)
    else:
        for found in match(algebra, p, t, {}):
            yield Fit(found)


_REST = "(rest)"


def _compounds(p: NormalForm) -> int:
    """The number of parts of a pattern that each need a part of their own."""
    return sum(part.kind != "variable" for part, _ in p.parts)


def _fits_product(algebra: Algebra, p: NormalForm, t: NormalForm) -> Iterator[Fit]:
    if t.kind != "product" or _compounds(p) > len(t.parts):
        return
    fraction = any(e > 0 for _, e in p.parts)  # 1 / f alone does not invert a match
    for exponent in (1.0, -1.0) if fraction else (1.0,):
        parts = tuple((q, e * exponent) for q, e in _in_order_of_binding(p.parts))
        start = algebra.scaled(t, 1 / (p.value if exponent == 1 else 1 / p.value))
        for fitted in _factors(algebra, parts, start, {}, whole=False, rest_key=_REST):
            rest = fitted[_REST]
            bindings = {name: value for name, value in fitted.items() if name != _REST}
            yield Fit(bindings, exponent=exponent, times=rest)


def _fits_sum(algebra: Algebra, p: NormalForm, t: NormalForm) -> Iterator[Fit]:
    if t.kind != "sum" or _compounds(p) > len(t.parts):
        return
    parts = _in_order_of_binding(p.parts)
    (first, weight), others = parts[0], parts[1:]
    if first.kind == "variable":  # such as x + 1: match the whole sum
        for found in match(algebra, p, t, {}):
            yield Fit(found)
        return
    for term, own in t.parts:
        scale = own / weight
        left = algebra.sum([(t, 1.0), (term, -own)], -p.value * scale)
        if p.value and not same_number(t.value, p.value * scale):
            continue
        if p.value:
            left = algebra.sum([(left, 1.0)], -terms_of(algebra, left)[0])
        for found in match(algebra, first, term, {}):
            rests = _terms(algebra, others, left, found, scale, whole=False, rest_key=_REST)
            for rest in rests:
                bindings = {name: value for name, value in rest.items() if name != _REST}
                yield Fit(bindings, scale=scale, added=rest[_REST])
