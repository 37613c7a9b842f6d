"""A finding as a script: it imports the framework alone, prints the computed and the true number,
and exits with 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradcheck_cli.domain.codes import CODES
from gradcheck_cli.domain.report import Entry, Finding
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.explain.fixes.code import code_of

_TORCH = """
inputs = {{
{inputs}
}}
y = {call}(**inputs)
y_bar = torch.zeros(y.shape, dtype=y.dtype)
y_bar[{output}] = 1
y.backward(y_bar)
computed = inputs[{name!r}].grad[{index}].item()
version = "torch " + torch.__version__
"""

_TENSORFLOW = """
inputs = {{
{inputs}
}}


def gradient(**inputs):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = f(**inputs)
        entry = y[{output}]
    return tape.gradient(entry, inputs[{name!r}])


computed = float({call}(**inputs)[{index}])
version = "tensorflow " + tf.__version__
"""

_JAX = """
jax.config.update("jax_enable_x64", True)
inputs = {{
{inputs}
}}


def gradient(inputs):
    return jax.grad(lambda inputs: f(**inputs)[{output}])(inputs)[{name!r}]


computed = float({call}(inputs)[{index}])
version = "jax " + jax.__version__
"""

# By engine: the framework, the body, what is called, an array, and what the script imports.
_SCRIPTS: Mapping[str, tuple[str, str, str, str, str]] = {
    "torch": (
        "torch",
        _TORCH,
        "f",
        "torch.tensor({value}, dtype=torch.{dtype}, requires_grad=True)",
        "import torch",
    ),
    "tensorflow": (
        "tensorflow",
        _TENSORFLOW,
        "gradient",
        "tf.constant({value}, dtype=tf.{dtype})",
        "import tensorflow as tf",
    ),
    "jax": (
        "jax",
        _JAX,
        "gradient",
        "jax.numpy.array({value}, dtype=jax.numpy.{dtype})",
        "import jax",
    ),
}
_COMPILED = {
    "torch-compile": ("torch", "torch.compile(f)"),
    "tensorflow-xla": ("tensorflow", "tf.function(gradient, jit_compile=True)"),
    "jax-jit": ("jax", "jax.jit(gradient)"),
}

_END = """
print({title!r})
print("with", version)
print("computed:", computed)
print("true:    ", {truth!r}, {known!r})
sys.exit(0 if abs(computed - {truth!r}) <= {half!r} else 1)
"""


def script(finding: Finding, spec: Spec) -> str | None:
    """The script; None where none can show the finding: of another engine or mode, of a random
    direction, or where the framework has no words for an operation."""
    engine = finding.engine or ""
    framework, compiled = _COMPILED.get(engine, (engine, ""))
    entry = finding.entries[0] if finding.entries else None
    source = code_of(spec.program).get(framework)
    plain = all(one.value.dtype.kind == "f" for one in spec.inputs.values())
    if framework not in _SCRIPTS or source is None or entry is None or not plain:
        return None
    if finding.mode != "reverse" or finding.indexing is None or finding.indexing.cotangents:
        return None
    if entry.truth is None or finding.input is None:
        return None
    _, body, call, array, imports = _SCRIPTS[framework]
    axes = finding.indexing.output_axes
    inputs = "\n".join(
        f"    {name!r}: {array.format(value=_number(one.value.tolist()), dtype=finding.dtype)},"
        for name, one in spec.inputs.items()
    )
    run = body.format(
        inputs=inputs,
        call=compiled or call,
        name=finding.input,
        output=_index(entry.index[:axes]),
        index=_index(entry.index[axes:]),
    )
    heading = [f'"""{CODES[finding.code].name}: {finding.message}"""', "", "import sys", ""]
    own = [line for line in source.splitlines() if line != imports]
    return "\n".join([*heading, imports, *own]) + "\n" + run + _end(finding, entry)


def _end(finding: Finding, entry: Entry) -> str:
    assert entry.truth is not None
    off = abs((entry.computed or 0.0) - entry.truth)
    return _END.format(
        title=f"{finding.code} {CODES[finding.code].name} of {finding.engine}, {finding.dtype}",
        truth=entry.truth,
        known=f"({finding.truth_source or 'known'})",
        half=off / 2 if off < float("inf") else 0.0,
    )


def _index(index: Sequence[int]) -> str:
    return ", ".join(map(str, index)) or "()"


def _number(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_number, value))}]"
    text = repr(value)
    return text if text[-1].isdigit() else f"float({text!r})"
