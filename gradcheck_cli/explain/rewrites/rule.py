"""Rules of the catalogue of rewrites."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.explain.algebra.building import ExprBuilder
from gradcheck_cli.explain.algebra.expressions import Expr, ShapeMismatch
from gradcheck_cli.explain.algebra.matching import Fit, fits
from gradcheck_cli.explain.algebra.normal_form import NormalForm
from gradcheck_cli.explain.algebra.patterns import parsed, pattern


@dataclass(frozen=True, slots=True)
class Proposal:
    """A replacement for an expression, and the conditions under which both are equal. `kink`: its
    value at points where the old one has no derivative, and where these are."""

    rule: Rewrite
    new: Expr
    conditions: tuple[Expr, ...]
    kink: tuple[str, Expr] | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """An expression that a rule examines. `value` returns the value of an expression at the failing
    point, in float64 (None if unknown)."""

    workshop: ExprBuilder
    expr: Expr
    fmt: FloatFormat
    value: Callable[[Expr], Array | None]

    def fits(self, text: str) -> Iterator[Fit]:
        """All matches of a pattern with the expression."""
        wanted, target = pattern(text), self.workshop.norm(self.expr)
        if wanted.kind == target.kind:
            yield from fits(self.workshop.algebra, wanted, target)

    def call(self, op: str, *args: Expr, **keywords: Any) -> Expr:
        return self.workshop.forest.call(op, *args, **keywords)

    def fitted(self, new: Expr, fit: Fit) -> Expr:
        """The whole expression with `new` in place of the part that matched."""
        return self.workshop.fitted(new, fit)


class Rewrite:
    """`left -> right`, equal in value and gradient where all conditions hold.

    last    no rule follows, because it prepares for none
    broad   it matches nearly everywhere, so it is not combined with other rules
    """

    text: str
    conditions: tuple[str, ...]
    last: bool = False
    broad: bool = False

    def proposals(self, site: Site) -> Iterator[Proposal]:
        """The replacements for the expression."""
        raise NotImplementedError


class Rule(Rewrite):
    """A rule whose sides are formulas. `kink`, "VALUE where FORMULA", is the value of the right
    side where the left has no derivative."""

    def __init__(
        self,
        left: str,
        right: str,
        *conditions: str,
        kink: str = "",
        broad: bool = False,
        text: str = "",
    ) -> None:
        self.left = left
        self.right = right
        self.text = text or f"{left} -> {right}"
        self.conditions = conditions
        self.kink = kink
        self.broad = broad

    @cached_property
    def _pattern(self) -> NormalForm:
        return pattern(self.left)

    @cached_property
    def _templates(self) -> tuple[ast.expr, ...]:
        return tuple(parsed(text) for text in (self.right, *self.conditions))

    def proposals(self, site: Site) -> Iterator[Proposal]:
        target = site.workshop.norm(site.expr)
        if target.kind != self._pattern.kind and self._pattern.op != "power":
            return
        made = site.workshop.proposed
        if (self, target) not in made:
            made[self, target] = tuple(self._proposed(site.workshop, target))
        yield from made[self, target]

    def _proposed(self, shop: ExprBuilder, target: NormalForm) -> Iterator[Proposal]:
        right, *conditions = self._templates
        for fit in fits(shop.algebra, self._pattern, target):
            try:
                new = shop.fitted(shop.instance(right, fit.bindings), fit)
                stated = tuple(shop.instance(text, fit.bindings) for text in conditions)
                kink = self._kink(shop, fit.bindings)
            except (ShapeMismatch, ZeroDivisionError, OverflowError):
                continue
            yield Proposal(self, new, stated, kink)

    def _kink(self, shop: ExprBuilder, bindings: Mapping[str, Any]) -> tuple[str, Expr] | None:
        value, _, place = self.kink.partition(" where ")
        return (value, shop.instance(parsed(place), bindings)) if place else None


Function = Callable[[Site], Iterator[Any]]


class Handwritten(Rewrite):
    """A rule that needs code: a function whose docstring begins with `left -> right`.

    It yields expressions, or pairs of an expression and its conditions.
    """

    def __init__(self, function: Function, broad: bool = False) -> None:
        assert function.__doc__ is not None
        self.text = function.__doc__.splitlines()[0].rstrip(".")
        self.conditions = ()
        self.broad = broad
        self._function = function

    def proposals(self, site: Site) -> Iterator[Proposal]:
        found = self._function(site)
        while True:
            try:
                made = next(found)
            except StopIteration:
                return
            except (ShapeMismatch, ZeroDivisionError, OverflowError):
                return
            new, conditions = made if isinstance(made, tuple) else (made, ())
            yield Proposal(self, new, tuple(conditions))


def rule(
    left: str, right: str, *conditions: str, kink: str = "", broad: bool = False, text: str = ""
) -> Rule:
    """A rule whose sides are formulas, with the conditions under which they are equal; `text`
    describes it more briefly than the sides."""
    return Rule(left, right, *conditions, kink=kink, broad=broad, text=text)


def by_hand(broad: bool = False) -> Callable[[Function], Handwritten]:
    """Turn a function into a rule."""
    return lambda function: Handwritten(function, broad)
