"""Which numbers of an expression a dtype cannot hold, and how often they are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT
from gradcheck_cli.explain.algebra.expressions import Expr, ExprPool, ordered


class Ranges:
    """Values of expressions in float64, each found once."""

    def __init__(self, forest: ExprPool, fmt: FloatFormat, values: Mapping[str, Array]) -> None:
        self._fmt = fmt
        self._inputs = {
            id(forest.of_node[i]): values[name] for name, i in forest.program.inputs.items()
        }
        self._values: dict[int, Any] = {}
        self._lost: dict[int, bool] = {}

    def lost(self, root: Expr) -> int:
        """How often a number is used, or is the result, that overflows, underflows or is no number
        in the dtype. What nobody knows the value of is not counted."""
        total = int(self._is_lost(root))
        for expr in ordered(root):
            total += sum(map(self._is_lost, expr.args))
        return total

    def _is_lost(self, expr: Expr) -> bool:
        if id(expr) not in self._lost:
            value = self._value(expr)
            if value is None or expr.kind != "float" or expr.op == CONSTANT:
                self._lost[id(expr)] = False
            else:
                size = np.abs(value)
                fits = (size == 0) | (size >= self._fmt.smallest_normal)
                self._lost[id(expr)] = not np.all(fits & (size <= self._fmt.largest))
        return self._lost[id(expr)]

    def _value(self, root: Expr) -> Any:
        from reference_engine.op import TABLE

        if id(root) in self._values:
            return self._values[id(root)]
        with np.errstate(all="ignore"):
            for expr in ordered(root, known=self._values):
                args = [self._values[id(arg)] for arg in expr.args]
                value = None
                if expr.op == INPUT:
                    value = self._inputs.get(id(expr))
                elif expr.op == CONSTANT:
                    value = np.asarray(expr.value)
                elif expr.op != CUSTOM and all(arg is not None for arg in args):
                    value = TABLE[expr.op].value(*args, **expr.keywords)
                self._values[id(expr)] = value
        return self._values[id(root)]
