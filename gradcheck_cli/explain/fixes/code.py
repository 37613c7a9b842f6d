"""A fix as Python that runs: a function `f` of its inputs for each framework."""

from __future__ import annotations

import dis
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradcheck_cli.domain.program import CONSTANT, CustomGradient, Node, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.kit.lowerings import Composed, Limited, Loss, Missing, Renamed
from gradcheck_cli.explain.fixes.dialects import (
    DIALECTS,
    CannotSay,
    Custom,
    Dialect,
    dialect_of,
    literal,
)
from gradcheck_cli.formula.printing import Printer
from gradcheck_cli.formula.program import used_inputs


def code_of(part: Program, forward: bool = False) -> dict[str, str]:
    """The source of `f` for every framework that has words for all of its operations. `forward`: it
    is for forward mode, which has a rule of its own where the user stated one."""
    found: dict[str, str] = {}
    for dialect in DIALECTS:
        try:
            found[dialect.name] = _Module(dialect, forward).source(part)
        except CannotSay:
            continue
    return found


@dataclass(frozen=True, slots=True)
class Inline:
    """An expression, and the functions that it calls, which are defined before it. `imports` are
    lines that both need."""

    expression: str
    definitions: str
    imports: tuple[str, ...]

    @property
    def text(self) -> str:
        """All that is to be written."""
        return f"{self.definitions}\n\n{self.expression}".strip()

    def names(self) -> dict[str, Any]:
        """What the names of the framework and of the functions mean in the expression."""
        found: dict[str, Any] = {}
        exec("\n".join([*self.imports, self.definitions]), found)
        del found["__builtins__"]
        return found


def inline(part: Program, framework: str) -> Inline | None:
    """The part as one expression of its inputs; None where the framework has no words for it."""
    try:
        return _Module(dialect_of(framework)).inline(part)
    except CannotSay:
        return None


class _Module:
    """The source of one fix: imports, helper functions, and `f`."""

    def __init__(self, dialect: Dialect, forward: bool = False) -> None:
        self.dialect = dialect
        self.forward = forward
        self._helpers: dict[str, str] = {}

    def source(self, part: Program) -> str:
        used = used_inputs(part)
        names = [name for name in part.inputs if name in used]
        lines = list(_Writer(part, self, names).definition())
        body = [*self._defined(), *lines]
        mathematics, named = self._imports(body)
        return "\n".join([*mathematics, *([""] if mathematics else []), *named, "", "", *body])

    def inline(self, part: Program) -> Inline:
        writer = _Writer(part, self, list(part.inputs), share=False)
        functions = list(writer.functions())
        expression = writer.defined(part.output)
        definitions = "\n".join([*self._defined(), *functions]).rstrip()
        mathematics, named = self._imports([*definitions.splitlines(), expression])
        return Inline(expression, definitions, (*mathematics, *named))

    def _defined(self) -> list[str]:
        """The helper functions that were called."""
        return [line for text in self._helpers.values() for line in (*text.splitlines(), "", "")]

    def _imports(self, body: Sequence[str]) -> tuple[list[str], list[str]]:
        mathematics = any(re.search(r"(?<!tf\.)\bmath\.", line) for line in body)
        named = [line for line in self.dialect.imports if self._imported(line, body)]
        return (["import math"] if mathematics else []), named

    def _imported(self, line: str, body: Sequence[str]) -> bool:
        name = line.split()[-1]
        return any(re.search(rf"\b{name}\b", text) for text in body)

    def call(self, node: Node, arrays: Sequence[str]) -> str:
        """An operation in the framework's words."""
        keywords = {name: value for name, value in node.keywords.items() if name != "dtype"}
        if node.op in self.dialect.words:
            return self.dialect.words[node.op](arrays, keywords)
        lowering = self.dialect.table.get(node.op)
        if isinstance(lowering, Limited):
            lowering = lowering.call
        if lowering is None or isinstance(lowering, Missing):
            raise CannotSay(node.op)
        match lowering:
            case str():
                return self._called(lowering, arrays, _stated(node.op, keywords))
            case Renamed():
                text = self._called(lowering.call, arrays, lowering.keywords(keywords))
                return text if lowering.part is None else f"{text}.{lowering.part}"
            case Loss():
                raise CannotSay(node.op)
            case Composed():
                return self._helper(node.op, lowering.function, arrays, keywords)
            case _:
                return self._helper(node.op, lowering, arrays, keywords)

    def _called(self, name: str, arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
        given = [*arrays, *(f"{key}={literal(value)}" for key, value in keywords.items())]
        text = f"{self.dialect.prefix}.{name}({', '.join(given)})"
        for long, short in self.dialect.short:
            text = text.replace(long, short)
        return text

    def _helper(
        self,
        op: str,
        function: Callable[..., Any],
        arrays: Sequence[str],
        keywords: Mapping[str, Any],
    ) -> str:
        """A call of a function that composes the operation of what the framework has."""
        name = getattr(function, "__name__", "")
        closure = getattr(function, "__closure__", None)
        if not name.isidentifier() or closure or _globals(function) - {"math"}:
            raise CannotSay(op)
        prefix = self.dialect.prefix
        text = textwrap.dedent(inspect.getsource(function))
        text = re.sub(r"(: Any)|( -> Any)", "", text)
        text = re.sub(r"\bxp\.(\w+)", lambda row: f"{prefix}.{self._plain(row[1])}", text)
        self._helpers[name] = re.sub(r"\bxp\b", prefix, text).rstrip()
        given = [prefix, *arrays, *(f"{key}={literal(value)}" for key, value in keywords.items())]
        return f"{name}({', '.join(given)})"

    def _plain(self, op: str) -> str:
        """The name of a row that a composition calls, where the framework has one."""
        lowering = self.dialect.table[op]
        if not isinstance(lowering, str):
            raise CannotSay(op)
        return lowering


def _globals(function: Callable[..., Any]) -> set[str]:
    """The names of its module that a function uses. (`inspect.getclosurevars` takes attributes of
    the same names for them.)"""
    used = dis.get_instructions(function)
    known = getattr(function, "__globals__", {})
    return {one.argval for one in used if one.opname == "LOAD_GLOBAL" and one.argval in known}


_USUAL = {"axis": None, "keepdims": False}


def _stated(op: str, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that a call has to state. Frameworks have the same defaults as the row for
    `axis=None` and `keepdims=False` only: jax.nn.gelu approximates, jax.nn.logsumexp sums all."""
    from reference_engine.traced import ROWS

    defaults = ROWS[op].keywords
    return {
        name: value
        for name, value in keywords.items()
        if not (name in _USUAL and value is defaults[name] is _USUAL[name])
    }


class _Writer(Printer):
    """A program as the body of a Python function."""

    def __init__(
        self, program: Program, module: _Module, parameters: Sequence[str], share: bool = True
    ) -> None:
        super().__init__(program, share)
        self._nodes = program.nodes
        self._module = module
        self._parameters = parameters
        floating = [n for n in parameters if program.nodes[program.inputs[n]].kind == "float"]
        self._example = floating[0] if floating else ""

    def definition(self) -> Iterator[str]:
        """`def f(...)`, after the functions that it calls."""
        functions = list(self.functions())
        yield from functions
        if functions:
            yield ""
            yield ""
        yield f"def f({', '.join(self._parameters)}):"
        for line in self.body():
            yield "    " + line

    def number(self, value: bool | int | float) -> str:
        return literal(value)

    def argument(self, index: int) -> str:
        """Operators take numbers; other operations want arrays of the same dtype."""
        node = self._nodes[index]
        if node.op != CONSTANT:
            return super().argument(index)
        if not self._example:
            raise CannotSay("a constant beside no array")
        assert node.value is not None
        return self._module.dialect.constant.format(
            value=self.number(node.value), example=self._example
        )

    def _formula(self, node: Node) -> tuple[str, int]:
        if self._module.dialect.lacks(node, [self._nodes[arg].shape for arg in node.args]):
            raise CannotSay(node.op)
        return super()._formula(node)

    def call(self, node: Node, arrays: list[str]) -> str:
        return self._module.call(node, arrays)

    def applied(self, name: str, args: Sequence[str]) -> str:
        return f"{self._module.dialect.called(name)}({', '.join(args)})"

    def function(self, rule: CustomGradient, name: str) -> Iterator[str]:
        inputs = list(rule.forward.inputs)
        forward = list(_Writer(rule.forward, self._module, inputs).body())
        backward = list(_Writer(rule.vjp, self._module, list(rule.vjp.inputs)).body())
        upstream = next(iter(rule.vjp.inputs))
        custom = Custom(name, inputs, forward, backward, upstream)
        if rule.jvp is not None and self._module.forward:
            tangents = list(rule.jvp.inputs)[: len(inputs)]
            push = list(_Writer(rule.jvp, self._module, list(rule.jvp.inputs)).body())
            custom = replace(custom, tangents=tangents, push=push)
        yield from self._module.dialect.custom(custom)
