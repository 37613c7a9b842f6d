"""How each framework writes a fix: names and notations of operations, constants, and functions with
a custom gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from gradcheck_cli.domain.program import Node
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.jax import ops as jax_ops
from gradcheck_cli.engines.kit.lowerings import Table
from gradcheck_cli.engines.numpy import ops as numpy_ops
from gradcheck_cli.engines.tensorflow import ops as tensorflow_ops
from gradcheck_cli.engines.torch import ops as torch_ops
from gradcheck_cli.explain.fixes.edits import Notation

Words = Callable[[Sequence[str], Mapping[str, Any]], str]
"""Returns the text of a call, given the texts of its arguments, and its keywords."""


class CannotSay(Exception):
    """The framework cannot express an operation."""


@dataclass(frozen=True, slots=True)
class Custom:
    """A function with a custom derivative: its name, its inputs, the bodies of both passes, and the
    name of the upstream gradient. `push` is the body of its jvp, which takes `tangents`; empty if
    it has none."""

    name: str
    inputs: Sequence[str]
    forward: Sequence[str]
    backward: Sequence[str]
    upstream: str
    tangents: Sequence[str] = ()
    push: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """imports    the import lines of a module
    prefix     the framework's name in code, and as first argument of helper functions
    short      long names, and the aliases under which they are imported
    notation   how to write what an edit of the user's own expression may add
    constant   the template of a scalar array, from a value and a dtype
    cast       the template of an array in another dtype
    dtypes     the names of the dtypes of integers and truth values
    promotes   whether operators accept other dtypes together with floating-point numbers
    called     how a function with a custom derivative is called, from its name
    lacks      whether the framework rejects a node whose arguments have these shapes
    """

    name: str
    imports: tuple[str, ...]
    prefix: str
    table: Table
    words: Mapping[str, Words]
    constant: str
    cast: str
    dtypes: Mapping[str, str]
    custom: Callable[[Custom], Iterator[str]]
    called: Callable[[str], str]
    lacks: Callable[[Node, Sequence[tuple[int, ...]]], bool] = lambda node, shapes: False
    short: tuple[tuple[str, str], ...] = ()
    promotes: bool = True
    notation: Notation = field(default_factory=Notation)


def _broadcasts_labels(node: Node, shapes: Sequence[tuple[int, ...]]) -> bool:
    return node.op == "bce_with_logits" and len(set(shapes)) > 1


def _torch_lacks(node: Node, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Negative steps in slices, and labels of another shape."""
    parts = node.keywords["index"] if node.op == "getitem" else ()
    backwards = any(isinstance(part, slice) and (part.step or 1) < 0 for part in parts)
    return backwards or _broadcasts_labels(node, shapes)


def _tensorflow_lacks(node: Node, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Products of vectors, and labels of another shape."""
    vectors = node.op == "matmul" and min(map(len, shapes)) < 2
    return vectors or _broadcasts_labels(node, shapes)


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _indented(lines: Sequence[str], by: int) -> Iterator[str]:
    yield from (" " * by + line for line in lines)


def _torch_custom(made: Custom) -> Iterator[str]:
    listed = ", ".join(made.inputs)
    saved = f"({listed},)" if len(made.inputs) == 1 else listed
    yield f"class {_class_name(made.name)}(torch.autograd.Function):"
    yield "    @staticmethod"
    if made.push:  # torch.func requires a separate setup_context
        yield f"    def forward({listed}):"
        yield from _indented(made.forward, 8)
        yield ""
        yield "    @staticmethod"
        yield "    def setup_context(ctx, inputs, output):"
        yield "        ctx.save_for_backward(*inputs)"
        yield "        ctx.save_for_forward(*inputs)"
    else:
        yield f"    def forward(ctx, {listed}):"
        yield f"        ctx.save_for_backward({listed})"
        yield from _indented(made.forward, 8)
    yield ""
    yield "    @staticmethod"
    yield f"    def backward(ctx, {made.upstream}):"
    yield f"        {saved} = ctx.saved_tensors"
    yield from _indented(made.backward, 8)
    if not made.push:
        return
    yield ""
    yield "    @staticmethod"
    yield f"    def jvp(ctx, {', '.join(made.tangents)}):"
    yield f"        {saved} = ctx.saved_tensors"
    for x_dot, x in zip(made.tangents, made.inputs, strict=True):
        yield f"        {x_dot} = torch.zeros_like({x}) if {x_dot} is None else {x_dot}"
    yield from _indented(made.push, 8)


def _tensorflow_custom(made: Custom) -> Iterator[str]:
    yield "@tf.custom_gradient"
    yield f"def {made.name}({', '.join(made.inputs)}):"
    yield f"    def grad({made.upstream}):"
    yield from _indented(made.backward, 8)
    yield ""
    *before, last = made.forward
    yield from _indented(before, 4)
    yield f"    return {last.removeprefix('return ')}, grad"


def _jax_custom(made: Custom) -> Iterator[str]:
    """The backward returns a tuple, even of one entry. A function has either a jvp or a vjp."""
    listed = ", ".join(made.inputs)
    saved = f"({listed},)" if len(made.inputs) == 1 else f"({listed})"
    if made.push:
        tangents = ", ".join(made.tangents)
        yield "@jax.custom_jvp"
        yield f"def {made.name}({listed}):"
        yield from _indented(made.forward, 4)
        yield ""
        yield ""
        yield f"@{made.name}.defjvp"
        yield f"def {made.name}_jvp(primals, tangents):"
        yield f"    {saved} = primals"
        yield f"    {saved.replace(listed, tangents)} = tangents"
        *before, last = made.push
        yield from _indented(before, 4)
        yield f"    return {made.name}({listed}), {last.removeprefix('return ')}"
        return
    yield "@jax.custom_vjp"
    yield f"def {made.name}({listed}):"
    yield from _indented(made.forward, 4)
    yield ""
    yield ""
    yield f"def {made.name}_forward({listed}):"
    *before, last = made.forward  # not a call of the function, which has no jvp
    yield from _indented(before, 4)
    yield f"    return {last.removeprefix('return ')}, {saved}"
    yield ""
    yield ""
    yield f"def {made.name}_backward(saved, {made.upstream}):"
    yield f"    {saved} = saved"
    *before, last = made.backward
    yield from _indented(before, 4)
    grads = last.removeprefix("return ")
    yield f"    return ({grads},)" if len(made.inputs) == 1 else f"    return {grads}"
    yield ""
    yield ""
    yield f"{made.name}.defvjp({made.name}_forward, {made.name}_backward)"


def literal(value: Any) -> str:
    """A value as a Python expression; infinity has no literal."""
    if isinstance(value, float) and math.isinf(value):
        return 'float("inf")' if value > 0 else '-float("inf")'
    return repr(value)


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


def _trace(call: str) -> Words:
    def words(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
        offset = keywords.get("offset", 0)
        return f"{call}({arrays[0]}, offset={offset!r}, axis1=-2, axis2=-1)"

    return words


def _torch_trace(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
    offset = keywords.get("offset", 0)
    return f"torch.diagonal({arrays[0]}, offset={offset!r}, dim1=-2, dim2=-1).sum(-1)"


def _tensorflow_eye(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
    if keywords.get("k"):
        raise CannotSay("another diagonal")
    return f"tf.eye({keywords['n']!r}, num_columns={keywords['m']!r})"


def _tensorflow_trace(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
    if keywords.get("offset", 0) != 0:
        raise CannotSay("another diagonal")
    return f"tf.linalg.trace({arrays[0]})"


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
        rest = "" if order == 2 else f", ord={literal(order)}"
        rest += "" if axis is None else f", {axis_word}={axis!r}"
        return f"{call}({arrays[0]}{rest}{f', {keep_word}=True' if keepdims else ''})"

    return words


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


def _torch_logits(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
    call, reduction = "torch.nn.functional.binary_cross_entropy_with_logits", "mean"
    return f"{call}({', '.join(arrays)}, reduction={keywords.get('reduction', reduction)!r})"


def _tensorflow_logits(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
    x, y = arrays
    each = f"tf.nn.sigmoid_cross_entropy_with_logits(labels={y}, logits={x})"
    reduction = keywords.get("reduction", "mean")
    return {"mean": f"tf.reduce_mean({each})", "sum": f"tf.reduce_sum({each})"}.get(reduction, each)


def _clip(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
    return f"torch.clamp({arrays[0]}, {keywords.get('min')!r}, {keywords.get('max')!r})"


def _jax_logits(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
    x, y = arrays
    each = f"{y} * jax.nn.softplus(-{x}) + (1 - {y}) * jax.nn.softplus({x})"
    reduction = keywords.get("reduction", "mean")
    return f"({each})" if reduction == "none" else f"jnp.{reduction}({each})"


_TORCH: Mapping[str, Words] = {
    **{name: _torch_reduction(name) for name in ("sum", "mean", "prod")},
    "max": _torch_reduction("amax"),
    "min": _torch_reduction("amin"),
    "logsumexp": _torch_logsumexp,
    "norm": _norm("torch.linalg.vector_norm", "dim", "keepdim"),
    "stop_gradient": lambda arrays, keywords: f"{arrays[0]}.detach()",
    "concatenate": _listed("torch.cat", "dim"),
    "stack": _listed("torch.stack", "dim"),
    "reshape": _shaped("torch.reshape"),
    "broadcast_to": _shaped("torch.broadcast_to"),
    "transpose": _swapped("torch.t"),
    "clip": _clip,
    "solve": lambda arrays, keywords: f"torch.linalg.solve({', '.join(arrays)})",
    "trace": _torch_trace,
    "bce_with_logits": _torch_logits,
}
_TENSORFLOW: Mapping[str, Words] = {
    "norm": _norm("tf.norm", "axis", "keepdims"),
    "concatenate": _listed("tf.concat", "axis"),
    "stack": _listed("tf.stack", "axis"),
    "reshape": _shaped("tf.reshape"),
    "broadcast_to": _shaped("tf.broadcast_to"),
    "transpose": _swapped("tf.transpose"),
    "trace": _tensorflow_trace,
    "eye": _tensorflow_eye,
    "bce_with_logits": _tensorflow_logits,
}
_JAX: Mapping[str, Words] = {
    "concatenate": _listed("jnp.concatenate", "axis"),
    "stack": _listed("jnp.stack", "axis"),
    "broadcast_to": _shaped("jnp.broadcast_to"),
    "solve": lambda arrays, keywords: f"jnp.linalg.solve({', '.join(arrays)})",
    "trace": _trace("jnp.trace"),
    "bce_with_logits": _jax_logits,
}


def _numpy_logsumexp(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
    axis, keep = keywords.get("axis", -1), keywords.get("keepdims", False)
    return f"np.logaddexp.reduce({arrays[0]}, axis={axis!r}, keepdims={keep!r})"


def _numpy_norm(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
    """The norm of the flattened array if there is no axis: NumPy would take a matrix norm."""
    flat = f"np.ravel({arrays[0]})" if keywords.get("axis") is None else arrays[0]
    return _norm("np.linalg.norm", "axis", "keepdims")([flat], keywords)


def _numpy_log_softmax(arrays: Sequence[str], keywords: Mapping[str, Any]) -> str:
    (x,) = arrays
    axis = keywords.get("axis", -1)
    return f"({x} - np.logaddexp.reduce({x}, axis={axis!r}, keepdims=True))"


def _numpy_custom(made: Custom) -> Iterator[str]:
    raise CannotSay("a custom gradient")


_NUMPY: Mapping[str, Words] = {
    "norm": _numpy_norm,
    "trace": _trace("np.trace"),
    "concatenate": _listed("np.concatenate", "axis"),
    "stack": _listed("np.stack", "axis"),
    "reshape": _shaped("np.reshape"),
    "broadcast_to": _shaped("np.broadcast_to"),
    "transpose": _swapped("np.transpose"),
    "clip": lambda arrays, keywords: (
        f"np.clip({arrays[0]}, {keywords.get('min')!r}, {keywords.get('max')!r})"
    ),
    "stop_gradient": lambda arrays, keywords: arrays[0],
    "softplus": lambda arrays, keywords: f"np.logaddexp(0, {arrays[0]})",
    "log_sigmoid": lambda arrays, keywords: f"(-np.logaddexp(0, -{arrays[0]}))",
    "sigmoid": lambda arrays, keywords: f"np.exp(-np.logaddexp(0, -{arrays[0]}))",
    "logsumexp": _numpy_logsumexp,
    "log_softmax": _numpy_log_softmax,
    "softmax": lambda arrays, keywords: f"np.exp{_numpy_log_softmax(arrays, keywords)}",
}

DIALECTS = (
    Dialect(
        name="torch",
        imports=("import torch",),
        prefix="torch",
        table=torch_ops.TABLE,
        words=_TORCH,
        constant="torch.tensor({value}, dtype={dtype})",
        cast="{array}.to({dtype})",
        dtypes={"int": "torch.int64", "bool": "torch.bool"},
        custom=_torch_custom,
        notation=Notation(
            count="{}.numel()",
            reductions=("({}).sum(-1, keepdim=True)", "({}).mean(-1, keepdim=True)"),
        ),
        called=lambda name: f"{_class_name(name)}.apply",
        lacks=_torch_lacks,
    ),
    Dialect(
        name="tensorflow",
        imports=("import tensorflow as tf",),
        prefix="tf",
        table=tensorflow_ops.TABLE,
        words=_TENSORFLOW,
        constant="tf.constant({value}, {dtype})",
        cast="tf.cast({array}, {dtype})",
        dtypes={"int": "tf.int64", "bool": "tf.bool"},
        promotes=False,
        custom=_tensorflow_custom,
        notation=Notation(
            transposed="tf.transpose({})",
            conjugate="tf.math.conj({})",
            count="tf.cast(tf.size({0}), {0}.dtype)",
            reductions=(
                "tf.reduce_sum({}, -1, keepdims=True)",
                "tf.reduce_mean({}, -1, keepdims=True)",
            ),
        ),
        called=lambda name: name,
        lacks=_tensorflow_lacks,
    ),
    Dialect(
        name="jax",
        imports=("import jax", "import jax.numpy as jnp"),
        prefix="jax",
        table=jax_ops.TABLE,
        words=_JAX,
        constant="jnp.array({value}, {dtype})",
        cast="{array}.astype({dtype})",
        dtypes={"int": "int", "bool": "bool"},
        custom=_jax_custom,
        called=lambda name: name,
        short=(("jax.numpy.", "jnp."),),
    ),
    Dialect(
        name="numpy",
        imports=("import numpy as np",),
        prefix="np",
        table=numpy_ops.TABLE,
        words=_NUMPY,
        constant="{value}",
        cast="{array}.astype({dtype})",
        dtypes={"int": "int", "bool": "bool"},
        custom=_numpy_custom,
        called=lambda name: name,
    ),
)


def dialect_of(engine: str) -> Dialect:
    """The dialect of an engine's framework, compiled or not. Raises CannotSay."""
    for one in DIALECTS:
        if engine.partition("-")[0] == one.name:
            return one
    raise CannotSay(engine)
