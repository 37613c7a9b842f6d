"""The derivative of one operation in its stable form, as a custom gradient.

If the framework's own derivative is at fault, no rewrite of the formula helps. The reference
engine's row defines the derivative in operations of the table; run on symbols instead of numbers,
it becomes a program that the engine uses in place of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.program import CONSTANT, INPUT, CustomGradient, Program
from gradcheck_cli.explain.algebra.expressions import Expr, ExprPool
from gradcheck_cli.formula.errors import Problem
from gradcheck_cli.formula.program import Builder
from reference_engine.op import TABLE, Op
from reference_engine.traced import ROWS, Traced, Use, Value

_LEVEL = 1 << 60  # above every transformation
_NOWHERE = Span(1, 1, 1, 1)
_DTYPES = {"float": np.dtype(np.float64), "int": np.dtype(np.int64), "bool": np.dtype(np.bool_)}


_HARMLESS = frozenset(
    [INPUT, CONSTANT, "multiply", "negative", "reshape", "broadcast_to", "sum", "where"]
)


class NotStated(Exception):
    """The row has no derivative that a formula can express."""


class _Sharing(Builder):
    """Writes equal operations on equal arguments only once."""

    def __init__(self) -> None:
        super().__init__({})
        self._written: dict[Any, int] = {}

    def op(
        self, row: Op, args: Sequence[int], keywords: Mapping[str, Any], span: Span, text: str
    ) -> int:
        nodes = [(arg, self.nodes[arg]) for arg in args]
        given = [repr(node.value) if node.op == CONSTANT else arg for arg, node in nodes]
        key = (row.name, *given, repr(sorted(keywords.items())))
        written = self._written.get(key)
        if written is None:
            written = self._written[key] = super().op(row, args, keywords, span, text)
        return written


class Symbol(Traced):
    """A node of a program that is being written. It has a shape and a dtype, but no number."""

    __slots__ = ("builder", "index")

    def __init__(self, builder: Builder, index: int) -> None:
        self.level = _LEVEL
        self.builder = builder
        self.index = index

    @property
    def value(self) -> Value:
        raise NotStated("its derivative looks at numbers")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.builder.nodes[self.index].shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return _DTYPES[self.builder.nodes[self.index].kind]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def apply(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Value:
        expansion = EXPANSIONS.get(op.name)
        if expansion is not None:
            return expansion(*args, **keywords)
        if op.name not in TABLE:
            raise NotStated(f"its derivative is made of `{op.name}`, which no formula can say")
        places = [self._place(arg) for arg in args]
        complete = {**op.keywords, **keywords}
        try:
            index = self.builder.op(op, places, complete, _NOWHERE, "")
        except Problem as problem:
            raise NotStated(str(problem)) from problem
        return Symbol(self.builder, index)

    def _place(self, value: Value) -> int:
        if isinstance(value, Symbol):
            return value.index
        if np.shape(value) != ():
            raise NotStated("its derivative has an array of constants")
        number = np.asarray(value).item()
        if isinstance(number, float) and number == int(number) and abs(number) < 2**31:
            number = int(number)
        return self.builder.constant(number, _NOWHERE, repr(number))


def _sech_squared(x: Value) -> Value:
    e = ROWS["exp"](-2 * abs(x))
    return 4 * e / (1 + e) ** 2


def _hypot_slope(a: Value, b: Value) -> Value:
    length = ROWS["hypot"](a, b)
    return a / ROWS["where"](length == 0, 1, length)


EXPANSIONS: Mapping[str, Callable[..., Value]] = {
    "sech_squared": _sech_squared,
    "logistic_density": lambda x: ROWS["sigmoid"](x) * ROWS["sigmoid"](-x),
    "hypot_slope": _hypot_slope,
    "one_minus_square": lambda x: (1 - x) * (1 + x),
    "gaussian": lambda x: ROWS["exp"](-(x * x)),
    "normal_density": lambda x: ROWS["exp"](-(x * x) / 2) * 0.3989422804014327,
    "erfinv_slope": lambda x: ROWS["exp"](ROWS["square"](ROWS["erfinv"](x))) * 0.886226925452758,
    "logit_slope": lambda x: 1 / x / (1 - x),
    "astype": lambda x, dtype=None: x,
    "centered": lambda x, axis=None: x - ROWS["mean"](x, axis=axis, keepdims=True),
}
"""The table's internal rows, in operations of the formula language."""


def stable(forest: ExprPool, expr: Expr) -> Expr:
    """The operation with the row's own derivative as a custom gradient. Raises NotStated."""
    row = TABLE.get(expr.op)
    if row is None or row.rule is None or expr.kind != "float":
        raise NotStated("it has no rule of its own")
    moving = [i for i, arg in enumerate(expr.args) if arg.op != CONSTANT]
    names = ["x"] if len(moving) == 1 else [f"x{i + 1}" for i in range(len(moving))]
    writer = _Writer(expr, dict(zip(moving, names, strict=True)))
    try:
        rule = CustomGradient(
            f"stable_{expr.op}", writer.forward(), writer.vjp(), writer.jvp_if_stated()
        )
    except NotStated:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, Problem) as error:
        raise NotStated(f"its derivative is no formula: {error}") from error
    return forest.custom(rule, [expr.args[i] for i in moving], expr.shape)


class _Writer:
    """Writes the programs of a custom gradient; constants of the call stay constants."""

    def __init__(self, expr: Expr, names: Mapping[int, str]) -> None:
        self._expr = expr
        self._names = names
        self._row = TABLE[expr.op]

    def _inputs(self, builder: Builder) -> list[Value]:
        values: list[Value] = []
        for i, arg in enumerate(self._expr.args):
            if i in self._names:
                index = builder.input(self._names[i], arg.shape, arg.kind, _NOWHERE)
                values.append(Symbol(builder, index))
            else:
                values.append(arg.value)
        return values

    def forward(self) -> Program:
        builder = _Sharing()
        xs = self._inputs(builder)
        y = self._value(xs)
        return builder.program((y.index,), self._expr.op)

    def vjp(self) -> Program:
        builder = _Sharing()
        y_bar = Symbol(builder, builder.input("upstream", self._expr.shape, "float", _NOWHERE))
        xs = self._inputs(builder)
        wanted = [i for i in self._names if self._expr.args[i].kind == "float"]
        rule = self._row.rule
        assert rule is not None
        x_bars = rule.reverse(self._use(xs), y_bar, wanted)
        found = dict(zip(wanted, x_bars, strict=True))
        ends: list[int | None] = []
        for i in self._names:
            x_bar = found.get(i)
            if x_bar is None:
                ends.append(None)
                continue
            if not isinstance(x_bar, Symbol):
                raise NotStated("its derivative is a constant")
            ends.append(_summed(x_bar, self._expr.args[i].shape).index)
        program = builder.program(tuple(ends), self._expr.op)
        if all(node.op in _HARMLESS for node in program.nodes):
            raise NotStated("nothing in its derivative can go wrong")
        return program

    def jvp_if_stated(self) -> Program | None:
        """The jvp, if the rule expresses it in operations of the table."""
        builder = _Sharing()
        if any(self._expr.args[i].kind != "float" for i in self._names):
            return None
        dots = {
            i: Symbol(
                builder,
                builder.input(f"{name}_dot", self._expr.args[i].shape, "float", _NOWHERE),
            )
            for i, name in self._names.items()
        }
        xs = self._inputs(builder)
        rule = self._row.rule
        assert rule is not None
        tangents = [dots.get(i) for i in range(len(xs))]
        try:
            y_dot = rule.forward(self._use(xs), tangents)
        except NotStated:
            return None
        if not isinstance(y_dot, Symbol) or y_dot.shape != self._expr.shape:
            return None
        return builder.program((y_dot.index,), self._expr.op)

    def _use(self, xs: Sequence[Value]) -> Use:
        return Use(self._row, xs, self._value(xs), dict(self._expr.keywords))

    def _value(self, xs: Sequence[Value]) -> Value:
        return self._row(*xs, **dict(self._expr.keywords))


def _summed(x_bar: Symbol, shape: tuple[int, ...]) -> Symbol:
    """The cotangent summed over the axes along which the argument was broadcast."""
    if x_bar.shape == shape:
        return x_bar
    if len(x_bar.shape) < len(shape):  # constant along some axes: broadcast it
        ones = ROWS["broadcast_to"](x_bar, shape=shape)
        assert isinstance(ones, Symbol)
        return ones
    extra = len(x_bar.shape) - len(shape)
    axes = list(range(extra))
    axes += [i + extra for i, n in enumerate(shape) if n == 1 and x_bar.shape[i + extra] != 1]
    made = ROWS["sum"](x_bar, axis=tuple(axes), keepdims=False) if axes else x_bar
    made = made if made.shape == shape else ROWS["reshape"](made, shape=shape)
    assert isinstance(made, Symbol)
    return made
