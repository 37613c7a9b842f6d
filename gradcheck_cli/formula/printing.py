"""Program -> formula text. Parsing the text gives the same program.

Values that the user named keep their names. Values that are used more than once get a name, and all
others are written where they are used.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT, CustomGradient, Node, Program
from reference_engine.op import REQUIRED, TABLE

_BINARY = {
    "add": ("+", 4),
    "subtract": ("-", 4),
    "multiply": ("*", 5),
    "divide": ("/", 5),
    "matmul": ("@", 5),
    "power": ("**", 7),
    "logical_or": ("|", 1),
    "logical_and": ("&", 2),
    "less": ("<", 0),
    "less_equal": ("<=", 0),
    "greater": (">", 0),
    "greater_equal": (">=", 0),
    "equal": ("==", 0),
    "not_equal": ("!=", 0),
}
_UNARY = {"negative": ("-", 6), "logical_not": ("~", 6)}
ATOM = 9
_COMPARISON = 0
LOOSEST = 0


def statements(program: Program) -> str:
    """The whole formula: functions with custom gradients, assignments, and the output last."""
    return "\n".join(Printer(program).lines())


def expression(program: Program, index: int) -> str:
    """The formula of one node in terms of names and inputs. Nodes without a name are written
    out."""
    printer = Printer(program, share=False)
    return printer.defined(index)


def number(value: bool | int | float) -> str:
    """A constant as it is written in a formula."""
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


class Names:
    """The names of the nodes of a program. Each is given once."""

    def __init__(self, program: Program) -> None:
        self._taken = {node.name for node in program.nodes if node.name}
        self._taken.update(TABLE)
        self._given = set(program.inputs)
        self._counts: Counter[str] = Counter()  # of fresh names, by their stem

    def name(self, node: Node) -> str:
        """The name of the node. If two nodes share a name, the later one gets another."""
        name = node.name
        if name is None or name in self._given:
            name = self.fresh(name or "t")
        self._given.add(name)
        return name

    def unique(self, name: str) -> str:
        """The name if it is free, or a similar one."""
        if name in self._taken:
            return self.fresh(name)
        self._taken.add(name)
        return name

    def fresh(self, stem: str) -> str:
        """The stem with the first number that makes it unique."""
        count = self._counts[stem] + 1
        while f"{stem}{count}" in self._taken:
            count += 1
        self._counts[stem] = count
        self._taken.add(f"{stem}{count}")
        return f"{stem}{count}"


class Printer:
    """Writes one program. `share`: values that are used more than once get a name.

    To write in another language than that of formulas, override `number`, `call` and `function`.
    """

    def __init__(self, program: Program, share: bool = True) -> None:
        self._program = program
        self._rules: dict[int, str] = {}  # id of a custom gradient -> the name of its function
        self._naming = Names(program)
        self._names = {index: self.named(index) for index in self._assigned(share)}

    def _assigned(self, share: bool) -> list[int]:
        """The nodes that are assigned to a name."""
        nodes = self._program.nodes
        uses = Counter(arg for node in nodes for arg in node.args)
        return [
            index
            for index, node in enumerate(nodes)
            if node.op not in (INPUT, CONSTANT)
            and (node.name is not None or (share and uses[index] > 1))
        ]

    def named(self, index: int) -> str:
        """The name that a node is assigned to."""
        return self._naming.name(self._program.nodes[index])

    def lines(self) -> Iterator[str]:
        yield from self.functions()
        (output,) = self._program.outputs
        yield from self._body()
        if output not in self._names:
            assert output is not None
            yield self.defined(output)
        elif output != max(self._names):
            yield self._names[output]

    def body(self) -> Iterator[str]:
        """The statements of a function, including its return."""
        yield from self._body()
        results = [
            "None" if output is None else self._text(output, LOOSEST)
            for output in self._program.outputs
        ]
        yield f"return {', '.join(results)}"

    def _body(self) -> Iterator[str]:
        for index, name in self._names.items():
            yield f"{name} = {self.defined(index)}"

    def functions(self) -> Iterator[str]:
        """The definitions of the functions with custom gradients."""
        for node in self._program.nodes:
            if node.custom is not None and id(node.custom) not in self._rules:
                name = self._naming.unique(node.custom.name)
                self._rules[id(node.custom)] = name
                yield from self.function(node.custom, name)

    def defined(self, index: int) -> str:
        """The formula of a node itself instead of its name."""
        return self._formula(self._program.nodes[index])[0]

    def _text(self, index: int, tightness: int) -> str:
        """The node as an operand, in brackets if it binds less tightly than `tightness`."""
        node = self._program.nodes[index]
        if node.op == INPUT or index in self._names:
            return self.reference(index)
        text, binds = self._formula(node)
        return text if binds >= tightness else f"({text})"

    def _formula(self, node: Node) -> tuple[str, int]:
        if node.op == INPUT:
            assert node.name is not None
            return node.name, ATOM
        if node.op == CONSTANT:
            assert node.value is not None
            negative = not isinstance(node.value, bool) and math.copysign(1.0, node.value) < 0
            return self.number(node.value), _UNARY["negative"][1] if negative else ATOM
        # & | and ~ are for comparisons; of numbers, logical_and and its like are called by name
        named = node.op.startswith("logical_") and any(
            self._program.nodes[arg].kind != "bool" for arg in node.args
        )
        if node.op in _BINARY and not named:
            return self._operator(node)
        if node.op in _UNARY and not named:
            sign, binds = _UNARY[node.op]
            inside = self._program.nodes[node.args[0]]
            # -(2) is an operation on a number, -2 is a number
            tight = ATOM + 1 if inside.op == CONSTANT else binds
            return f"{sign}{self.operand(node.args[0], node.wants[0], tight)}", binds
        if node.op == "getitem":
            parts = map(self._index_part, node.keywords["index"])
            return f"{self._text(node.args[0], ATOM)}[{', '.join(parts)}]", ATOM
        if node.op == CUSTOM:
            assert node.custom is not None
            name = self._rules.get(id(node.custom), node.custom.name)
            return self.applied(name, [self._text(a, LOOSEST) for a in node.args]), ATOM
        return self.call(node, self.arguments(node)), ATOM

    def reference(self, index: int) -> str:
        """The name of an input, or of a node that was assigned."""
        return self._names.get(index) or self._program.nodes[index].name or ""

    def index_number(self, value: int) -> str:
        """A number in an index."""
        return str(value)

    def arguments(self, node: Node) -> list[str]:
        """The arguments of a call."""
        return [self._text(arg, LOOSEST) for arg in node.args]

    def operand(self, index: int, wanted: str, tightness: int) -> str:
        """A node as an operand of an operator that takes numbers of the kind `wanted`."""
        return self._text(index, tightness)

    def _index_part(self, part: Any) -> str:
        if part is Ellipsis:
            return "..."
        if isinstance(part, slice):
            bounds = [self._bound(part.start), self._bound(part.stop)]
            return ":".join(bounds if part.step is None else [*bounds, str(part.step)])
        return "None" if part is None else self.index_number(part)

    def _bound(self, bound: int | None) -> str:
        return "" if bound is None else self.index_number(bound)

    def _operator(self, node: Node) -> tuple[str, int]:
        sign, binds = _BINARY[node.op]
        left, right = node.args
        tight_left, tight_right = binds, binds + 1
        if node.op == "power":  # binds to the right, and more tightly than a sign before it
            tight_left, tight_right = binds + 1, _UNARY["negative"][1]
        elif binds == _COMPARISON:
            tight_left = tight_right = 1
        first = self.operand(left, node.wants[0], tight_left)
        return f"{first} {sign} {self.operand(right, node.wants[1], tight_right)}", binds

    def number(self, value: bool | int | float) -> str:
        """A constant."""
        return number(value)

    def function(self, rule: CustomGradient, name: str) -> Iterator[str]:
        """The definition of a function with a custom gradient."""
        return _function(rule, name)

    def applied(self, name: str, args: Sequence[str]) -> str:
        """A call of such a function."""
        return f"{name}({', '.join(args)})"

    def call(self, node: Node, arrays: list[str]) -> str:
        """A call of a row on arguments that are already text."""
        row = TABLE[node.op]
        texts, rest = _keywords(row.keywords, node.keywords)
        if row.arrays and row.arrays[-1].startswith("*"):
            arrays = [f"[{', '.join(arrays)}]"]
        return f"{node.op}({', '.join([*texts, *arrays, *rest])})"


def _keywords(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Texts that stand before the arrays, and the keywords that differ from their defaults."""
    texts, rest = [], []
    for name, value in given.items():
        default = defaults[name]
        if name == "dtype":
            continue
        if default is REQUIRED and isinstance(value, str):
            texts.append(repr(value))
        elif default is REQUIRED or value != default or type(value) is not type(default):
            rest.append(f"{name}={_static(value)}")
    return texts, rest


def _static(value: Any) -> str:
    if isinstance(value, tuple):
        inner = ", ".join(_static(one) for one in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return number(value) if isinstance(value, float) else repr(value)


def _function(rule: CustomGradient, name: str) -> Iterator[str]:
    """A function with its custom gradient, as written in a formula."""
    parts = [("vjp", rule.vjp)] + ([("jvp", rule.jvp)] if rule.jvp is not None else [])
    for suffix, program in parts:
        assert program is not None
        yield from _definition(program, f"{name}_{suffix}")
    stated = f"{name}_vjp" + ("" if rule.jvp is None else f", {name}_jvp")
    yield f"@custom_gradient({stated})"
    yield from _definition(rule.forward, name)


def _definition(program: Program, name: str) -> Iterator[str]:
    printer = Printer(program)
    yield f"def {name}({', '.join(program.inputs)}):"
    for line in printer.body():
        yield "    " + line
