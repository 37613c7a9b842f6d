"""Text -> Program: the entry point of this package."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.formula import calls, hints  # noqa: F401 - calls registers what a call means
from gradcheck_cli.formula.context import POISON, Context, Frame, Ref, Static, TooMuch, Value
from gradcheck_cli.formula.errors import FormulaError
from gradcheck_cli.formula.evaluation import evaluate, run, without_docstring
from gradcheck_cli.formula.functions import check_uncalled
from gradcheck_cli.formula.place import Place, Positions, own_lines
from gradcheck_cli.formula.program import Builder
from gradcheck_cli.formula.shapes import KINDS, Shape
from gradcheck_cli.formula.statements import assign

BUILT_IN = {
    "pi": 3.141592653589793,
    "e": 2.718281828459045,
    "inf": float("inf"),
}

_MAX_LENGTH = 100_000
"""Characters of a formula: far above what a person writes, far below what makes the parser slow."""

# Python takes some of these for line breaks, and none of them belongs in a formula.
_ASCII_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f]"
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"

_TOO_DEEP = "the formula is nested too deeply"
_TOO_DEEP_HELP = "give parts of it names: z = ...; then use z"

# What Python's parser says, and what is meant for a formula.
_HINTS = (
    ("unexpected indent", "the lines of a formula are not indented"),
    ("unindent does not match", "lines of one block have the same indentation"),
    ("was never closed", "the bracket has no match"),
    ("unmatched", "the bracket has no match"),
    ("invalid character", "only the letters, digits and signs of Python"),
    ("Maybe you meant '=='", "one = assigns, two compare"),
    ("cannot assign to", "an assignment is: name = expression"),
    ("leading zeros", "write the number without leading zeros"),
)


@dataclass(frozen=True, slots=True)
class Argument:
    """An input of the formula: its shape, and its kind ("float", "int" or "bool")."""

    shape: Shape
    kind: str = "float"

    @classmethod
    def of(cls, value: Array) -> Argument:
        return cls(value.shape, KINDS[value.dtype.kind])


@dataclass(frozen=True, slots=True)
class Parsed:
    """The program, or None and at least one error. If an input is known by name only, there may be
    neither."""

    program: Program | None
    errors: tuple[FormulaError, ...]


def parse(
    text: str,
    place: Place | None = None,
    *,
    constants: Mapping[str, bool | int | float | None] | None = None,
    inputs: Mapping[str, Argument | None] | None = None,
) -> Parsed:
    """The program of a formula, or all mistakes in it.

    `place` maps offsets in the text to the file; without it, line 1 of the text is line 1. An input
    or constant that is None is known by name only: expressions that use it are not checked and
    there is no program, but all other mistakes are found. The text is never executed, and no text
    raises an exception: all mistakes are in `errors`, in the order of the text, with GC904 for
    syntax, GC905 for names, GC906 for shapes and GC907 for an output that cannot be differentiated.
    """
    positions = Positions(text, place or own_lines(text))
    tree, error = _parse_text(text, positions)
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
            FormulaError(Codes.FORMULA_SYNTAX, _TOO_DEEP, positions.at(0, 1), _TOO_DEEP_HELP)
        )
        program = None
    errors = sorted(context.errors, key=lambda e: (e.span.line, e.span.column))
    return Parsed(None if errors else program, tuple(errors))


class _Lowering:
    """Lowers the statements of one formula."""

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
        """The inputs as the first nodes, each with the place of its first use."""
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
        """The whole program, or None after a mistake, which the context has."""
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
        """The value of the last statement, and its expression."""
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
        """The node of the output if it is a float and depends on a float input."""
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


def _parse_text(text: str, positions: Positions) -> tuple[ast.Module | None, FormulaError | None]:
    """The syntax tree, or the mistake in the text."""
    if len(text) > _MAX_LENGTH:
        message = f"the formula has more than {_MAX_LENGTH} characters"
        return None, FormulaError(Codes.FORMULA_SYNTAX, message, positions.at(0, 1))
    bad = re.search(_ASCII_CONTROL if text.isascii() else _CONTROL, text)
    if bad:
        span = positions.at(bad.start(), bad.end())
        message = f"the formula contains the control character U+{ord(bad[0]):04X}"
        return None, FormulaError(Codes.FORMULA_SYNTAX, message, span)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's advice on style is not the user's concern
            return ast.parse(text), None
    except SyntaxError as error:
        return None, _syntax_error(error, text, positions)
    except (RecursionError, MemoryError):
        return None, FormulaError(
            Codes.FORMULA_SYNTAX, _TOO_DEEP, positions.at(0, 1), _TOO_DEEP_HELP
        )


def _syntax_error(error: SyntaxError, text: str, positions: Positions) -> FormulaError:
    """Python's syntax error, with its place in the file."""
    start = _offset(text, error.lineno, error.offset)
    if isinstance(error, IndentationError):
        start = _offset(text, error.lineno, 1)
        start += len(text[start:]) - len(text[start:].lstrip())
    end = _offset(text, error.end_lineno, error.end_offset)
    message = error.msg.split(" (<unknown>")[0]
    if "too many nested" in message or "too complex" in message:
        return FormulaError(
            Codes.FORMULA_SYNTAX, _TOO_DEEP, positions.at(start, start + 1), _TOO_DEEP_HELP
        )
    help = next((hint for word, hint in _HINTS if word in error.msg), "")
    if "digits" in message and "limit" in message:
        message = "a number has too many digits"
    if re.search(r"\bif\b|\belse\b", text[start:end]) and not help:
        help = "a choice between values is written where(condition, a, b)"
    span = positions.at(start, max(end, start + 1))
    reason = "" if message == "invalid syntax" else f": {message}"
    return FormulaError(Codes.FORMULA_SYNTAX, f"not valid syntax{reason}", span, help)


def _offset(text: str, line: int | None, column: int | None) -> int:
    """The offset in the text of a line and a column (both from 1, in characters)."""
    lines = text.split("\n")
    row = min(max((line or 1) - 1, 0), len(lines) - 1)
    start = sum(len(before) + 1 for before in lines[:row])
    # Column 0 or -1 is Python's way to say that it knows the line only.
    return start + min(max((column or 1) - 1, 0), len(lines[row]))
