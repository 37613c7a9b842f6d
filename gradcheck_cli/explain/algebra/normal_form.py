"""Expressions up to commutation and association: flattened sums and products.

sum       const + sum of coefficient * term
product   coefficient * product of factor ^ exponent
call      any other operation, arguments and keywords
atom      an input, or an expression that is not analysed
number, variable (of a pattern)

Negation, subtraction, division, reciprocals, squares, roots and constant powers are sums and
products, so that one pattern serves `1 / exp(x)`, `exp(x) ** -1` and `reciprocal(exp(x))`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from gradcheck_cli.domain.thresholds import Residue

Kind = Literal["sum", "product", "call", "atom", "number", "variable"]

MOST_TERMS = 12
"""Longer sums and products are atoms: no rule has so many terms, and a chain of a thousand would
take a million steps."""
CANCELLED: Residue = 1e-15  # relative to the largest coefficient of a sum
ZERO: Residue = 1e-12  # below this, an exponent or a constant is zero


class NormalForm:
    """A normal form; equal forms of one algebra are the same object.

    value       the number; the constant term of a sum; the coefficient of a product
    parts       (term, coefficient) of a sum, (factor, exponent) of a product
    op, args, keywords      of a call; `op` is also the name of a variable
    expr        an expression that has this form (of patterns: None)
    calls       the operations of all calls in it
    """

    __slots__ = ("args", "calls", "expr", "keywords", "kind", "number", "op", "parts", "value")

    def __init__(
        self,
        kind: Kind,
        number: int,
        *,
        value: float = 0.0,
        parts: tuple[tuple[NormalForm, float], ...] = (),
        op: str = "",
        args: tuple[NormalForm, ...] = (),
        keywords: Mapping[str, Any] | None = None,
        expr: Any = None,
    ) -> None:
        self.kind = kind
        self.number = number
        self.value = value
        self.parts = parts
        self.op = op
        self.args = args
        self.keywords: Mapping[str, Any] = keywords or {}
        self.expr = expr
        inside = [arg.calls for arg in args] + [part.calls for part, _ in parts]
        self.calls: frozenset[str] = frozenset({op} if kind == "call" else ()).union(*inside)


class Algebra:
    """Creates normal forms."""

    def __init__(self) -> None:
        self._known: dict[Any, NormalForm] = {}

    def _interned(self, key: Any, kind: Kind, **fields: Any) -> NormalForm:
        form = self._known.get((kind, key))
        if form is None:
            form = self._known[kind, key] = NormalForm(kind, len(self._known), **fields)
        return form

    def number(self, value: float) -> NormalForm:
        return self._interned(_rounded(value), "number", value=value + 0.0)

    def variable(self, name: str) -> NormalForm:
        return self._interned(name, "variable", op=name)

    def atom(self, expr: Any) -> NormalForm:
        return self._interned(id(expr), "atom", expr=expr)

    def call(self, op: str, args: Sequence[NormalForm], keywords: Mapping[str, Any]) -> NormalForm:
        if op in EVEN:
            args = [self._turned(args[0])]
        if op in COMMUTATIVE:
            args = sorted(args, key=lambda arg: arg.number)
        key = (op, tuple(arg.number for arg in args), repr(sorted(keywords.items())))
        return self._interned(key, "call", op=op, args=tuple(args), keywords=keywords)

    def sum(self, terms: Iterable[tuple[NormalForm, float]], constant: float = 0.0) -> NormalForm:
        """constant + sum of coefficient * term, flattened."""
        collected: dict[NormalForm, float] = {}
        for term, coefficient in terms:
            inner, core = self.split(term)
            if core is None:
                constant += coefficient * inner
            elif core.kind == "sum":
                constant += coefficient * inner * core.value
                for part, own in core.parts:
                    collected[part] = collected.get(part, 0.0) + coefficient * inner * own
            else:
                collected[core] = collected.get(core, 0.0) + coefficient * inner
        parts = list(collected.items())
        largest = max((abs(c) for _, c in parts), default=0.0)
        kept = sorted(
            ((term, c) for term, c in parts if abs(c) > CANCELLED * largest),
            key=lambda part: part[0].number,
        )
        if abs(constant) < CANCELLED * largest:
            constant = 0.0
        if not kept:
            return self.number(constant)
        if constant == 0 and len(kept) == 1:
            return self.scaled(*kept[0])
        key = (_rounded(constant), tuple((term.number, _rounded(c)) for term, c in kept))
        return self._interned(key, "sum", value=constant, parts=tuple(kept))

    def product(
        self, factors: Iterable[tuple[NormalForm, float]], coefficient: float = 1.0
    ) -> NormalForm:
        """coefficient * product of factor ^ exponent, flattened."""
        collected: dict[NormalForm, float] = {}
        for factor, exponent in factors:
            if factor.kind == "number":
                coefficient *= _power(factor.value, exponent)
            elif factor.kind == "product" and (exponent == int(exponent)):
                coefficient *= _power(factor.value, exponent)
                for part, own in factor.parts:
                    collected[part] = collected.get(part, 0.0) + exponent * own
            elif factor.kind == "product" and factor.value > 0 and factor.value != 1:
                coefficient *= _power(factor.value, exponent)
                core = self.product(factor.parts)
                collected[core] = collected.get(core, 0.0) + exponent
            else:
                collected[factor] = collected.get(factor, 0.0) + exponent
        kept = [(factor, e) for factor, e in collected.items() if abs(e) > ZERO]
        if not kept or coefficient == 0:
            return self.number(coefficient)
        if len(kept) == 1 and kept[0][0].kind == "sum" and kept[0][1] == 1:
            return self.scaled(kept[0][0], coefficient)
        kept = [(self._turned(f) if e % 2 == 0 else f, e) for f, e in kept]
        if _rounded(coefficient) == 1 and len(kept) == 1 and _rounded(kept[0][1]) == 1:
            return kept[0][0]
        kept.sort(key=lambda part: part[0].number)
        key = (_rounded(coefficient), tuple((factor.number, _rounded(e)) for factor, e in kept))
        return self._interned(key, "product", value=coefficient, parts=tuple(kept))

    def _turned(self, norm: NormalForm) -> NormalForm:
        """The argument of an even function: the same form for a - b and b - a."""
        turns = norm.kind == "sum" and norm.value == 0 and norm.parts[0][1] < 0
        turns |= norm.kind == "product" and norm.value < 0
        return self.scaled(norm, -1.0) if turns else norm

    def scaled(self, norm: NormalForm, coefficient: float) -> NormalForm:
        if coefficient == 1:
            return norm
        if norm.kind == "number":
            return self.number(norm.value * coefficient)
        if norm.kind == "sum":
            parts = tuple((term, c * coefficient) for term, c in norm.parts)
            value = norm.value * coefficient
            key = (_rounded(value), tuple((term.number, _rounded(c)) for term, c in parts))
            return self._interned(key, "sum", value=value, parts=parts)
        return self.product([(norm, 1.0)], coefficient)

    def power(self, base: NormalForm, exponent: float) -> NormalForm:
        return self.product([(base, exponent)])

    def split(self, norm: NormalForm) -> tuple[float, NormalForm | None]:
        """(coefficient, core) with norm = coefficient * core; a number has no core."""
        if norm.kind == "number":
            return norm.value, None
        if norm.kind == "product" and norm.value != 1:
            return norm.value, self.product(norm.parts)
        return 1.0, norm


EVEN = frozenset(["abs", "cos", "cosh", "i0", "i0e", "sinc"])
COMMUTATIVE = frozenset(["maximum", "minimum", "logaddexp", "hypot", "equal", "not_equal"])


def factors_of(norm: NormalForm) -> tuple[float, tuple[tuple[NormalForm, float], ...]]:
    """Any form as a product: coefficient, and factors with exponents."""
    if norm.kind == "product":
        return norm.value, norm.parts
    if norm.kind == "number":
        return norm.value, ()
    return 1.0, ((norm, 1.0),)


def terms_of(
    algebra: Algebra, norm: NormalForm
) -> tuple[float, tuple[tuple[NormalForm, float], ...]]:
    """Any form as a sum: constant, and terms with coefficients."""
    if norm.kind == "sum":
        return norm.value, norm.parts
    coefficient, core = algebra.split(norm)
    return (coefficient, ()) if core is None else (0.0, ((core, coefficient),))


def term_count(algebra: Algebra, norm: NormalForm) -> int:
    """The number of terms of any form as a sum, including its constant."""
    constant, terms = terms_of(algebra, norm)
    return len(terms) + (constant != 0)


def _rounded(value: float) -> float:
    """The value to twelve digits, so that coefficients computed in two ways are equal."""
    return float(f"{value:.12g}") + 0.0 if math.isfinite(value) else value


def _power(base: float, exponent: float) -> float:
    try:
        result = base**exponent
    except (ZeroDivisionError, OverflowError):
        return math.inf
    return math.nan if isinstance(result, complex) else result


def normal(algebra: Algebra, known: dict[int, NormalForm], expr: Any) -> NormalForm:
    """The normal form of an expression; `known` caches the forms by id."""
    form = known.get(id(expr))
    if form is None:
        from gradcheck_cli.explain.algebra.expressions import ordered

        for part in ordered(expr, known=known):
            known[id(part)] = _normal(algebra, known, part)
        form = known[id(expr)]
    return form


def _normal(algebra: Algebra, known: Mapping[int, NormalForm], expr: Any) -> NormalForm:
    made = _form_of(algebra, known, expr)
    if made.kind in ("sum", "product") and len(made.parts) > MOST_TERMS:
        made = algebra.atom(expr)
    if made.expr is None:
        made.expr = expr
    return made


def _form_of(algebra: Algebra, known: Mapping[int, NormalForm], expr: Any) -> NormalForm:
    op = expr.op
    args = [known[id(arg)] for arg in expr.args]
    if op == "constant":
        return algebra.number(float(expr.value))
    if op in ("input", "custom_gradient", "stop_gradient") or not args:
        return algebra.atom(expr)
    return arithmetic(algebra, op, args, expr.keywords)


def arithmetic(
    algebra: Algebra, op: str, args: Sequence[NormalForm], keywords: Mapping[str, Any]
) -> NormalForm:
    """The normal form of an operation on normal forms."""
    first = args[0]
    if op == "add":
        return algebra.sum([(first, 1.0), (args[1], 1.0)])
    if op == "subtract":
        return algebra.sum([(first, 1.0), (args[1], -1.0)])
    if op == "negative":
        return algebra.scaled(first, -1.0)
    if op == "multiply":
        return algebra.product([(first, 1.0), (args[1], 1.0)])
    if op == "divide":
        return algebra.product([(first, 1.0), (args[1], -1.0)])
    if op in _EXPONENTS:
        return algebra.power(first, _EXPONENTS[op])
    if op == "power" and args[1].kind == "number" and first.kind != "number":
        return algebra.power(first, args[1].value)
    if all(arg.kind == "number" for arg in args) and not keywords:
        folded = folded_value(op, [arg.value for arg in args])
        if folded is not None:
            return algebra.number(folded)
    return algebra.call(op, args, keywords)


_EXPONENTS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}


def folded_value(op: str, args: Sequence[float]) -> float | None:
    """The value of a function of numbers; None if the row is not elementwise. (A number stands for
    an array of any shape with equal elements: x / x is 1.)"""
    import numpy as np

    from reference_engine.op import TABLE

    if not TABLE[op].elementwise:
        return None
    value = TABLE[op].value(*[np.float64(arg) for arg in args])
    return float(value) if value.shape == () and value.dtype.kind == "f" else None
