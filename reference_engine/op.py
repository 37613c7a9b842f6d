"""Op: one row of the table of operations, and the table.

A row states everything about an operation: its value, its derivative (once: both modes and every
order follow, because the rule is written in operations of the table), where it is defined, where
its derivative does not exist and which convention holds there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from reference_engine.arithmetic.floats import Array
from reference_engine.errors import ShapeError
from reference_engine.traced import ROWS, Traced, Value, shape_of


class _Required:
    """Stands where a keyword has no default."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


class Rule(Protocol):
    """A derivative, stated in one of the ways of reference_engine.rules."""

    def forward(
        self, op: Op, x_dots: Sequence[Value], y: Value, xs: Sequence[Value], keywords: Any
    ) -> Value:
        """y_dot from the arguments' tangents (None: a constant); None if no argument matters."""

    def reverse(
        self,
        op: Op,
        y_bar: Value,
        y: Value,
        xs: Sequence[Value],
        wanted: Sequence[int],
        keywords: Any,
    ) -> list[Value]:
        """The cotangents of the `wanted` arguments (None: zero), not yet unbroadcast."""


class Op:
    """A row of the table; calling it runs the operation on arrays, tensors and duals in any mix.

    name, aliases       what it is called; aliases are its other Array-API or NumPy names
    family              the file of the table that it stands in
    arrays              names of the array arguments in order; a last one with "*" is variadic
    keywords            static arguments with their defaults, REQUIRED where there is none; given by
                        name, or after the arrays in this order
    formula, derivative, domain, singular, kinks, source    texts for people
    rule                the derivative as a statement; None if the result is never differentiated
    passive             positions of array arguments that the rule has nothing for
    exact               the value involves no rounding
    raw                 the value as a function of plain arrays
    kinks_at            the elements that lie exactly at a kink, a tie or a jump
    """

    __slots__ = (
        "aliases",
        "arity",
        "arrays",
        "derivative",
        "domain",
        "exact",
        "family",
        "formula",
        "keywords",
        "kinks",
        "kinks_at",
        "name",
        "passive",
        "raw",
        "rule",
        "singular",
        "source",
    )

    def __init__(
        self,
        name: str,
        raw: Callable[..., Any],
        rule: Rule | None,
        *,
        family: str,
        arrays: tuple[str, ...] = ("x",),
        keywords: Mapping[str, Any] | None = None,
        aliases: tuple[str, ...] = (),
        formula: str,
        derivative: str,
        domain: str = "all real numbers",
        singular: str = "none",
        kinks: str = "none",
        source: str,
        exact: bool = False,
        passive: tuple[int, ...] = (),
        kinks_at: Callable[..., Any] | None = None,
    ) -> None:
        self.name = name
        self.raw = raw
        self.rule = rule
        self.family = family
        self.arrays = arrays
        self.arity = -1 if arrays[-1].startswith("*") else len(arrays)
        self.keywords: Mapping[str, Any] = MappingProxyType(dict(keywords or {}))
        self.aliases = aliases
        self.formula = formula
        self.derivative = derivative
        self.domain = domain
        self.singular = singular
        self.kinks = kinks
        self.source = source
        self.exact = exact
        self.passive = passive
        self.kinks_at = kinks_at

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    @property
    def differentiable(self) -> bool:
        return self.rule is not None

    def value(self, *arrays: Any, **keywords: Any) -> Array:
        """The value on plain arrays, in their own dtype; nothing is checked or recorded."""
        return np.asarray(self.raw(*arrays, **keywords))

    def at_kink(self, *arrays: Any, **keywords: Any) -> Array | None:
        """Which elements lie exactly at a kink, a tie or a jump; None if there can be none."""
        return None if self.kinks_at is None else np.asarray(self.kinks_at(*arrays, **keywords))

    def __call__(self, *args: Value, **keywords: Any) -> Value:
        """Run the operation.

        Raises ShapeError where the arrays do not fit together or do not fit the keywords, and
        TypeError for a wrong number of arguments or an unknown keyword.
        """
        if len(args) != self.arity:
            args, keywords = self._bind(args, keywords)
        top: Traced | None = None
        level = -1
        for a in args:
            if isinstance(a, Traced) and a.level > level:
                top = a
                level = a.level
        if top is not None:
            return top.apply(self, args, keywords)
        try:
            return np.asarray(self.raw(*args, **keywords))
        except ShapeError:
            raise
        except (ValueError, IndexError) as error:
            shapes = tuple(shape_of(a) for a in args)
            raise ShapeError(self.name, shapes, str(error)) from error

    def _bind(
        self, args: tuple[Value, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Value, ...], dict[str, Any]]:
        """Take a list for a variadic argument, and keywords that were given by position."""
        arity = self.arity
        if arity < 0:
            if not args or not isinstance(args[0], (list, tuple)):
                return args, keywords
            args, arity = (*args[0], *args[1:]), len(args[0])
        extra = args[arity:]
        if len(args) < arity or len(extra) > len(self.keywords):
            raise TypeError(
                f"{self.name} takes {', '.join((*self.arrays, *self.keywords))}; "
                f"{len(args)} arguments were given"
            )
        given = dict(zip(self.keywords, extra, strict=False))
        twice = given.keys() & keywords.keys()
        if twice:
            raise TypeError(f"{self.name} got {', '.join(sorted(twice))} twice")
        return args[:arity], {**given, **keywords}


_PUBLIC: dict[str, Op] = {}
_INTERNAL: dict[str, Op] = {}
_ALIASES: dict[str, str] = {}

TABLE: Mapping[str, Op] = MappingProxyType(_PUBLIC)
"""Every operation that a program may use, by its name."""

INTERNAL: Mapping[str, Op] = MappingProxyType(_INTERNAL)
"""Operations that occur in derivatives only; rows like the others, but not offered by name."""


def register(op: Op, *, internal: bool = False) -> Op:
    """Add a row. Raises ValueError if its name or an alias is taken."""
    for name in (op.name, *op.aliases):
        if name in ROWS or name in _ALIASES:
            raise ValueError(f"two rows are called {name}")
    ROWS[op.name] = op
    (_INTERNAL if internal else _PUBLIC)[op.name] = op
    _ALIASES.update(dict.fromkeys(op.aliases, op.name))
    return op


def find(name: str) -> Op | None:
    """The row of that name or alias, or None."""
    return _PUBLIC.get(_ALIASES.get(name, name))
