"""A lifted program has the names of the user's variables, and short constants."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from gradcheck_cli import specfile
from gradcheck_cli.domain.program import Program
from gradcheck_cli.formula.folding import folded_statements
from gradcheck_cli.run.lift import lift

X = [[0.5, -1.0], [2.0, 0.25]]


def program_of(folder: Path, engine: str, code: str) -> Program:
    (folder / "layers.py").write_text(textwrap.dedent(code))
    text = f"inputs: {{x: {X}}}\nimplementations: {{{engine}: 'layers.py:f'}}\n"
    (folder / "spec.yaml").write_text(text)
    (spec,), errors = specfile.read(str(folder / "spec.yaml"))
    assert not errors
    (layer,) = lift(spec, None, 0)
    return layer.lifted.program


FRAMEWORKS = {
    "torch": ("import torch as t", "t.exp(x)"),
    "tensorflow": ("import tensorflow as tf", "tf.exp(x)"),
    "jax": ("import jax.numpy as jnp", "jnp.exp(x)"),
}


@pytest.mark.parametrize("engine", FRAMEWORKS)
def test_every_framework_has_the_names(engine: str, tmp_path: Path) -> None:
    imports, exp = FRAMEWORKS[engine]
    code = f"""
        {imports}
        def f(x):
            scale = {exp}
            mean = scale @ x
            a, b = mean[0] * 2.0, mean[1] - x[0]
            if (total := a * b) is not None:
                total += x[1]
            return total
    """
    program = program_of(tmp_path, engine, code)
    assert folded_statements(program).splitlines() == [
        "scale = exp(x)",
        "mean_ = scale @ x",
        "a = mean_[0] * 2.0",
        "b = mean_[1] - x[0]",
        "total = a * b",
        "total1 = total + x[1]",
    ]


def test_numpy_has_the_names(tmp_path: Path) -> None:
    code = """
        import numpy as np
        class f:
            def forward(self, x):
                scale = np.exp(x)
                return scale * x + scale
            def backward(self, g):
                return g
    """
    found = folded_statements(program_of(tmp_path, "numpy", code))
    assert found == "scale = exp(x)\nscale * x + scale"


CODES = {
    "one line of several": (
        "h = (\n        t.tanh(x)\n        .mean(0)\n    )\n    return h * h",
        "h = mean(tanh(x), axis=0)\nh * h",
    ),
    "the entry of a tuple": (
        "y = t.max(x, dim=0)[0]\n    return y * y",
        "y = max(x, axis=0)\ny * y",
    ),
    "every turn": (
        "y = x\n    for _ in range(2):\n        y = t.sin(y) * 2\n    return y * x",
        "y = sin(x) * 2\ny1 = sin(y) * 2\ny1 * x",
    ),
    "names that formulas have": (
        "e = t.exp(x)\n    range = e * x\n    _ = range + e\n    return _ * range",
        "e_ = exp(x)\nrange_ = e_ * x\n__ = range_ + e_\n__ * range_",
    ),
    "the name of an input": ("x = t.sin(x)\n    return x * x", "x1 = sin(x)\nx1 * x1"),
    "what is no one value": (
        "y = [t.sin(x), t.cos(x)]\n    return y[0] * y[1]",
        "sin(x) * cos(x)",
    ),
    "constants": (
        "y = x * t.zeros(2) + t.full((2, 1), 3.0)\n    return y * t.ones(2)",
        "constant1 = zeros(shape=(2,))\nconstant2 = full(shape=(2, 1), fill_value=3.0)\n"
        "y = x * constant1 + constant2\nconstant3 = ones(shape=(2,))\ny * constant3",
    ),
}


@pytest.mark.parametrize("name", CODES)
def test_names(name: str, tmp_path: Path) -> None:
    body, written = CODES[name]
    program = program_of(tmp_path, "torch", f"import torch as t\ndef f(x):\n    {body}\n")
    assert folded_statements(program) == written


def test_code_that_is_gone_has_no_names(tmp_path: Path) -> None:
    code = "import torch as t\ndef f(x):\n    y = t.exp(x)\n    return y * x\n"
    written = f"source = {code!r}\nexec(compile(source, '<made>', 'exec'))\n"
    assert folded_statements(program_of(tmp_path, "torch", written)) == "exp(x) * x"
