"""Implementations that compute different functions are found, with the operation that differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcheck_cli import specfile
from gradcheck_cli.checks.ports import first_differing_node
from gradcheck_cli.domain.evaluation import Trace
from gradcheck_cli.domain.layer import LiftedRun
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.run.in_process import run_in_process
from gradcheck_cli.truth.plain import PlainFunction
from tests.conftest import program_of
from tests.every import first

TORCH = """
import torch
from torch import nn

class Norm(nn.Module):
    def __init__(self, weight=(1.0, 0.5, 2.0)):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, keepdim=True)
        h = (x - mean) / torch.sqrt(var + 1e-5)
        return h * self.weight

def gelu(x):
    return nn.functional.gelu(x)

def noisy(x):
    return nn.functional.dropout(x, 0.5)

def softplus(x):
    return torch.log(1 + torch.exp(x))

class WrongExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.exp(-x)

    @staticmethod
    def backward(ctx, g):
        return g * torch.exp(-ctx.saved_tensors[0])

def wrong(x):
    return WrongExp.apply(x)
"""
JAX = """
import jax
import jax.numpy as jnp

def norm(x, weight, ddof=1, epsilon=1e-5):
    mean = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True, ddof=ddof)
    h = (x - mean) / jnp.sqrt(var + epsilon)
    return h * weight

def biased(x, weight):
    return norm(x, weight, ddof=0)

def other_epsilon(x, weight):
    return norm(x, weight, epsilon=1e-6)

def transposed(x, weight):
    return norm(x, weight).T

def gelu(x):
    return jax.nn.gelu(x, approximate=False)

def tanh_gelu(x):
    return jax.nn.gelu(x)

def softplus(x):
    return jax.nn.softplus(x)

def reversed_exp(x):
    return jnp.exp(-x)

class Norm:
    def __init__(self):
        self.weight = jnp.asarray([3.0, 0.5, 2.0])
    def __call__(self, x):
        return norm(x, self.weight)

"""
X = "x: [[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]]"
WEIGHT = f"{X}, weight: [1.0, 0.5, 2.0]"


def compared(folder: Path, torch: str, jax: str, inputs: str, model: str = "") -> SpecResult:
    (folder / "layers_torch.py").write_text(TORCH)
    (folder / "layers_jax.py").write_text(JAX)
    text = (
        f"inputs: {{{inputs}}}\nimplementations:\n  torch: layers_torch.py:{torch}\n"
        f"  jax: layers_jax.py:{jax}\n{model}"
    )
    (folder / "spec.yaml").write_text(text)
    (spec,), errors = specfile.read(str(folder / "spec.yaml"))
    assert not errors
    return run_in_process(spec, RunOptions(modes=Layered(override=("reverse",))))


def codes(result: SpecResult) -> list[str]:
    return [finding.code for finding in result.findings if finding.severity == "error"]


PORTS: dict[str, tuple[str, str, str, str, str]] = {
    "a biased variance": (
        "Norm",
        "biased",
        WEIGHT,
        "var(-1, keepdims=True, ddof=ddof)",
        "x.var(-1, keepdim=True)",
    ),
    "another epsilon": ("Norm", "other_epsilon", WEIGHT, "var + epsilon", "var + 1e-5"),
    "another GELU": ("gelu", "tanh_gelu", X, "jax.nn.gelu(x)", "nn.functional.gelu(x)"),
}


@pytest.mark.parametrize("name", first(1, PORTS))
def test_a_port_that_computes_another_function(name: str, tmp_path: Path) -> None:
    torch, jax, inputs, here, there = PORTS[name]
    result = compared(tmp_path, torch, jax, inputs)
    assert codes(result) == ["GC110"]
    (finding,) = (one for one in result.findings if one.code == "GC110")
    assert finding.engine == "jax"
    assert finding.place is not None
    assert here in finding.place.text
    assert there in finding.detail
    assert "in jax and" in finding.message
    assert "--engine torch,jax" in finding.repeat


@pytest.mark.parametrize(
    ("torch", "jax", "inputs"),
    [("Norm", "norm", WEIGHT), ("gelu", "gelu", X)],
)
def test_a_port_of_the_same_function_is_right(
    torch: str, jax: str, inputs: str, tmp_path: Path
) -> None:
    result = compared(tmp_path, torch, jax, inputs)
    assert result.status == "passed"
    assert not codes(result)


def test_a_wrong_gradient_is_of_the_layer_that_has_it(tmp_path: Path) -> None:
    result = compared(tmp_path, "wrong", "reversed_exp", X)
    errors = [finding for finding in result.findings if finding.severity == "error"]
    assert {(finding.code, finding.engine) for finding in errors} == {("GC101", "torch")}


def test_another_shape_is_another_function(tmp_path: Path) -> None:
    result = compared(tmp_path, "Norm", "transposed", WEIGHT)
    assert codes(result) == ["GC110"]
    assert "shape (3, 2)" in result.findings[0].detail


def test_with_a_formula_each_is_compared_with_it(tmp_path: Path) -> None:
    formula = "model: 0.5 * x * (1 + erf(x / sqrt(2)))\n"
    result = compared(tmp_path, "gelu", "tanh_gelu", X, formula)
    errors = [finding for finding in result.findings if finding.severity == "error"]
    assert {(finding.code, finding.engine) for finding in errors} <= {("GC104", "jax")}
    assert "GC110" not in codes(result)


def test_what_lost_its_value_or_is_random_is_not_compared(tmp_path: Path) -> None:
    assert "GC110" not in codes(compared(tmp_path, "noisy", "gelu", X))
    lost = compared(tmp_path, "softplus", "softplus", "x: [-60.0, -45.0]")
    assert lost.readings[0].output != lost.readings[-1].output
    assert "GC110" not in codes(lost)


def run_of(formula: str, **inputs: Any) -> LiftedRun:
    values = {name: np.asarray(value, np.float64) for name, value in inputs.items()}
    program = program_of(formula, values)
    found = PlainFunction(program, "float64").nodes(values)
    return LiftedRun({}, program, Trace({i: np.asarray(v) for i, v in enumerate(found)}, {}))


@pytest.mark.parametrize(
    ("one", "other", "op"),
    [
        ("exp(x) * (x + 1)", "exp(x) * (x + 2)", "add"),
        ("sum(x * x) + mean(x)", "sum(square(x)) + max(x)", "mean"),
        ("tanh(x) ** 2", "tanh(2 * x) ** 2", "tanh"),
        ("sum((2 * x) ** 2) / 3", "4 * sum(x * x) / 4", "divide"),
    ],
)
def test_the_operation_at_which_two_runs_part(one: str, other: str, op: str) -> None:
    mine, theirs = run_of(one, x=[0.5, 2.0]), run_of(other, x=[0.5, 2.0])
    place = first_differing_node(mine, theirs)
    assert place is not None
    assert mine.program is not None
    assert mine.program.nodes[place].op == op


def test_equal_runs_part_nowhere() -> None:
    run = run_of("exp(x)", x=[0.5])
    assert first_differing_node(run, run) is None
    assert first_differing_node(run, LiftedRun({})) is None
