"""Build expressions from normal forms and from right sides of rules, as a person writes them."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

from gradcheck_cli.domain.program import CONSTANT
from gradcheck_cli.explain.algebra.expressions import Expr, ExprPool, ShapeMismatch
from gradcheck_cli.explain.algebra.matching import Fit
from gradcheck_cli.explain.algebra.normal_form import (
    Algebra,
    NormalForm,
    folded_value,
    normal,
    term_count,
)
from gradcheck_cli.explain.algebra.patterns import KeywordVariable, operation
from reference_engine.op import TABLE


class ExprBuilder:
    """An expression pool with normal forms."""

    def __init__(self, forest: ExprPool) -> None:
        self.forest = forest
        self.algebra = Algebra()
        self._norms: dict[int, NormalForm] = {}
        self.proposed: dict[Any, Any] = {}  # the proposals of a rule for a normal form

    def norm(self, expr: Expr) -> NormalForm:
        """The normal form of an expression."""
        return normal(self.algebra, self._norms, expr)

    def number(self, value: float) -> Expr:
        """A constant; integers without a decimal point."""
        if math.isnan(value):
            raise ShapeMismatch("a constant that is not a number")
        whole = math.isfinite(value) and value == int(value) and abs(value) < 2**31
        return self.forest.constant(int(value) if whole else float(value))

    def add(self, a: Expr, b: Expr) -> Expr:
        if _is(a, 0.0) and a.shape == ():
            return b
        if _is(b, 0.0) and b.shape == ():
            return a
        if _numbers(a, b):
            return self.number(_value(a) + _value(b))
        if b.op == "negative":
            return self.forest.call("subtract", a, b.args[0])
        if a.op == "negative":
            return self.forest.call("subtract", b, a.args[0])
        if b.op == CONSTANT and _value(b) < 0:
            return self.forest.call("subtract", a, self.number(-_value(b)))
        return self.forest.call("add", a, b)

    def subtract(self, a: Expr, b: Expr) -> Expr:
        return self.add(a, self.negative(b))

    def negative(self, a: Expr) -> Expr:
        if a.op == CONSTANT:
            return self.number(-_value(a))
        if a.op == "negative":
            return a.args[0]
        if a.op == "subtract":
            return self.forest.call("subtract", a.args[1], a.args[0])
        if a.op in ("multiply", "divide") and a.args[0].op in (CONSTANT, "negative"):
            return self.forest.call(a.op, self.negative(a.args[0]), a.args[1])
        return self.forest.call("negative", a)

    def multiply(self, a: Expr, b: Expr) -> Expr:
        if b.op == CONSTANT and a.op != CONSTANT:
            a, b = b, a
        if _numbers(a, b):
            return self.number(_value(a) * _value(b))
        if _is(a, 1.0):
            return b
        if _is(a, -1.0):
            return self.negative(b)
        if a.op == CONSTANT and b.op == "negative":
            return self.multiply(self.number(-_value(a)), b.args[0])
        if a.op == CONSTANT and b.op == "multiply" and b.args[0].op == CONSTANT:
            return self.multiply(self.number(_value(a) * _value(b.args[0])), b.args[1])
        if a.op == CONSTANT and b.op == "divide" and _numbers(b.args[0], b.args[0]):
            return self.divide(self.number(_value(a) * _value(b.args[0])), b.args[1])
        if a.op == CONSTANT and b.op == "divide" and b.args[1].op == CONSTANT:
            return self._scaled(b.args[0], _value(a) / _value(b.args[1]))
        return self.forest.call("multiply", a, b)

    def _scaled(self, a: Expr, by: float) -> Expr:
        """a * by; divided by a small integer if `by` is its reciprocal."""
        for divisor in (2, 3, 4, 6, 8):
            if abs(by) < 1 and by * divisor in (1.0, -1.0):
                return self.forest.call(
                    "divide", a if by > 0 else self.negative(a), self.number(divisor)
                )
        return self.multiply(self.number(by), a)

    def divide(self, a: Expr, b: Expr) -> Expr:
        if _is(b, 1.0):
            return a
        if _numbers(a, b) and _value(b) != 0:
            return self.number(_value(a) / _value(b))
        if b.op == CONSTANT and a.op == "multiply" and a.args[0].op == CONSTANT:
            return self.multiply(self.number(_value(a.args[0]) / _value(b)), a.args[1])
        return self.forest.call("divide", a, b)

    def power(self, a: Expr, exponent: float) -> Expr:
        if exponent == 1:
            return a
        if exponent == 0.5:
            return self.forest.call("sqrt", a)
        if a.op == CONSTANT and _value(a) > 0:
            return self.number(_value(a) ** exponent)
        return self.forest.call("power", a, self.number(exponent))

    def expr(self, norm: NormalForm) -> Expr:
        """An expression with this normal form."""
        if norm.expr is None:
            norm.expr = self._expr_of(norm)
            self._norms.setdefault(id(norm.expr), norm)
        return norm.expr

    def rebuilt(self, norm: NormalForm) -> Expr:
        """A new expression with this normal form, built from its parts."""
        return self.expr(norm) if norm.kind == "atom" else self._expr_of(norm)

    def _expr_of(self, norm: NormalForm) -> Expr:
        if norm.kind == "number":
            return self.number(norm.value)
        if norm.kind == "call":
            return self.forest.call(norm.op, *[self.expr(a) for a in norm.args], **norm.keywords)
        if norm.kind == "sum":
            parts = sorted(norm.parts, key=lambda part: part[1] < 0)
            total = self.number(0)
            for term, coefficient in parts:
                total = self.add(total, self._times(coefficient, term))
            return self.add(total, self.number(norm.value))
        return self._quotient(norm)

    def _times(self, coefficient: float, term: NormalForm) -> Expr:
        core = self.expr(term)
        return (
            self._scaled(core, coefficient)
            if coefficient not in (1, -1)
            else (core if coefficient == 1 else self.negative(core))
        )

    def _quotient(self, norm: NormalForm) -> Expr:
        above: Expr | None = None
        below: Expr | None = None
        for factor, exponent in norm.parts:
            part = self.power(self.expr(factor), abs(exponent))
            if exponent > 0:
                above = part if above is None else self.multiply(above, part)
            else:
                below = part if below is None else self.multiply(below, part)
        if above is None:
            assert below is not None
            return self.divide(self.number(norm.value), below)
        whole = above if below is None else self.divide(above, below)
        return whole if norm.value == 1 else self._scaled(whole, norm.value)

    def instance(self, template: ast.AST, bindings: Mapping[str, Any]) -> Expr:
        """The right-hand side of a rule with its variables replaced."""
        if isinstance(template, ast.Constant):
            return self.number(float(template.value))  # type: ignore[arg-type]
        if isinstance(template, ast.Name):
            if template.id == "pi":
                return self.number(math.pi)
            bound = bindings[template.id]
            return self.expr(bound) if isinstance(bound, NormalForm) else bound
        parsed = operation(template)
        assert parsed is not None
        op, parts, keywords = parsed
        short = self._short(op, parts, bindings)
        if short is not None:
            return short
        args = [self.instance(part, bindings) for part in parts]
        given: dict[str, Any] = {}
        for name, value in keywords.items():
            if not isinstance(value, KeywordVariable):
                given[name] = value
            elif value.rest:
                known = TABLE[op].keywords
                given.update({n: v for n, v in bindings[value.name].items() if n in known})
            else:
                given[name] = bindings[value.name]
        return self.apply(op, args, given)

    def _short(self, op: str, parts: list[ast.expr], bindings: Mapping[str, Any]) -> Expr | None:
        """The sum or difference of two values if much of it cancels (x + 1 - x is 1), or None."""
        if op not in ("add", "subtract"):
            return None
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        bound = [bindings[name] for name in names if isinstance(bindings.get(name), NormalForm)]
        if len(bound) < 2:
            return None
        a, b = bound
        whole = self.algebra.sum([(a, 1.0), (b, 1.0 if op == "add" else -1.0)])
        counts = [term_count(self.algebra, norm) for norm in (whole, a, b)]
        return self.expr(whole) if counts[0] < counts[1] + counts[2] else None

    def apply(self, op: str, args: list[Expr], keywords: Mapping[str, Any]) -> Expr:
        """An operation, simplified if its arguments are trivial."""
        simple = {
            "add": self.add,
            "subtract": self.subtract,
            "multiply": self.multiply,
            "divide": self.divide,
        }.get(op)
        if simple is not None:
            return simple(*args)
        if op == "negative":
            return self.negative(args[0])
        if op == "power" and args[1].op == CONSTANT:
            return self.power(args[0], _value(args[1]))
        if args and not keywords and all(arg.op == CONSTANT for arg in args):
            folded = folded_value(op, [_value(arg) for arg in args])
            if folded is not None:
                return self.number(folded)
        return self.forest.call(op, *args, **keywords)

    def fitted(self, right: Expr, fit: Fit) -> Expr:
        """The value with `right` in place of the part that matched."""
        if fit.added is not None:
            core = right
            if fit.scale == -1 and fit.added.kind != "number":
                return self.subtract(self.expr(fit.added), core)
            if fit.scale != 1:
                core = self._scaled(core, fit.scale)
            return self.add(core, self.expr(fit.added))
        if fit.times is None:
            return right
        if fit.exponent == 1:
            return self.multiply(self.expr(fit.times), right)
        return self.divide(self.expr(fit.times), right)


def _value(expr: Expr) -> float:
    assert expr.value is not None
    return float(expr.value)


def _is(expr: Expr, value: float) -> bool:
    return expr.op == CONSTANT and _value(expr) == value


def _numbers(a: Expr, b: Expr) -> bool:
    return a.op == CONSTANT and b.op == CONSTANT
