"""Text -> Program: the entry point of this package."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.formula import calls, hints  # noqa: F401 - calls registers what a call means
from gradcheck_cli.formula.context import POISON, Context, Frame, Ref, Static, TooMuch, Value
from gradcheck_cli.formula.errors import FormulaError
from gradcheck_cli.formula.evaluation import evaluate, run, without_docstring
from gradcheck_cli.formula.functions import check_uncalled
from gradcheck_cli.formula.place import Place, Positions, own_lines
from gradcheck_cli.formula.program import Builder
from gradcheck_cli.formula.shapes import Shape
from gradcheck_cli.formula.statements import assign
from gradcheck_cli.formula.syntax import TOO_DEEP, TOO_DEEP_HELP, parse_text

BUILT_IN = {
    "pi": 3.141592653589793,
    "e": 2.718281828459045,
    "inf": float("inf"),
}


@dataclass(frozen=True, slots=True)
class Argument:
    """An input of the formula: its shape, and its kind ("float", "int" or "bool")."""

    shape: Shape
    kind: str = "float"


@dataclass(frozen=True, slots=True)
class Parsed:
    """The program, or None and at least one error. With an unknown input it may be None alone."""

    program: Program | None
    errors: tuple[FormulaError, ...]


def parse(
    text: str,
    place: Place | None = None,
    *,
    constants: Mapping[str, bool | int | float | None] | None = None,
    inputs: Mapping[str, Argument | None] | None = None,
) -> Parsed:
    """The program that a formula stands for, or everything that is wrong with it.

    `place` maps offsets of the text to the file; without it, line 1 of the text is line 1. An
    input or constant that is None is known by name only: expressions that use it are not judged,
    and there is no program, but all other mistakes are found. Nothing of the text is ever run, and
    no text raises: every mistake is in `errors`, in the order of the text, with GC904 for syntax,
    GC905 for names, GC906 for shapes and GC907 for an output that cannot be differentiated.
    """
    positions = Positions(text, place or own_lines(text))
    tree, error = parse_text(text, positions)
    if tree is None:
        assert error is not None
        return Parsed(None, (error,))
    known: dict[str, Value] = {name: Static(value) for name, value in BUILT_IN.items()}
    for name, number in (constants or {}).items():
        known[name] = POISON if number is None else Static(number)
    context = Context(positions, known)
    lowering = _Lowering(context, tree, inputs or {})
    try:
        program = lowering.program()
    except TooMuch as limit:
        context.errors.append(
            FormulaError(
                Codes.FORMULA_SYNTAX, limit.message, positions.span(limit.node), limit.help
            )
        )
        program = None
    except RecursionError:
        context.errors.append(
            FormulaError(Codes.FORMULA_SYNTAX, TOO_DEEP, positions.at(0, 1), TOO_DEEP_HELP)
        )
        program = None
    errors = sorted(context.errors, key=lambda e: (e.span.line, e.span.column))
    return Parsed(None if errors else program, tuple(errors))


class _Lowering:
    """Runs through the statements of one formula."""

    def __init__(
        self, context: Context, tree: ast.Module, inputs: Mapping[str, Argument | None]
    ) -> None:
        self._context = context
        self._tree = tree
        self._builder = Builder(context.memory)
        variables = self._variables(inputs)
        self._frame = Frame(context, self._builder, variables, {})
        context.outer_names.update(variables)

    def _variables(self, inputs: Mapping[str, Argument | None]) -> dict[str, Value]:
        """The inputs as the first nodes, each at the place of its first use."""
        uses: dict[str, tuple[int, int]] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Name) and node.id in inputs:
                ends = self._context.positions.ends(node)
                uses[node.id] = min(uses.get(node.id, ends), ends)
        variables: dict[str, Value] = {}
        for name, argument in inputs.items():
            span = self._context.positions.at(*uses.get(name, (0, 1)))
            variables[name] = (
                POISON
                if argument is None
                else Ref(self._builder.input(name, argument.shape, argument.kind, span))
            )
        return variables

    def program(self) -> Program | None:
        """The whole program, or None after a mistake, which is in the context."""
        body = without_docstring(self._tree.body)
        if not body:
            positions = self._context.positions
            help = "the last statement is the output: y = x ** 2"
            error = FormulaError(
                Codes.FORMULA_SYNTAX, "the formula is empty", positions.at(0, 1), help
            )
            self._context.errors.append(error)
            return None
        run(self._frame, body[:-1])
        value, part = self._output(body[-1])
        check_uncalled(self._context)
        index = self._differentiable(value, part)
        if index is None:
            return None
        return self._builder.program((index,), self._context.positions.text)

    def _output(self, statement: ast.stmt) -> tuple[Value, ast.expr | ast.stmt]:
        """The value of the last statement."""
        if isinstance(statement, ast.Assign | ast.AugAssign):
            return assign(self._frame, statement), statement.value
        if isinstance(statement, ast.Expr):
            return evaluate(self._frame, statement.value), statement.value
        if type(statement) not in hints.NOT_HERE:
            message = "a formula must end with its output: an expression or an assignment"
            self._context.fail(statement, message, "add a last line: y")
        run(self._frame, [statement])
        return POISON, statement

    def _differentiable(self, value: Value, part: ast.expr | ast.stmt) -> int | None:
        """The node of the output, if it is floating and depends on a floating input."""
        if isinstance(value, Ref):
            node = self._builder.nodes[value.index]
            if node.kind != "float":
                message = f"the output has {node.kind} values, which have no gradient"
                self._context.fail(
                    part,
                    message,
                    "end with a floating-point value: sum(...)",
                    code=Codes.NOTHING_TO_DIFFERENTIATE,
                )
            elif not self._reaches_input(value.index):
                message = "the output depends on no floating-point input: there is no gradient"
                self._context.fail(part, message, code=Codes.NOTHING_TO_DIFFERENTIATE)
            else:
                return value.index
        elif isinstance(value, Static) and isinstance(value.value, bool | int | float):
            message = "the output is a constant: there is nothing to differentiate"
            self._context.fail(part, message, code=Codes.NOTHING_TO_DIFFERENTIATE)
        elif value is not POISON:
            message = "a formula has one output, but this is a list"
            help = "combine the values: a + b, or stack([a, b])"
            if isinstance(part, ast.Call):
                message = "a formula has one output, but this call returns several values"
                help = f"take one: {self._context.positions.fragment(part)}[0]"
            self._context.fail(part, message, help)
        return None

    def _reaches_input(self, index: int) -> bool:
        nodes = self._builder.nodes
        floating = {i for i in self._builder.inputs.values() if nodes[i].kind == "float"}
        seen: set[int] = set()
        waiting = [index]
        while waiting:
            here = waiting.pop()
            if here in floating:
                return True
            if here not in seen:
                seen.add(here)
                waiting += nodes[here].args
        return False
