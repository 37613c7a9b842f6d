"""What is lifted from a layer computes the layer on every engine that runs formulas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from gradcheck_cli import specfile
from gradcheck_cli.domain.evaluation import Problem
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.report.lifted import spec_text
from gradcheck_cli.run.lift import Numbers, graphs_of, lift
from tests.conftest import loaded
from tests.every import first

ENGINES = ("reference", "torch", "tensorflow", "jax")
LAYERS = """
import torch
from torch import nn
from torch.nn import functional

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.norm = nn.LayerNorm(4)
        self.qkv = nn.Linear(4, 12)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        mean = torch.softmax(scores, -1) @ v
        return x + functional.silu(mean)

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.W = nn.Parameter(torch.randn(4, 3))
        self.U = nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        h = torch.zeros(1, 3, dtype=x.dtype)
        for i in range(len(x)):
            z = x[i : i + 1] @ self.W + h @ self.U
            h = torch.tanh(z)
        return h

class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.GRUCell(4, 2)

    def forward(self, x):
        return self.cell(x)

def newton(x):
    y = x.abs() + 1
    for _ in range(5):
        y = 0.5 * (y + (x.square() + 1) / y)
    y *= 2.0
    return y

def lorenz(x):
    x = x[0, :3]
    for _ in range(3):
        a, b, c = x[0], x[1], x[2]
        x = x + 0.01 * torch.stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c])
    return x

def losses(x):
    log_p = functional.log_softmax(x, dim=-1)
    picked = log_p[torch.arange(3), torch.tensor([0, 3, 1])]
    return functional.smooth_l1_loss(picked, picked.flip(0)) - picked.mean()
"""
NAMES = {
    "Attention": {"q", "k", "v", "scores", "mean_"},
    "Recurrent": {"h", "z"},
    "Gated": set(),
    "newton": {"y"},
    "lorenz": {"a", "b", "c", "x1"},
    "losses": {"log_p", "picked"},
}
LOOPS = {"Recurrent", "newton", "lorenz"}
X = [[0.5, -1.25, 2.0, 0.75], [1.5, 0.25, -0.5, -2.0], [0.125, 1.0, -1.5, 0.375]]


@pytest.mark.parametrize("name", first(2, NAMES))
def test_the_spec_runs_on_every_engine(name: str, tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(LAYERS)
    text = f"inputs: {{x: {X}}}\nimplementations: {{torch: 'layers.py:{name}'}}\n"
    (tmp_path / "spec.yaml").write_text(text)
    (spec,), errors = specfile.read(str(tmp_path / "spec.yaml"))
    assert not errors
    (layer,) = lift(spec, None, 0)
    written = spec_text(name, layer)
    (again,), errors = specfile.read("lifted.yaml", written)
    assert not errors, written
    assert again.program is not None

    scope: dict = {}
    exec(LAYERS, scope)
    made = scope[name]
    layer_here = made().double() if isinstance(made, type) else made
    right = layer_here(torch.tensor(X, dtype=torch.float64)).detach().numpy()
    values = {key: entry.value for key, entry in again.inputs.items()}
    wrt = tuple(key for key, entry in again.inputs.items() if entry.requires_grad)
    for engine in ENGINES:
        problem = Problem(again.program, values, wrt, "float64", "float64", "reverse")
        found = np.asarray(loaded(engine).evaluate(problem).output, np.float64)
        np.testing.assert_allclose(found, right, rtol=1e-13, atol=1e-14, err_msg=engine)

    model = written.partition("model: |")[2]
    missing = {one for one in NAMES[name] if f" {one} = " not in model}
    assert not missing, model
    assert ("for i in range(" in model) == (name in LOOPS), model


Read = Callable[[str], Spec]
FORMULA = "name: f\ninputs: {x: [1, 2], n: {value: [3, 4], dtype: int64}}\nmodel: x * x * 3"
LAYER = """
name: pair
inputs: {x: [0.5, 2.0]}
implementations:
  torch: {target: 'torch:sinh'}
"""


def test_a_formula_without_numbers(spec: Read) -> None:
    (graph,) = graphs_of(spec(FORMULA)).values()
    assert (graph.engine, dict(graph.values)) == ("", {})


def test_cotangents_are_those_of_the_sum_of_the_output(spec: Read) -> None:
    found = graphs_of(spec(FORMULA), Numbers())
    assert list(found) == ["f"]
    graph, nodes = found["f"], found["f"].program.nodes
    x = graph.program.inputs["x"]
    np.testing.assert_array_equal(graph.values[x], [1, 2])
    np.testing.assert_array_equal(graph.derivatives[x], [6, 12])
    np.testing.assert_array_equal(graph.values[graph.program.output], [3, 12])
    np.testing.assert_array_equal(graph.derivatives[graph.program.output], [1, 1])
    assert {nodes[i].op for i in graph.values} == {node.op for node in nodes}


def test_tangents_and_another_dtype(spec: Read) -> None:
    (graph,) = graphs_of(spec(FORMULA), Numbers("float16", "forward")).values()
    np.testing.assert_array_equal(graph.derivatives[graph.program.output], [6, 0])
    (rounded,) = graphs_of(spec("inputs: {x: 0.1}\nmodel: sin(x)"), Numbers("float16")).values()
    assert float(rounded.values[0]) == float(np.float16(0.1))


def test_a_layer_is_lifted(spec: Read) -> None:
    (graph,) = graphs_of(spec(LAYER), Numbers()).values()
    assert "sinh" in [node.op for node in graph.program.nodes]
    np.testing.assert_allclose(graph.derivatives[graph.program.inputs["x"]], np.cosh([0.5, 2]))
