"""Functions with a custom gradient. They are opaque while formulas are differentiated, and expanded
when formulas are evaluated or shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.program import CustomGradient, Program
from gradcheck_cli.engines.errors import Unsupported, WrongShape

Walk = Callable[[Program, Values], list[Array]]
"""From a program and its fixed inputs to the expressions of every node."""


def custom_value(rule: CustomGradient, args: Sequence[Array], walk: Walk) -> Array:
    """The value of a custom gradient, one expression for each entry, with the derivatives of the
    rule.

    Raises WrongShape if the rule returns a gradient of another shape than the argument's, and
    Unsupported for an argument that is not floating and depends on the inputs.
    """
    names = list(rule.forward.inputs)
    kinds = [rule.forward.nodes[index].kind for index in rule.forward.inputs.values()]
    fixed = {
        name: _numbers(rule, arg, kind)
        for name, arg, kind in zip(names, args, kinds, strict=True)
        if kind != "float"
    }
    values = walk(rule.forward, fixed)
    value = values[rule.forward.output]
    upstream, *own = rule.vjp.inputs  # the rule may name its arguments differently
    known = {mine: fixed[name] for mine, name in zip(own, names, strict=True) if name in fixed}
    cotangents = walk(rule.vjp, known)
    dummies: list[Any] = []
    inner: dict[Any, Any] = {}  # the rule's symbols -> the forward's symbols
    slopes: list[Any] = []
    given: list[Any] = []
    for name, mine, output, arg in zip(names, own, rule.vjp.outputs, args, strict=True):
        if name in fixed:
            continue
        symbols = values[rule.forward.inputs[name]].ravel()
        dummies += symbols.tolist()
        inner.update(zip(cotangents[rule.vjp.inputs[mine]].ravel(), symbols, strict=True))
        given += arg.ravel().tolist()
        slopes += _slopes(rule, name, arg.shape, None if output is None else cotangents[output])
    y_bar = cotangents[rule.vjp.inputs[upstream]].ravel().tolist()
    made = np.empty(value.size, dtype=object)
    for k, entry in enumerate(value.ravel()):
        one = {y: int(i == k) for i, y in enumerate(y_bar)}
        mine_only = [slope.subs(one).xreplace(inner) for slope in slopes]
        made[k] = _function(rule.name, dummies, entry, mine_only)(*given)
    return made.reshape(value.shape)


def _slopes(
    rule: CustomGradient, name: str, shape: tuple[int, ...], gradient: Array | None
) -> list[Any]:
    import sympy

    if gradient is None:
        return [sympy.Integer(0)] * int(np.prod(shape, dtype=np.int64))
    if gradient.shape != shape:
        raise WrongShape(rule.name, name, shape, gradient.shape)
    return list(gradient.ravel())


def _numbers(rule: CustomGradient, arg: Array, kind: str) -> Array:
    if not all(one.is_Integer or (one.is_Boolean and one.is_Atom) for one in arg.flat):
        raise Unsupported(f"`{rule.name}` takes a condition that depends on the inputs")
    wanted = bool if kind == "bool" else int
    return np.array([wanted(one) for one in arg.flat]).reshape(arg.shape)


def _function(
    name: str, dummies: Sequence[Any], value: Any, slopes: Sequence[Any]
) -> Callable[..., Any]:
    """A SymPy function with this value and these partial derivatives."""
    import sympy

    def there(self: Any, expression: Any) -> Any:
        return expression.xreplace(dict(zip(dummies, self.args, strict=True)))

    def fdiff(self: Any, argindex: int = 1) -> Any:
        return there(self, slopes[argindex - 1])

    members = {"fdiff": fdiff, "written_out": lambda self: there(self, value), "is_real": True}
    return type(name, (sympy.Function,), members)


def written_out(expression: Any) -> Any:
    """The expression with the formula of every custom function in its place."""
    import sympy

    def is_stated(part: Any) -> bool:
        return isinstance(part, sympy.Function) and hasattr(part, "written_out")

    while expression.has(sympy.Function) and any(
        is_stated(part) for part in expression.atoms(sympy.Function)
    ):
        expression = expression.replace(is_stated, lambda part: part.written_out())
    return expression
