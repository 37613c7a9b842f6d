"""The languages of scripts: how each framework writes expressions and transforms."""

from __future__ import annotations

import re

from gradcheck_cli.domain.engines import FRAMEWORK_OF
from gradcheck_cli.domain.records import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """How a framework writes things: imports, its version, an array, a product of arrays as one
    array, the sum of an array, the number in it, the numbers of an array as a list, a compiled
    function, a number computed without the compiler, the dtype of an array, the complex array of
    pairs along the last axis, and statements that make pairs of a complex `y`. `reverse` and
    `forward` define `by_reverse` and `by_forward`: the derivative of a function of all inputs with
    respect to one entry of one of them (`rule_along`: along a direction)."""

    imports: str
    version: str
    array: str
    number: str
    numbers: str
    product: str = ""
    total: str = ""
    compiled: str = ""
    uncompiled: str = ""
    dtype: str = ""
    joined: str = ""
    pairs: str = ""
    reverse: str = ""
    forward: str = ""
    before: str = ""


TORCH = Language(
    imports="import torch",
    version='"torch", torch.__version__',
    array="torch.tensor({value}, dtype=torch.{dtype}{leaf})",
    product="({y}.reshape(-1) * y_bar).sum()",
    total="{y}.sum()",
    number="{array}.item()",
    numbers="{array}.reshape(-1).tolist()",
    compiled="torch.compile({function})",
    uncompiled='with torch.compiler.set_stance("force_eager"):\n    uncompiled = {number}',
    dtype='str({array}.dtype).removeprefix("torch.")',
    joined="torch.view_as_complex({array})",
    pairs="if y.is_complex():\n        y = torch.view_as_real(y)",
    reverse="""
def by_reverse(function, name, index):
    def derivative(inputs):
        (x_bar,) = torch.autograd.grad(function(inputs), inputs[name], allow_unused=True)
        return None if x_bar is None else x_bar[index]

    return derivative
""",
    forward="""
def by_forward(function, name, index):
    def derivative(inputs):
        x = inputs[name]
        x_dot = torch.zeros_like(x)
        x_dot[index] = 1
        return torch.func.jvp(lambda x: function({**inputs, name: x}), (x,), (x_dot,))[1]

    return derivative
""",
)
DUAL = """
def by_forward(function, name, index):
    def derivative(inputs):
        x_dot = torch.zeros_like(inputs[name])
        x_dot[index] = 1
        with torch.autograd.forward_ad.dual_level():
            x = torch.autograd.forward_ad.make_dual(inputs[name], x_dot)
            value = function({**inputs, name: x})
            return torch.autograd.forward_ad.unpack_dual(value).tangent

    return derivative
"""
"""Forward mode of PyTorch where nothing inside is in forward mode."""

REVERSE_AGAIN = """
def by_reverse(function, name, index):
    def derivative(inputs):
        value = function(inputs)
        if value is None or not value.requires_grad:
            return None
        (x_bar,) = torch.autograd.grad(value, inputs[name], create_graph=True, allow_unused=True)
        return None if x_bar is None else x_bar[index]

    return derivative
"""
"""Reverse mode of PyTorch where what it gives is differentiated again."""

COMPILED_REVERSE = """
def by_compiled_reverse(function, name, index):
    def derivative(inputs):
        return torch.func.grad(lambda x: function({**inputs, name: x}))(inputs[name])[index]

    return derivative
"""
"""Reverse mode inside of what `torch.compile` compiles."""

WHOLE_REVERSE = """
def whole_compiled_reverse(function, name):
    def derivative(inputs):
        return torch.func.grad(lambda x: function({**inputs, name: x}))(inputs[name])

    return derivative
"""
"""The same, with all entries of the gradient."""

CAPTURED_REVERSE = """
def by_reverse(function, name, index):
    def derivative(inputs):
        y = function(inputs)
        with torch._dynamo.compiled_autograd._enable(torch.compile, dynamic=False):
            (x_bar,) = torch.autograd.grad(y, inputs[name], allow_unused=True)
        return None if x_bar is None else x_bar[index]

    return derivative
"""
"""Reverse mode of PyTorch by compiled autograd."""

ALONG = """
def along_directions(function):
    def derivative(inputs):
        terms = [(u, by_{inner}(function, *entry)(inputs)) for entry, u in directions.items()]
        known = [u * x_bar for u, x_bar in terms if x_bar is not None]
        return sum(known) if known else None

    return derivative
"""
"""The derivative along a direction of all inputs, which the third derivative is of."""

_TENSORFLOW = Language(
    imports="import tensorflow as tf",
    version='"tensorflow", tf.__version__',
    array="tf.constant({value}, dtype=tf.{dtype})",
    product="tf.reduce_sum(tf.reshape({y}, [-1]) * y_bar)",
    total="tf.reduce_sum({y})",
    number="float({array})",
    numbers="tf.reshape({array}, [-1]).numpy().tolist()",
    compiled="tf.function({function}, jit_compile=True)",
    uncompiled="tf.config.run_functions_eagerly(True)\nuncompiled = {number}",
    dtype="{array}.dtype.name",
    joined="tf.complex({array}[..., 0], {array}[..., 1])",
    pairs="if y.dtype.is_complex:\n        y = tf.stack([tf.math.real(y), tf.math.imag(y)], -1)",
    reverse="""
def by_reverse(function, name, index):
    def derivative(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs[name])
            value = function(inputs)
        x_bar = tape.gradient(value, inputs[name])
        return None if x_bar is None else tf.convert_to_tensor(x_bar)[index]

    return derivative
""",
    forward="""
def by_forward(function, name, index):
    def derivative(inputs):
        x = inputs[name]
        one = tf.ones((), x.dtype)
        x_dot = tf.tensor_scatter_nd_update(tf.zeros_like(x), [index], [one]) if index else one
        others = [y for key, y in inputs.items() if key != name and y.dtype.is_floating]
        still = [tf.zeros_like(y) for y in others]
        with tf.autodiff.ForwardAccumulator([x, *others], [x_dot, *still]) as accumulator:
            value = function(inputs)
        return accumulator.jvp(value)

    return derivative
""",
)
_JAX = Language(
    imports="import jax",
    version='"jax", jax.__version__',
    array="jax.numpy.array({value}, dtype=jax.numpy.{dtype})",
    product="({y}.reshape(-1) * y_bar).sum()",
    total="{y}.sum()",
    number="float({array})",
    numbers="{array}.reshape(-1).tolist()",
    compiled="jax.jit({function})",
    uncompiled="with jax.disable_jit():\n    uncompiled = {number}",
    dtype="{array}.dtype.name",
    joined="jax.lax.complex({array}[..., 0], {array}[..., 1])",
    pairs="if jax.numpy.iscomplexobj(y):\n        y = jax.numpy.stack([y.real, y.imag], -1)",
    reverse="""
def by_reverse(function, name, index):
    def derivative(inputs):
        return jax.grad(lambda x: function({**inputs, name: x}))(inputs[name])[index]

    return derivative
""",
    forward="""
def by_forward(function, name, index):
    def derivative(inputs):
        x = inputs[name]
        x_dot = jax.numpy.zeros_like(x).at[index].set(1)
        return jax.jvp(lambda x: function({**inputs, name: x}), (x,), (x_dot,))[1]

    return derivative
""",
    before='jax.config.update("jax_enable_x64", True)',
)
_NUMPY = Language(
    imports="import numpy as np",
    version='"numpy", np.__version__',
    array="np.array({value}, dtype=np.{dtype})",
    number="float({array})",
    numbers="np.ravel({array}).tolist()",
)
"""It has no derivatives: a script calls the layer's own backward."""

LANGUAGES = {"torch": TORCH, "tensorflow": _TENSORFLOW, "jax": _JAX, "numpy": _NUMPY}
FRAMEWORKS = {**FRAMEWORK_OF, "numpy": "numpy"}


def rule_along(rule: str, total: str) -> str:
    """The rule for one entry of an input, turned into a rule for a direction of it."""
    lines = [line for line in rule.splitlines() if not _OF_UNIT.match(line)]
    text = "\n".join(lines).replace("by_", "along_").replace("index):", "x_dot):")
    product = total.format(y=r"(\2 * x_dot)")
    return _OF_ENTRY.sub(rf"\1{product}", text) + "\n"


_OF_UNIT = re.compile(r" +(x_dot|one)\b.* = ")  # a line that makes a unit vector
_OF_ENTRY = re.compile(r"(return (?:None if x_bar is None else )?)(.+)\[index\]$", re.M)
