"""Outputs that are polynomials of the inputs: rounding errors bounded monomial by monomial.

Near a zero of a sum of products, ranges cannot show that the rounding error is small compared with
the effect of half an ulp of the inputs, because both go to 0. But the error of `a * x + b * y` is
at most some u (|a x| + |b y|), and half an ulp of x and y moves it by u (|a x| + |b y|),
everywhere.

A number is a sum of terms c m, with monomials m of the inputs. Its error is at most the sum of e
|m|, plus d |v| for the last operation, plus a for underflow.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import CONSTANT, INPUT, Node
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.search.enclosures.array_rules import MOVES
from gradcheck_cli.search.enclosures.enclosed import literals
from gradcheck_cli.search.enclosures.enclosing import BoxProgram
from reference_engine.traced import ROWS

_MOST_TERMS = 64  # of a polynomial
_MOST_ELEMENTS = 256  # of an array of them
_LEFT = 2.0**-40  # relative: what float64 may lose of a coefficient
_UP = 1 + 2.0**-40  # for bounds, after a few hundred roundings to nearest
Monomial: TypeAlias = tuple[int, ...]
"""The places of its factors among the searched elements, in order, each as often as it counts."""


class _Other(Exception):
    """The number is not a polynomial, or one with too many terms."""


@dataclass(frozen=True, slots=True)
class Polynomial:
    """`terms`: for each monomial its coefficient c, the sum of the absolute values of the numbers
    that were added up to c, and e. `most`: the largest size of the computed number."""

    terms: Mapping[Monomial, tuple[float, float, float]]
    d: float
    a: float
    most: float


class Polynomials:
    """The output elements of a program that are polynomials, on an engine that flushes nothing.
    `sizes` has the largest size of each searched element, by input."""

    def __init__(self, boxes: BoxProgram, sizes: Mapping[str, Array]) -> None:
        self._boxes, self._rounding = boxes, boxes.rounding
        self._sizes = np.concatenate([np.ravel(size) for size in sizes.values()])
        self._values: list[Any] = []
        names = {index: name for name, index in boxes.program.inputs.items()}
        places, end = {}, 0
        for name, size in sizes.items():
            places[name] = np.arange(end, end + size.size).reshape(size.shape)
            end += size.size
        for index, node in enumerate(boxes.program.nodes):
            try:
                if boxes.rounding.flush:
                    raise _Other
                if names.get(index) in places:
                    found = self._elementwise(self._variable, places[names[index]])
                elif node.op == INPUT:
                    found = self._elementwise(
                        self._number, np.asarray(boxes.constants[names[index]])
                    )
                else:
                    found = self._polynomials_of(node, [self._values[i] for i in node.args])
            except (_Other, OverflowError, TypeError, IndexError):
                found = None
            self._values.append(found)

    def excused(self, output: int, counted: Collection[int], least: float, times: float) -> Any:
        """Mark the elements of an output whose error is excused at all points: it is at most
        `times` the effect of half an ulp of the elements `counted`, or below `least` |v|, or |v| is
        below the smallest normal number. False if unknown."""
        place = self._boxes.program.outputs[output]
        assert place is not None
        value = self._values[place]
        if value is None:
            return np.zeros(math.prod(self._boxes.program.nodes[place].shape), np.bool_)
        one = [self._is_excused(p, counted, least, times) for p in np.ravel(value)]
        return np.array(one, np.bool_)

    def _is_excused(
        self, p: Polynomial, counted: Collection[int], least: float, times: float
    ) -> bool:
        """The error is S + a + d |v|, where S sums e |m|. As |v| is at least the smallest normal
        number, a is at most a part of |v|. If the error is above `least` |v|, S is therefore all of
        it except these parts of `least`. Half an ulp of an element moves v by the sum of all terms
        that contain it; only an element of one single term counts, as then nothing cancels."""
        part = 1 - (p.a / self._rounding.normal + p.d) / least * _UP
        if part <= 0:
            return False
        used = Counter(i for m in p.terms for i in set(m))
        unit = self._rounding.unit
        for m, (c, size, e) in p.terms.items():
            alone = sum(m.count(i) for i in set(m) if used[i] == 1 and i in counted)
            sure = max(abs(c) - _LEFT * size, 0.0)
            if e * _UP > part * times * unit * alone * sure:
                return False
        return True

    # Numbers.

    def _elementwise(self, make: Callable[[Any], Polynomial], array: Array) -> Any:
        if array.size > _MOST_ELEMENTS or array.dtype.kind not in "fi":
            raise _Other
        found = np.empty(array.shape, object)
        for index in np.ndindex(array.shape):
            found[index] = make(array[index])
        return found

    def _variable(self, place: int) -> Polynomial:
        return Polynomial({(int(place),): (1.0, 1.0, 0.0)}, 0.0, 0.0, float(self._sizes[place]))

    def _number(self, value: float) -> Polynomial:
        held = literals(self._rounding, float(value))
        size, error = float(held.most), float(held.error)
        if not math.isfinite(size + error):
            raise _Other
        return Polynomial({(): (float(value), size, error)}, 0.0, 0.0, size + error)

    # Operations.

    def _polynomials_of(self, node: Node, args: Sequence[Any]) -> Any:
        if node.op == CONSTANT:
            if isinstance(node.value, bool) or node.value is None:
                raise _Other
            return self._elementwise(self._number, np.asarray(float(node.value)))
        if any(x is None for x in args):
            raise _Other
        if node.op in MOVES:
            return np.asarray(ROWS[node.op].raw(*args, **node.keywords), object)
        if node.op in _OPERATIONS:
            a, b = np.broadcast_arrays(*args, subok=False) if len(args) == 2 else (args[0], None)
            return self._by_element(_OPERATIONS[node.op], a, b)
        if node.op in ("matmul", "dot") and min(x.ndim for x in args) > 0:
            return self._product(*args)
        if node.op in ("sum", "mean"):
            return self._reduced(node, args[0])
        raise _Other

    def _by_element(self, operation: Any, a: Any, b: Any) -> Any:
        found = np.empty(a.shape, object)
        for index in np.ndindex(a.shape):
            others = () if b is None else (b[index],)
            found[index] = operation(self, a[index], *others)
        return found

    def _product(self, a: Any, b: Any) -> Any:
        if max(a.ndim, b.ndim) > 2:
            raise _Other
        rows, columns = np.atleast_2d(a), b if b.ndim == 2 else b[:, None]
        found = np.empty((len(rows), columns.shape[1]), object)
        for i, j in np.ndindex(found.shape):
            parts = [self._times(x, y) for x, y in zip(rows[i], columns[:, j], strict=True)]
            found[i, j] = self._sum(parts)
        return found.reshape(a.shape[:-1] + b.shape[1:])

    def _reduced(self, node: Node, x: Any) -> Any:
        axis, keepdims = node.keywords.get("axis"), node.keywords.get("keepdims", False)
        axes = range(x.ndim) if axis is None else [i % x.ndim for i in np.atleast_1d(axis)]
        front = np.moveaxis(x, list(axes), range(len(axes)))
        front = front.reshape(-1, *front.shape[len(axes) :])
        found = np.empty(front.shape[1:], object)
        for index in np.ndindex(found.shape):
            total = self._sum([front[(k, *index)] for k in range(len(front))])
            found[index] = total
            if node.op == "mean":
                found[index] = self._quotient(total, self._number(len(front)))
        if keepdims:
            found = found.reshape([1 if i in axes else n for i, n in enumerate(x.shape)])
        return found

    def _sum(self, parts: Sequence[Polynomial]) -> Polynomial:
        """A sum in any order, as in `array_rules.accumulated`."""
        gamma = max(len(parts) - 1, 0) * self._rounding.unit
        gamma = gamma / (1 - gamma)
        terms: dict[Monomial, tuple[float, float, float]] = {}
        for p in map(_absolute, parts):
            for m, (c, size, e) in p.terms.items():
                before = terms.get(m, (0.0, 0.0, 0.0))
                grown = e + gamma * (size + e)
                terms[m] = before[0] + c, before[1] + size, before[2] + grown
        a = sum(p.a for p in parts) * (1 + gamma)
        return self._limited(terms, 0.0, a, sum(p.most for p in parts) * (1 + gamma))

    def _plus(self, p: Polynomial, q: Polynomial) -> Polynomial:
        """A sum, rounded once; it is exact if it underflows."""
        one, other = _absolute(p), _absolute(q)
        terms = dict(one.terms)
        for m, (c, size, e) in other.terms.items():
            before = terms.get(m, (0.0, 0.0, 0.0))
            terms[m] = before[0] + c, before[1] + size, before[2] + e
        d = 0.0 if not (p.most and q.most) else self._rounding.unit
        return self._limited(terms, d, (p.a + q.a) * (1 + d), (p.most + q.most) * (1 + d))

    def _minus(self, p: Polynomial, q: Polynomial) -> Polynomial:
        return self._plus(p, self._negative(q))

    def _negative(self, p: Polynomial) -> Polynomial:
        return replace(p, terms={m: (-c, size, e) for m, (c, size, e) in p.terms.items()})

    def _times(self, p: Polynomial, q: Polynomial) -> Polynomial:
        """A product, rounded once. A product with a power of two is exact, except for underflow."""
        unit = 0.0 if _power_of_two(p) or _power_of_two(q) else self._rounding.unit
        one, other = _absolute(p), _absolute(q)
        terms: dict[Monomial, tuple[float, float, float]] = {}
        for m, (c, s, e) in one.terms.items():
            for n, (k, t, f) in other.terms.items():
                both = tuple(sorted(m + n))
                before = terms.get(both, (0.0, 0.0, 0.0))
                grown = s * f + e * t + e * f
                terms[both] = before[0] + c * k, before[1] + s * t, before[2] + grown
        a = p.a * (q.most + q.a) + q.a * (p.most + p.a)
        a = a * (1 + unit) + self._rounding.least
        return self._limited(terms, unit, a, p.most * q.most * (1 + unit) + self._rounding.least)

    def _quotient(self, p: Polynomial, q: Polynomial) -> Polynomial:
        """A quotient by an exact number."""
        if set(q.terms) != {()} or q.d or q.a or q.terms[()][2] or not q.terms[()][0]:
            raise _Other
        c = q.terms[()][0]
        unit = 0.0 if _power_of_two(q) else self._rounding.quotient
        terms = {
            m: (k / c, size / abs(c), e / abs(c)) for m, (k, size, e) in _absolute(p).terms.items()
        }
        a = p.a / abs(c) * (1 + unit) + self._rounding.least
        return self._limited(terms, unit, a, p.most / abs(c) * (1 + unit) + self._rounding.least)

    def _limited(
        self, terms: Mapping[Monomial, tuple[float, float, float]], d: float, a: float, most: float
    ) -> Polynomial:
        if len(terms) > _MOST_TERMS or not math.isfinite(most + a):
            raise _Other
        return Polynomial(terms, d, a * _UP, most * _UP)


_OPERATIONS: Mapping[str, Any] = {
    "add": Polynomials._plus,
    "subtract": Polynomials._minus,
    "multiply": Polynomials._times,
    "divide": Polynomials._quotient,
    "negative": Polynomials._negative,
    "square": lambda self, p: self._times(p, p),
}


def _absolute(p: Polynomial) -> Polynomial:
    """The error d |v| of the last operation as a part of e: d |v| is at most d times the sum of the
    terms' sizes."""
    if not p.d:
        return p
    terms = {m: (c, size, (e + p.d * (size + e)) * _UP) for m, (c, size, e) in p.terms.items()}
    return replace(p, terms=terms, d=0.0)


def _power_of_two(p: Polynomial) -> bool:
    if set(p.terms) != {()} or p.d or p.a:
        return False
    c, _, e = p.terms[()]
    return e == 0 and math.frexp(abs(c))[0] == 0.5
