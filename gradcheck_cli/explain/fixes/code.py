"""Write a fix as Python that runs: a function `f` of its inputs for each framework."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradcheck_cli.domain.program import CONSTANT, CustomGradient, Node, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.kit.lowerings import Limited, Renamed
from gradcheck_cli.explain.fixes.copies import Copies
from gradcheck_cli.explain.fixes.dialects import (
    DIALECTS,
    CannotSay,
    Custom,
    Dialect,
    dialect_of,
    literal,
)
from gradcheck_cli.formula.printing import ATOM, LOOSEST, Printer
from gradcheck_cli.formula.program import used_inputs


def code_of(part: Program, forward: bool = False, deep: bool = False) -> dict[str, str]:
    """The source of `f` for every framework that can express all of its operations. `forward`:
    write a jvp as well if the user's custom gradient has one. `deep`: for a script, with copies of
    all gradcheck functions that its engine uses."""
    sources: dict[str, str] = {}
    for dialect in DIALECTS:
        try:
            sources[dialect.name] = _Module(dialect, part, forward, deep).source()
        except CannotSay:
            continue
    return sources


@dataclass(frozen=True, slots=True)
class Inline:
    """An expression, and the `definitions` of functions that it calls. `imports` are lines that
    both need."""

    expression: str
    definitions: str
    imports: tuple[str, ...]

    @property
    def text(self) -> str:
        """The definitions and the expression."""
        return f"{self.definitions}\n\n{self.expression}".strip()

    def names(self) -> dict[str, Any]:
        """The values of the names of the framework and of the functions in the expression."""
        names: dict[str, Any] = {}
        exec("\n".join([*self.imports, self.definitions]), names)
        del names["__builtins__"]
        return names


def inline(part: Program, framework: str) -> Inline | None:
    """The part as one expression of its inputs; None if the framework cannot express it."""
    try:
        return _Module(dialect_of(framework), part).inline()
    except CannotSay:
        return None


class _Module:
    """The source of one program: imports, helper functions, and `f`."""

    def __init__(
        self, dialect: Dialect, part: Program, forward: bool = False, deep: bool = False
    ) -> None:
        self.dialect = dialect
        self.forward = forward
        self.deep = deep
        self._part = part
        self._copies = Copies(dialect.table, dialect.prefix, {"f", *_names_in(part)}, deep)

    def source(self) -> str:
        used = used_inputs(self._part)
        names = [name for name in self._part.inputs if name in used]
        lines = list(_Writer(self._part, self, names).definition())
        body = [*self._defined(), *lines]
        own, named = self._imports(body)
        return "\n".join([*own, *([""] if own else []), *named, "", "", *body])

    def inline(self) -> Inline:
        writer = _Writer(self._part, self, list(self._part.inputs), share=False)
        functions = list(writer.functions())
        expression = writer.defined(self._part.output)
        definitions = "\n".join([*self._defined(), *functions]).rstrip()
        own, named = self._imports([*definitions.splitlines(), expression])
        return Inline(expression, definitions, (*own, *named))

    def _defined(self) -> list[str]:
        """The lines of the helper functions."""
        texts = self._copies.definitions.values()
        return [line for text in texts for line in (*text.splitlines(), "", "")]

    def _imports(self, body: Sequence[str]) -> tuple[list[str], list[str]]:
        """The import lines of copies and of `math`, and those of the framework."""
        own = {one for one in self._copies.imports if one not in self.dialect.imports}
        if any(re.search(r"(?<!tf\.)\bmath\.", line) for line in body):
            own.add("import math")
        named = [line for line in self.dialect.imports if self._imported(line, body)]
        return sorted(own), named

    def _imported(self, line: str, body: Sequence[str]) -> bool:
        name = line.split()[-1]
        return any(re.search(rf"\b{name}\b", text) for text in body)

    def call(self, node: Node, arrays: Sequence[str], example: str) -> str:
        """An operation in the framework's words. `example` is an array with the dtype of
        floating-point numbers."""
        keywords = {name: value for name, value in node.keywords.items() if name != "dtype"}
        if node.op in self.dialect.words:
            try:
                return self.dialect.words[node.op](arrays, keywords)
            except CannotSay:
                if not self.deep:
                    raise
        lowering = self.dialect.table.get(node.op)
        if isinstance(lowering, Limited):
            lowering = lowering.call
        match lowering:
            case str():
                return self._call_text(lowering, arrays, _passed_keywords(node.op, keywords))
            case Renamed():
                text = self._call_text(lowering.call, arrays, lowering.keywords(keywords))
                return text if lowering.part is None else f"{text}.{lowering.part}"
            case _:
                return self.copied(node, arrays, example)

    def _call_text(self, name: str, arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
        given = [*arrays, *(f"{key}={literal(value)}" for key, value in keywords.items())]
        text = f"{self.dialect.prefix}.{name}({', '.join(given)})"
        for long, short in self.dialect.short:
            text = text.replace(long, short)
        return text

    def copied(self, node: Node, arrays: Sequence[str], example: str) -> str:
        """An operation as the engine runs it."""
        keywords = {name: literal(value) for name, value in node.keywords.items()}
        if "dtype" in keywords:
            if node.kind != "float" or not (example and self.deep):
                raise CannotSay(node.op)
            keywords["dtype"] = f"{example}.dtype"
        return self._copies.call(node.op, arrays, keywords)


def _names_in(part: Program) -> Iterator[str]:
    """The names in a program and in its custom gradients."""
    yield from part.inputs
    for node in part.nodes:
        if node.name is not None:
            yield node.name
        if node.custom is not None:
            yield node.custom.name
            for rule in (node.custom.forward, node.custom.vjp, node.custom.jvp):
                if rule is not None:
                    yield from _names_in(rule)


_USUAL = {"axis": None, "keepdims": False}


def _passed_keywords(op: str, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that a call must pass. Frameworks share the row's defaults only for `axis=None`
    and `keepdims=False`: jax.nn.gelu approximates, jax.nn.logsumexp sums over all axes."""
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

    def arguments(self, node: Node) -> list[str]:
        """The arguments as text. Only operators take numbers; others need arrays of one dtype."""
        return [self._argument(i, kind) for i, kind in zip(node.args, node.wants, strict=True)]

    def _argument(self, index: int, wanted: str) -> str:
        node = self._nodes[index]
        if node.op != CONSTANT:
            return self._cast(index, wanted) or self._text(index, LOOSEST)
        assert node.value is not None
        value = self.number(bool(node.value) if wanted == "bool" else node.value)
        return self._module.dialect.constant.format(value=value, dtype=self._dtype(wanted))

    def operand(self, index: int, wanted: str, tightness: int) -> str:
        is_promoted = self._module.dialect.promotes and wanted == "float"
        cast = "" if is_promoted else self._cast(index, wanted)
        return cast or self._text(index, tightness)

    def _cast(self, index: int, wanted: str) -> str:
        """A node cast to the kind of numbers that its operation needs; empty if it has it."""
        node = self._nodes[index]
        if node.op == CONSTANT or node.kind == wanted:
            return ""
        if wanted == "bool":
            return f"{self._text(index, LOOSEST + 1)} != 0"
        template = self._module.dialect.cast
        text = self._text(index, ATOM if template.startswith("{") else LOOSEST)
        return template.format(array=text, dtype=self._dtype(wanted))

    def _dtype(self, kind: str) -> str:
        """The framework's text for the dtype of a kind of numbers."""
        if kind != "float":
            return self._module.dialect.dtypes[kind]
        if not self._example:
            raise CannotSay("a number beside no array")
        return f"{self._example}.dtype"

    def _formula(self, node: Node) -> tuple[str, int]:
        if not self._module.dialect.lacks(node, [self._nodes[arg].shape for arg in node.args]):
            return super()._formula(node)
        if not self._module.deep:
            raise CannotSay(node.op)
        return self._module.copied(node, self.arguments(node), self._example), ATOM

    def call(self, node: Node, arrays: list[str]) -> str:
        return self._module.call(node, arrays, self._example)

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
