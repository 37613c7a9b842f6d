"""How XLA computes what JAX hands to it, where this is not what the operations say.

Flags may allow it anything. And operations that it compiles as one call are merged, so that they
round, overflow or are flushed in another way than one after the other: XLA simplifies (a / b) / c
to a / (b c), whose product may overflow, and exp(a) exp(b) to exp(a + b), whose sum is rounded. A
program with such a pair inside one compiled call does not say what is computed.
`algebraic_simplifier.cc` of XLA has the pairs; others that it has, as log(sqrt(x)) or sqrt(x x),
are computed with less error than is assumed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import jax
from jax.extend import core

from gradcheck_cli.engines.jax.wide import LOOPS
from gradcheck_cli.engines.layer.lifting import OTHER_DEVICE, NotLifted

_ACCURACIES = ("precision", "accuracy")
_FULL = (None, *jax.lax.Precision)
"""Values of these parameters for which a processor rounds as always."""
_COMPILED = ("jit", "pjit", *LOOPS)
_SAME = frozenset(
    (
        *("broadcast_in_dim", "reshape", "copy", "copy_p", "squeeze", "transpose", "neg"),
        *("expand_dims", "convert_element_type", "stop_gradient"),
    )
)
"""Primitives through which XLA sees what made a number."""
_EXPONENTIALS = ("exp", "exp2", "pow")
_QUOTIENTS = ("div", "logistic", "integer_pow")
"""Operations that XLA computes, or may compute, as a quotient: 1 / (1 + exp(-x))."""
_MERGED = frozenset(
    (
        *(("div", by, place) for by in _QUOTIENTS for place in (0, 1)),
        *(("div", by, 1) for by in _EXPONENTIALS),
        *((of, by, 0) for of in ("pow", "log") for by in _EXPONENTIALS),
    )
)
"""An operation, what made its argument, and the place of that argument."""
_WITH_CONSTANTS = {"mul": "product", "div": "product", "add": "sum", "sub": "sum"}
"""Operations that are merged with others of their family if both have a constant: a c1 c2 becomes
a (c1 c2)."""


_HARMLESS = ("--xla_force_host_platform_device_count", "--xla_dump")
"""Flags of XLA that change no number."""


def refuse_unknown_rounding() -> None:
    """Raise NotLifted if JAX was set to round in a way that is not known."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    other = [flag for flag in flags if not flag.startswith(_HARMLESS)]
    if other:
        raise NotLifted(f"how XLA rounds with {other[0]} is not known")
    if jax.config.jax_default_matmul_precision is not None:
        raise NotLifted("JAX was set to round products to fewer digits")
    if jax.config.jax_disable_jit:
        raise NotLifted("how JAX rounds without `jit` is not known")
    if jax.default_backend() != "cpu":
        raise NotLifted(OTHER_DEVICE)


def refuse_rewritten(jaxpr: Any) -> None:
    """Raise NotLifted if a compiled call has operations that XLA merges, or an operation may round
    as its parameters say."""
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        if any(part not in _FULL for key in _ACCURACIES for part in _parts(params.get(key))):
            raise NotLifted(f"`{name}` may round to fewer digits than its dtype has")
        if name in _COMPILED:
            for outer, inner in _Call().merged(equation):
                raise NotLifted(f"XLA merges `{inner}` and `{outer}`, and rounds in another way")
        for inside in _programs(equation):
            refuse_rewritten(inside)


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _programs(equation: Any) -> list[Any]:
    """The programs among the parameters of an equation."""
    return [
        getattr(part, "jaxpr", part)
        for part in jax.tree.leaves(list(equation.params.values()))
        if isinstance(part, core.Jaxpr | core.ClosedJaxpr)
    ]


class _Call:
    """One compiled call. `_makers` has the equation that made a variable, and `_same` a variable
    that XLA knows to be the same number, but for its sign."""

    def __init__(self) -> None:
        self._makers: dict[Any, Any] = {}
        self._same: dict[Any, Any] = {}
        self._constants: set[Any] = set()

    def merged(self, equation: Any) -> Iterator[tuple[str, str]]:
        """The pairs of operations that are merged."""
        parts = _programs(equation)
        single = len(parts) == 1 and equation.primitive.name not in LOOPS
        for jaxpr in parts:
            self._constants.update(jaxpr.constvars)
            if single:
                self._same.update(zip(jaxpr.invars[::-1], equation.invars[::-1], strict=False))
            for one in jaxpr.eqns:
                yield from self.merged(one)
                yield from self._pairs(one)
                if all(map(self._is_constant, one.invars)):
                    self._constants.update(one.outvars)
                elif one.primitive.name in _SAME:
                    self._same[one.outvars[0]] = one.invars[0]
                else:
                    for var in one.outvars:
                        self._makers.setdefault(var, one)
            if single:
                self._same.update(zip(equation.outvars, jaxpr.outvars, strict=False))

    def _pairs(self, equation: Any) -> Iterator[tuple[str, str]]:
        name, makers = equation.primitive.name, list(map(self._maker, equation.invars))
        names = ["" if maker is None else maker.primitive.name for maker in makers]
        if name == "mul" and all(inner in _EXPONENTIALS for inner in names):
            yield name, "exp"
        for place, (maker, inner) in enumerate(zip(makers, names, strict=True)):
            family = _WITH_CONSTANTS.get(name)
            alike = family is not None and family == _WITH_CONSTANTS.get(inner)
            constants = alike and self._has_constant(equation) and self._has_constant(maker)
            if (name, inner, place) in _MERGED or constants:
                yield name, inner

    def _maker(self, atom: Any) -> Any:
        """The equation that made an argument; None if it is one of the call, or a constant."""
        known = self._known(atom)
        return None if isinstance(known, core.Literal) else self._makers.get(known)

    def _has_constant(self, equation: Any) -> bool:
        return any(map(self._is_constant, equation.invars))

    def _is_constant(self, atom: Any) -> bool:
        known = self._known(atom)
        return isinstance(known, core.Literal) or known in self._constants

    def _known(self, atom: Any) -> Any:
        while not isinstance(atom, core.Literal) and atom in self._same:
            atom = self._same[atom]
        return atom
