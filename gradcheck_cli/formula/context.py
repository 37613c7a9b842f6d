"""The state of lowering one formula: values, names in scope, errors, and limits."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.program import CustomGradient
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.formula.errors import FormulaError
from gradcheck_cli.formula.place import Positions
from gradcheck_cli.formula.program import Builder
from gradcheck_cli.formula.shapes import Shape
from gradcheck_cli.formula.static import as_constant

MAX_STEPS = 100_000
"""Expressions that a formula may have with its loops unrolled and its functions in place."""
MAX_DEPTH = 90
"""Expressions inside each other. Each takes up to six of Python's 1000 stack frames."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A value that is computed in the run: a node of the program under construction."""

    index: int


@dataclass(frozen=True, slots=True)
class Static:
    """A value that is known before the run: a number, None, a text, or a tuple of them."""

    value: Any


@dataclass(frozen=True, slots=True)
class Items:
    """A list or tuple that contains at least one value of the run."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Poison:
    """The value of an expression with a mistake. Expressions that use it report no further
    mistakes."""


POISON = Poison()
Value = Ref | Static | Items | Poison


def entries_of(value: Value) -> tuple[Value, ...]:
    """The entries of a list that is written in the formula; empty for other values."""
    if isinstance(value, Items):
        return value.items
    if isinstance(value, Static) and isinstance(value.value, tuple):
        return tuple(Static(one) for one in value.value)
    return ()


@dataclass(slots=True)
class Function:
    """A helper function. `visible` are the functions that are defined before it."""

    name: str
    node: ast.FunctionDef
    parameters: tuple[str, ...]
    defaults: Mapping[str, Value]
    visible: Mapping[str, Function]
    vjp: Function | None = None
    jvp: Function | None = None
    checked: bool = False  # its body was lowered at least once
    # With a stated gradient: the lowered function by the shapes of its arguments, and its steps.
    lowered: dict[Any, tuple[CustomGradient | None, int]] = field(default_factory=dict)
    broken: bool = False  # its decorator has a mistake: its calls are not lowered


class TooMuch(Exception):
    """A limit was exceeded, and lowering stops."""

    def __init__(self, node: ast.expr | ast.stmt, message: str, help: str) -> None:
        super().__init__(message)
        self.node = node
        self.message = message
        self.help = help


class Context:
    """The state of one formula while it is lowered."""

    def __init__(self, positions: Positions, constants: Mapping[str, Value]) -> None:
        self.positions = positions
        self.constants = constants
        self.errors: list[FormulaError] = []
        self.memory: dict[tuple[Any, ...], tuple[Shape, str]] = {}
        self.functions: list[Function] = []
        self.outer_names: set[str] = set()  # variables of the formula, unseen by its functions
        self.calls: list[tuple[str, ast.expr]] = []
        self.failures = 0  # mistakes that were met, those at a place that has one already too
        self.steps = 0
        self._depth = 0
        self._told: set[tuple[str, int, int]] = set()

    def fail(
        self,
        node: ast.expr | ast.stmt | ast.arg | ast.keyword,
        message: str,
        help: str = "",
        code: str = Codes.FORMULA_SYNTAX,
    ) -> Poison:
        """Reports a mistake, once for each place: an unrolled loop visits a place many times."""
        self.failures += 1
        key = (code, *self.positions.ends(node))
        if key not in self._told:
            self._told.add(key)
            if self.calls:
                name, call = self.calls[-1]
                where = f"`{name}` is called on line {self.positions.span(call).line}"
                help = f"{help}; {where}" if help else where
            self.errors.append(FormulaError(code, message, self.positions.span(node), help))
        return POISON

    def enter(self, node: ast.expr | ast.stmt) -> None:
        """Counts an expression or statement, and its depth. Raises TooMuch at a limit."""
        self.spend(node, 1)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            message = f"the formula is nested more than {MAX_DEPTH} levels deep"
            raise TooMuch(node, message, "give parts of it names: z = ...; then use z")

    def spend(self, node: ast.expr | ast.stmt, count: int) -> None:
        """Counts operations of the future run. Raises TooMuch at the limit."""
        self.steps += count
        if self.steps > MAX_STEPS:
            message = f"the formula unrolls to more than {MAX_STEPS} operations"
            raise TooMuch(node, message, "use fewer iterations, or operations on whole arrays")

    def leave(self) -> None:
        """Ends what `enter` began."""
        self._depth -= 1


@dataclass(slots=True)
class Frame:
    """The names in scope, and the program under construction. `function` is None at the top
    level."""

    context: Context
    builder: Builder
    variables: dict[str, Value]
    functions: dict[str, Function]
    function: str | None = None
    outside: frozenset[str] = frozenset()  # names of the formula that a function does not see

    def node_of(self, value: Value, node: ast.expr) -> Ref | Poison:
        """The value as a node of the program. A number becomes a constant."""
        if isinstance(value, Ref | Poison):
            return value
        if isinstance(value, Static) and isinstance(value.value, bool | int | float):
            positions = self.context.positions
            number = as_constant(value.value)
            return Ref(
                self.builder.constant(number, positions.span(node), positions.fragment(node))
            )
        if isinstance(value, Items) or (
            isinstance(value, Static) and isinstance(value.value, tuple)
        ):
            help = "make an array with stack([a, b]), or use an input"
            message = "a list is used where one value is needed"
            if isinstance(node, ast.Call):
                call = self.context.positions.fragment(node)
                help = f"give each a name, a, b = {call}, or take one: {call}[0]"
                message = "this call returns several values where one is needed"
            return self.context.fail(node, message, help)
        if isinstance(value.value, str):
            help = 'a string is for a keyword: mse(x, y, reduction="sum")'
            return self.context.fail(node, "a string is used where a number is needed", help)
        shown = repr(value.value)
        return self.context.fail(node, f"{shown} is used where a number is needed")
