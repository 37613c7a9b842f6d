"""Custom gradients of JAX and TensorFlow whose second derivative is lost, with the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli import specfile
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.run.in_process import run_in_process

JAX = """
import jax
from jax.lax import stop_gradient

@jax.custom_vjp
def cube(x):
    return x ** 3

def cube_fwd(x):
    return x ** 3, {saved}

def cube_bwd(saved, g):
    return (g * {used},)

cube.defvjp(cube_fwd, cube_bwd)

@jax.custom_vjp
def square(x):
    return x ** 2

square.defvjp(lambda x: (x ** 2, x), lambda x, g: (g * x,))
"""
TENSORFLOW = """
import tensorflow as tf

@tf.custom_gradient
def cube(x):
    saved = {saved}
    def backward(g):
        return g * {used}
    return x ** 3, backward

@tf.custom_gradient
def square(x):
    return x ** 2, lambda g: g * x
"""
CASES = {
    "jax, saved": (JAX, "jax.lax.stop_gradient(3 * x ** 2)", "saved", "3 * x ** 2"),
    "jax, in the backward": (JAX, "x", "stop_gradient(3 * saved ** 2)", "3 * saved ** 2"),
    "tensorflow, closed over": (TENSORFLOW, "tf.stop_gradient(3 * x ** 2)", "saved", "3 * x ** 2"),
    "tensorflow, in the backward": (
        TENSORFLOW,
        "x",
        "tf.stop_gradient(3 * saved ** 2)",
        "3 * saved",
    ),
}


def errors(folder: Path, code: str, saved: str, used: str) -> list[Finding]:
    engine = "jax" if code is JAX else "tensorflow"
    (folder / "layers.py").write_text(code.format(saved=saved, used=used))
    text = f"inputs: {{x: [0.5, 1.5]}}\nimplementations: {{{engine}: 'layers.py:cube'}}\norder: 2\n"
    (folder / "spec.yaml").write_text(text)
    (spec,), mistakes = specfile.read(str(folder / "spec.yaml"))
    assert not mistakes
    options = RunOptions(
        modes=Layered(override=("reverse",)), dtypes=Layered(override=("float64",))
    )
    return [one for one in run_in_process(spec, options).findings if one.severity == "error"]


@pytest.mark.parametrize("name", CASES)
def test_a_stopped_gradient_is_named(name: str, tmp_path: Path) -> None:
    code, saved, used, what = CASES[name]
    (finding,) = errors(tmp_path, code, saved, used)
    assert finding.code == "GC106"
    assert "`cube` stops the gradient of a value that its backward uses" in finding.message
    assert finding.place is not None
    assert "stop_gradient(" in finding.place.text
    assert what in finding.place.text


@pytest.mark.parametrize("code", [JAX, TENSORFLOW], ids=["jax", "tensorflow"])
def test_a_wrong_function_that_a_backward_calls_is_named(code: str, tmp_path: Path) -> None:
    (finding,) = errors(tmp_path, code, "x", "3 * square(saved)")
    assert finding.message.endswith("a backward calls `square`, whose own derivative is wrong")
    assert finding.place is not None
    assert finding.place.text == "g * x"


@pytest.mark.parametrize("code", [JAX, TENSORFLOW], ids=["jax", "tensorflow"])
def test_without_it_nothing_is_wrong(code: str, tmp_path: Path) -> None:
    assert not errors(tmp_path, code, "3 * x ** 2", "saved")
