"""Runs a Program node by node over a table {op: callable}, in the same way for every framework."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.keywords import KEYWORDS
from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT, CustomGradient, Node, Program
from gradcheck_cli.domain.program_cache import cached_by_program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.errors import EngineFault, NodeFault, Unsupported, WrongShape
from gradcheck_cli.engines.kit.lowerings import Missing

Call = Callable[..., Any]

OPERATORS: dict[str, Call] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "power": operator.pow,
    "negative": operator.neg,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}
"""Arithmetic as a user writes it. These take constants as Python numbers, so that the framework's
own scalar paths run (`1.0 / t` is not `tensor(1.0) / t` in every framework)."""

_NUMBERS = frozenset(name for name, kind in KEYWORDS.items() if kind == "number")


class Arrays(Protocol):
    """What the walk needs to know about a framework in one dtype."""

    @property
    def kinds(self) -> Mapping[str, Any]:
        """The framework's dtypes for "float" (that of the problem), "int" and "bool"."""

    def lowering(self, op: str) -> Call | Missing | None:
        """The framework's function for the operation; None if the operation is unknown."""

    def constant(self, value: bool | int | float, kind: str) -> Any:
        """A scalar array: in the dtype of the problem if `kind` is "float", otherwise int64 or
        bool."""

    def cast(self, array: Any, kind: str) -> Any: ...

    def custom(self, rule: Rule) -> Call:
        """A callable with the custom gradient, made with the framework's own means."""


def round_constant(value: bool | int | float, rounding: str, integral: bool) -> bool | int | float:
    """A constant of a formula in the format `rounding`. A whole number stays one if that is exact,
    and is unchanged if it only meets whole numbers (`integral`)."""
    if isinstance(value, bool) or (isinstance(value, int) and (integral or abs(value) <= 256)):
        return value  # 256 is exact in every format, the 8 bits of bfloat16 included
    try:
        rounded = float(FORMATS[rounding].round(float(value)))
    except OverflowError:  # an int beyond float64
        rounded = float("inf") if value > 0 else float("-inf")
    return int(rounded) if isinstance(value, int) and rounded == value else rounded


@dataclass(frozen=True, slots=True)
class _Step:
    index: int
    call: Call
    args: tuple[int, ...]
    keywords: Mapping[str, Any]
    casts: tuple[tuple[int, str], ...]  # (position among the arguments, kind)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A program with its lowerings found and its constants rounded, ready to run many times.
    Instances are only equal to themselves."""

    program: Program
    arrays: Arrays
    steps: tuple[_Step, ...]
    template: tuple[Any, ...]  # constants at their places, None elsewhere
    blame: int | None  # the node of the outer program, where this one is part of a custom gradient

    def run(
        self,
        inputs: Sequence[Any],
        enter: Callable[[int], None] | None = None,
        leave: Callable[[int, Any], Any] | None = None,
    ) -> list[Any]:
        """The value of every node. `inputs` have the order of `Program.inputs`. `enter` is called
        with each node before it runs, `leave` with the node and its value; `leave` returns the
        value to continue with.

        Raises NodeFault, which names the node, from the exception of the framework.
        """
        values = list(self.template)
        for index, value in zip(self.program.inputs.values(), inputs, strict=True):
            values[index] = value
        for step in self.steps:
            args = [values[i] for i in step.args]
            if enter is not None:
                enter(step.index)
            try:
                for position, kind in step.casts:
                    args[position] = self.arrays.cast(args[position], kind)
                values[step.index] = step.call(*args, **step.keywords)
            except NodeFault as fault:
                cause = fault.__cause__ or fault.__context__
                raise NodeFault(self._blamed(step.index)) from cause
            except Exception as error:
                raise NodeFault(self._blamed(step.index)) from error
            if leave is not None:
                values[step.index] = leave(step.index, values[step.index])
        return values

    def outputs(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs as arrays, even if one is a bare constant; None for outputs that do not
        exist."""
        values = self.run(inputs)
        return [
            None if index is None else self._as_array(values[index], self.program.nodes[index])
            for index in self.program.outputs
        ]

    def _as_array(self, value: Any, node: Node) -> Any:
        return self.arrays.constant(value, "float") if node.op == CONSTANT else value

    def _blamed(self, index: int) -> int:
        return index if self.blame is None else self.blame


@dataclass(frozen=True, slots=True)
class Rule:
    """A custom gradient, ready to run. The shapes of the user's derivative are checked."""

    custom: CustomGradient
    forward: Prepared
    vjp: Prepared
    jvp: Prepared | None

    @property
    def name(self) -> str:
        return self.custom.name

    def value(self, *args: Any) -> Any:
        (output,) = self.forward.outputs(args)
        return output

    def pull(self, upstream: Any, args: Sequence[Any]) -> list[Any]:
        """One gradient for each argument, None if the rule returns None. Raises WrongShape."""
        grads = self.vjp.outputs([upstream, *args])
        for name, grad, arg in zip(self.custom.forward.inputs, grads, args, strict=True):
            if grad is not None and tuple(grad.shape) != tuple(arg.shape):
                raise WrongShape(self.name, name, tuple(arg.shape), tuple(grad.shape))
        return grads

    def push(self, tangents: Sequence[Any], args: Sequence[Any]) -> Any:
        """The tangent of the output. Raises WrongShape if its shape is not that of the output."""
        assert self.jvp is not None
        (tangent,) = self.jvp.outputs([*tangents, *args])
        forward = self.custom.forward
        shape = forward.result.shape
        if tuple(tangent.shape) != shape:
            raise WrongShape(self.name, "the output", shape, tuple(tangent.shape))
        return tangent


def prepare(program: Program, arrays: Arrays, rounding: str, blame: int | None = None) -> Prepared:
    """Finds all lowerings once. Raises NodeFault from Unsupported for an operation without a
    lowering."""
    program = rounded(program, rounding)
    template: list[Any] = [node.value for node in program.nodes]
    steps: list[_Step] = []
    for index, node in enumerate(program.nodes):
        if node.op not in (CONSTANT, INPUT):
            try:
                call = _lower(node, arrays, rounding, index if blame is None else blame)
            except EngineFault as fault:
                raise NodeFault(index if blame is None else blame) from fault
            # An array constant is made here, once, and stands in the template beside its number.
            args, casts = _arguments(program, index, node, template, arrays)
            keywords = node.keywords
            if "dtype" in keywords:
                keywords = {**keywords, "dtype": arrays.kinds[node.kind]}
            steps.append(_Step(index, call, args, keywords, casts))
    return Prepared(program, arrays, tuple(steps), tuple(template), blame)


@cached_by_program
def rounded(program: Program, rounding: str) -> Program:
    """The program with its constants, and static arguments that are numbers (the bounds of `clip`),
    rounded to the format `rounding`, and with defaults that depend on it; also inside custom
    gradients. Returns the same object if nothing changes."""
    integral = _integral_constants(program)
    nodes = tuple(
        _rounded_node(node, rounding, index in integral) for index, node in enumerate(program.nodes)
    )
    if all(node is before for node, before in zip(nodes, program.nodes, strict=True)):
        return program
    return replace(program, nodes=nodes)


def _rounded_node(node: Node, rounding: str, integral: bool) -> Node:
    if node.op == CONSTANT:
        assert node.value is not None
        value = round_constant(node.value, rounding, integral)
        return node if value == node.value else replace(node, value=value)
    if node.custom is not None:
        custom = _rounded_rule(node.custom, rounding)
        return node if custom is node.custom else replace(node, custom=custom)
    keywords = node.keywords
    if not _NUMBERS.isdisjoint(keywords):
        keywords = {
            name: round_constant(value, rounding, False)
            if name in _NUMBERS and value is not None
            else value
            for name, value in keywords.items()
        }
    if node.op == "pinv" and keywords.get("rtol") is None:
        keywords = {**keywords, "rtol": _singular_cutoff(node.shape, rounding)}
    return node if keywords == node.keywords else replace(node, keywords=keywords)


def _singular_cutoff(shape: tuple[int, ...], rounding: str) -> float:
    """The default cutoff of `pinv`, relative to the largest singular value. The result (..., N, M)
    is computed in float32 if the dtype is narrower."""
    bits = max(FORMATS[rounding].bits, FORMATS["float32"].bits)
    return float(max(shape[-2:]) * 2.0 ** (1 - bits))


def _rounded_rule(rule: CustomGradient, rounding: str) -> CustomGradient:
    forward, vjp = rounded(rule.forward, rounding), rounded(rule.vjp, rounding)
    jvp = None if rule.jvp is None else rounded(rule.jvp, rounding)
    if forward is rule.forward and vjp is rule.vjp and jvp is rule.jvp:
        return rule
    return replace(rule, forward=forward, vjp=vjp, jvp=jvp)


def _integral_constants(program: Program) -> set[int]:
    """Whole constants that only meet whole numbers and booleans."""
    meets_float: set[int] = set()
    for node in program.nodes:
        if node.kind == "float" or any(program.nodes[i].kind == "float" for i in node.args):
            meets_float.update(node.args)
    return {i for i, node in enumerate(program.nodes) if node.kind == "int"} - meets_float


def _lower(node: Node, arrays: Arrays, rounding: str, blame: int) -> Call:
    if node.op == CUSTOM:
        custom = node.custom
        assert custom is not None
        jvp = None if custom.jvp is None else prepare(custom.jvp, arrays, rounding, blame)
        forward = prepare(custom.forward, arrays, rounding, blame)
        vjp = prepare(custom.vjp, arrays, rounding, blame)
        return arrays.custom(Rule(custom, forward, vjp, jvp))
    call = arrays.lowering(node.op)
    if call is None:
        raise Unsupported(f"it does not support `{node.op}`")
    if isinstance(call, Missing):
        raise Unsupported(f"it does not support `{node.op}`: {call.reason}")
    return call


def _arguments(
    program: Program, index: int, node: Node, template: list[Any], arrays: Arrays
) -> tuple[tuple[int, ...], tuple[tuple[int, str], ...]]:
    """Which values a step takes, and which of them must be cast first.

    Operators take constants as Python numbers if at least one argument is an array. All other
    operations take them as arrays, which are appended to the template.
    """
    scalars = node.op in OPERATORS and any(program.nodes[i].op != CONSTANT for i in node.args)
    args: list[int] = []
    casts: list[tuple[int, str]] = []
    for position, (i, wanted) in enumerate(zip(node.args, node.wants, strict=True)):
        if program.nodes[i].op != CONSTANT:
            args.append(i)
            if program.nodes[i].kind != wanted:
                casts.append((position, wanted))
        elif scalars and not isinstance(template[i], bool):
            args.append(i)
        else:
            template.append(arrays.constant(template[i], wanted))
            args.append(len(template) - 1)
    return tuple(args), tuple(casts)


def custom_gradients(program: Program) -> list[CustomGradient]:
    """The custom gradients whose rules are used, including those inside rules of others."""
    rules: list[CustomGradient] = []
    for node in program.nodes:
        if node.custom is not None:
            rules.append(node.custom)
            for inner in (node.custom.vjp, node.custom.jvp):
                if inner is not None:
                    rules += custom_gradients(inner)
    return rules
