"""A fix as Python that runs: a function `f` of its inputs for each framework."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gradcheck_cli.domain.program import CONSTANT, CustomGradient, Node, Program
from gradcheck_cli.engines.lowerings import Limited, Missing, Table
from gradcheck_cli.formula.printing import Printer
from gradcheck_cli.formula.program import used_inputs

Words = Callable[[Sequence[str], Mapping[str, Any]], str]
"""The text of a call from its arguments, as text, and its keywords."""

_REDUCTIONS = ("sum", "mean", "max", "min", "prod")


class CannotSay(Exception):
    """The framework has no words for an operation."""


def code_of(part: Program) -> dict[str, str]:
    """The source of `f` for every framework that has words for all of its operations."""
    from gradcheck_cli.engines import tensorflow_ops, torch_ops

    found: dict[str, str] = {}
    for name, words, table in (
        ("torch", _TORCH, torch_ops.TABLE),
        ("tensorflow", _TENSORFLOW, tensorflow_ops.TABLE),
    ):
        try:
            found[name] = _Module(words, table, name == "torch").source(part)
        except CannotSay:
            continue
    return found


class _Module:
    """The source of one fix: imports, helper functions, and `f`."""

    def __init__(self, words: Mapping[str, Words], table: Table, torch: bool) -> None:
        self._words = words
        self._table = table
        self.torch = torch
        self.prefix = "torch" if torch else "tf"
        self._helpers: dict[str, str] = {}

    def source(self, part: Program) -> str:
        used = used_inputs(part)
        names = [name for name in part.inputs if name in used]
        lines = list(_Writer(part, self, names).definition())
        helpers = [line for text in self._helpers.values() for line in (*text.splitlines(), "", "")]
        body = [*helpers, *lines]
        mathematics = any(re.search(r"(?<!tf\.)\bmath\.", line) for line in body)
        imports = ["import math", ""] if mathematics else []
        framework = "import torch" if self.torch else "import tensorflow as tf"
        return "\n".join([*imports, framework, "", "", *body])

    def call(self, node: Node, arrays: Sequence[str]) -> str:
        """An operation in the framework's words."""
        keywords = {name: value for name, value in node.keywords.items() if name != "dtype"}
        if node.op in self._words:
            return self._words[node.op](arrays, keywords)
        lowering = self._table.get(node.op)
        if isinstance(lowering, Limited):
            lowering = lowering.call
        if lowering is None or isinstance(lowering, Missing):
            raise CannotSay(node.op)
        if isinstance(lowering, str):
            if keywords:
                raise CannotSay(node.op)
            return f"{self.prefix}.{lowering}({', '.join(arrays)})"
        return self._helper(node.op, lowering, arrays, keywords)

    def _helper(
        self,
        op: str,
        function: Callable[..., Any],
        arrays: Sequence[str],
        keywords: Mapping[str, Any],
    ) -> str:
        """A call of a function that composes the operation of what the framework has."""
        name = getattr(function, "__name__", "")
        if not name.isidentifier() or set(inspect.getclosurevars(function).globals) - {"math"}:
            raise CannotSay(op)
        text = inspect.getsource(function)
        text = re.sub(r"(: Any)|( -> Any)", "", text)
        self._helpers[name] = text.rstrip()
        given = [self.prefix, *arrays, *(f"{key}={value!r}" for key, value in keywords.items())]
        return f"{name}({', '.join(given)})"


class _Writer(Printer):
    """A program as the body of a Python function."""

    def __init__(self, program: Program, module: _Module, parameters: Sequence[str]) -> None:
        super().__init__(program)
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
        if isinstance(value, float) and math.isinf(value):
            return 'float("inf")' if value > 0 else '-float("inf")'
        return repr(value)

    def argument(self, index: int) -> str:
        """Operators take numbers; other operations want arrays of the same dtype."""
        node = self._nodes[index]
        if node.op != CONSTANT:
            return super().argument(index)
        if not self._example:
            raise CannotSay("a constant beside no array")
        assert node.value is not None
        value = self.number(node.value)
        if self._module.torch:
            return f"torch.tensor({value}, dtype={self._example}.dtype)"
        return f"tf.constant({value}, {self._example}.dtype)"

    def call(self, node: Node, arrays: list[str]) -> str:
        return self._module.call(node, arrays)

    def applied(self, name: str, args: Sequence[str]) -> str:
        called = f"{_class_name(name)}.apply" if self._module.torch else name
        return f"{called}({', '.join(args)})"

    def function(self, rule: CustomGradient, name: str) -> Iterator[str]:
        inputs = list(rule.forward.inputs)
        forward = list(_Writer(rule.forward, self._module, inputs).body())
        backward = list(_Writer(rule.vjp, self._module, list(rule.vjp.inputs)).body())
        listed = ", ".join(inputs)
        upstream = next(iter(rule.vjp.inputs))
        if self._module.torch:
            saved = f"({listed},)" if len(inputs) == 1 else listed
            yield f"class {_class_name(name)}(torch.autograd.Function):"
            yield "    @staticmethod"
            yield f"    def forward(ctx, {listed}):"
            yield f"        ctx.save_for_backward({listed})"
            yield from ("        " + line for line in forward)
            yield ""
            yield "    @staticmethod"
            yield f"    def backward(ctx, {upstream}):"
            yield f"        {saved} = ctx.saved_tensors"
            yield from ("        " + line for line in backward)
            return
        yield "@tf.custom_gradient"
        yield f"def {name}({listed}):"
        yield f"    def grad({upstream}):"
        yield from ("        " + line for line in backward)
        yield ""
        *before, last = forward
        yield from ("    " + line for line in before)
        yield f"    return {last.removeprefix('return ')}, grad"


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _torch_reduction(name: str) -> Words:
    def words(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
        axis, keepdims = keywords.get("axis"), keywords.get("keepdims", False)
        (x,) = arrays
        if axis is None and not keepdims:
            return f"torch.{name}({x})"
        dim = f"tuple(range({x}.ndim))" if axis is None else repr(axis)
        if name == "prod" and not isinstance(axis, int):
            raise CannotSay("prod over several axes")
        return f"torch.{name}({x}, dim={dim}{', keepdim=True' if keepdims else ''})"

    return words


def _tensorflow_reduction(name: str) -> Words:
    def words(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
        axis, keepdims = keywords.get("axis"), keywords.get("keepdims", False)
        rest = "" if axis is None else f", axis={axis!r}"
        return f"tf.{name}({arrays[0]}{rest}{', keepdims=True' if keepdims else ''})"

    return words


def _torch_logsumexp(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
    axis = keywords.get("axis", -1)
    dim = f"tuple(range({arrays[0]}.ndim))" if axis is None else repr(axis)
    keep = ", keepdim=True" if keywords.get("keepdims") else ""
    return f"torch.logsumexp({arrays[0]}, dim={dim}{keep})"


def _norm(call: str, axis_word: str, keep_word: str) -> Words:
    def words(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
        axis, keepdims = keywords.get("axis"), keywords.get("keepdims", False)
        if not isinstance(axis, int | None) or (axis is None and keepdims):
            raise CannotSay("a norm over several axes")
        order = keywords.get("ord", 2)
        rest = "" if order == 2 else f", ord={order!r}"
        rest += "" if axis is None else f", {axis_word}={axis!r}"
        return f"{call}({arrays[0]}{rest}{f', {keep_word}=True' if keepdims else ''})"

    return words


def _along(call: str, word: str) -> Words:
    return lambda arrays, keywords: f"{call}({arrays[0]}, {word}={keywords.get('axis', -1)!r})"


def _listed(call: str, word: str) -> Words:
    def words(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
        return f"{call}([{', '.join(arrays)}], {word}={keywords.get('axis', 0)!r})"

    return words


def _shaped(call: str) -> Words:
    return lambda arrays, keywords: f"{call}({arrays[0]}, {keywords['shape']!r})"


def _swapped(call: str) -> Words:
    def words(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
        if keywords.get("axes") is not None:
            raise CannotSay("a transposition of several axes")
        return f"{call}({arrays[0]})"

    return words


def _losses(call: str) -> Words:
    def words(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
        return f"{call}({', '.join(arrays)}, reduction={keywords.get('reduction', 'mean')!r})"

    return words


def _tensorflow_logits(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
    x, y = arrays
    each = f"tf.nn.sigmoid_cross_entropy_with_logits(labels={y}, logits={x})"
    reduction = keywords.get("reduction", "mean")
    return {"mean": f"tf.reduce_mean({each})", "sum": f"tf.reduce_sum({each})"}.get(reduction, each)


def _clip(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
    return f"torch.clamp({arrays[0]}, {keywords.get('min')!r}, {keywords.get('max')!r})"


_TORCH: Mapping[str, Words] = {
    **{name: _torch_reduction(name) for name in ("sum", "mean", "prod")},
    "max": _torch_reduction("amax"),
    "min": _torch_reduction("amin"),
    "logsumexp": _torch_logsumexp,
    "softmax": _along("torch.softmax", "dim"),
    "log_softmax": _along("torch.log_softmax", "dim"),
    "norm": _norm("torch.linalg.vector_norm", "dim", "keepdim"),
    "stop_gradient": lambda arrays, keywords: f"{arrays[0]}.detach()",
    "concatenate": _listed("torch.cat", "dim"),
    "stack": _listed("torch.stack", "dim"),
    "reshape": _shaped("torch.reshape"),
    "broadcast_to": _shaped("torch.broadcast_to"),
    "transpose": _swapped("torch.t"),
    "clip": _clip,
    "solve": lambda arrays, keywords: f"torch.linalg.solve({', '.join(arrays)})",
    "slogdet_logabs": lambda arrays, keywords: f"torch.linalg.slogdet({arrays[0]}).logabsdet",
    "trace": lambda arrays, keywords: f"torch.trace({arrays[0]})",
    "bce_with_logits": _losses("torch.nn.functional.binary_cross_entropy_with_logits"),
}
_TENSORFLOW: Mapping[str, Words] = {
    **{name: _tensorflow_reduction(f"reduce_{name}") for name in _REDUCTIONS},
    "logsumexp": _tensorflow_reduction("reduce_logsumexp"),
    "softmax": _along("tf.nn.softmax", "axis"),
    "log_softmax": _along("tf.nn.log_softmax", "axis"),
    "norm": _norm("tf.norm", "axis", "keepdims"),
    "stop_gradient": lambda arrays, keywords: f"tf.stop_gradient({arrays[0]})",
    "concatenate": _listed("tf.concat", "axis"),
    "stack": _listed("tf.stack", "axis"),
    "reshape": _shaped("tf.reshape"),
    "broadcast_to": _shaped("tf.broadcast_to"),
    "transpose": _swapped("tf.transpose"),
    "slogdet_logabs": lambda arrays, keywords: f"tf.linalg.slogdet({arrays[0]})[1]",
    "trace": lambda arrays, keywords: f"tf.linalg.trace({arrays[0]})",
    "bce_with_logits": _tensorflow_logits,
}
