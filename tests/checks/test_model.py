"""A layer beside the formula that it should equal."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.evaluation import FIRST_ORDER
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from gradcheck_cli.specfile import read
from tests.checks.making import torch_engine

LAYERS = """
import numpy as np


class Cube:
    @staticmethod
    def forward(x):
        return x * x * x

    @staticmethod
    def backward(up, x):
        return up * 3 * x * x


class Cancelling:
    '''1 - cos(x), whose digits are lost for small x: no other function all the same.'''

    @staticmethod
    def forward(x):
        return 1 - np.cos(x)

    @staticmethod
    def backward(up, x):
        return up * np.sin(x)


class Dense:
    def __init__(self):
        self.weight = np.array([2.0, 3.0])

    def forward(self, x):
        self.x = x
        return (x @ self.weight)[:, None]

    def backward(self, up):
        self.dweight = up[:, 0] @ self.x
        return up * self.weight


class Large:
    @staticmethod
    def forward(x, w):
        return np.sin(x @ w), (x, w)

    @staticmethod
    def backward(up, cache):
        x, w = cache
        inner = up * np.cos(x @ w)
        w_bar = x.T @ inner
        return inner @ w.T, w_bar


class Slipped(Large):
    @staticmethod
    def backward(up, cache):
        x_bar, w_bar = Large.backward(up, cache)
        w_bar[5, 7] *= 1.01
        return x_bar, w_bar
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "layers.py").write_text(LAYERS, "utf-8")
    return tmp_path


def answered(folder: Path, layer: str, text: str, dtype: str = "float64") -> LayerAnswer:
    path = folder / "layer.yaml"
    form = f"implementations: {{numpy: 'layers.py:{layer}'}}\n"
    path.write_text(textwrap.dedent(text) + form, "utf-8")
    (spec,), errors = read(str(path))
    assert errors == []
    engine = NumpyEngine()
    engine.load()
    problem = LayerProblem(spec, spec.implementations[0], 0, dtype, FIRST_ORDER)
    return examine(engine, problem)


def codes(answer: LayerAnswer) -> list[str]:
    assert answer.failure is None
    return [finding.code for finding in answer.findings]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_are_held_against_the_certified_truth(folder: Path, dtype: str) -> None:
    answer = answered(folder, "Cube", "inputs: {x: [0.5, -2.0]}\nmodel: x ** 3\n", dtype)
    assert codes(answer) == []
    assert [check.truth for check in answer.checks] == ["certified"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_another_function_is_found_and_its_gradient_is_judged_by_itself(
    folder: Path, dtype: str
) -> None:
    """By a hundred-thousandth; the backward fits the forward, and nothing is said of it."""
    text = "inputs: {x: [0.5, -2.0]}\nmodel: 1.00001 * x ** 3\n"
    answer = answered(folder, "Cube", text, dtype)
    assert codes(answer) == ["GC104"]
    (finding,) = answer.findings
    assert finding.message == "2 of 2 outputs: differs from the formula, in every precision"
    assert finding.truth_source == "certified"
    assert {check.truth for check in answer.checks} == {"certified, from the trace"}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lost_digits_are_no_other_function(folder: Path, dtype: str) -> None:
    text = "inputs: {x: [1e-4, 2e-7]}\nmodel: 2 * sin(x / 2) ** 2\n"
    assert set(codes(answered(folder, "Cancelling", text, dtype))) <= {"GC303"}


def test_parameters_are_known_by_name_and_another_shape_is_told(folder: Path) -> None:
    inputs = "inputs: {x: [[1.0, 2.0], [3.0, 4.0]]}\n"
    right = answered(folder, "Dense", inputs + "model: (x @ weight)[:, None]\n")
    assert codes(right) == []
    assert {check.input for check in right.checks} == {"x", "weight"}
    wrong = answered(folder, "Dense", inputs + "model: x @ weight\n")
    assert codes(wrong) == ["GC104"]
    assert wrong.findings[0].message == "it returns shape (2, 1), but the formula has shape (2,)"


def test_an_unknown_name_is_a_mistake_of_the_spec_with_its_place(folder: Path) -> None:
    text = "inputs: {x: [[1.0, 2.0], [3.0, 4.0]]}\nmodel: (x @ weights)[:, None]\n"
    answer = answered(folder, "Dense", text)
    (finding,) = answer.findings
    assert (finding.code, finding.message) == ("GC905", "unknown name `weights`")
    assert (finding.span.line, finding.span.column) == (2, 13)
    assert finding.detail == "did you mean `weight`?"
    assert {check.status for check in answer.checks} == {"error"}


def test_in_a_large_layer_one_wrong_entry_shows_in_products(folder: Path) -> None:
    text = """\
        inputs:
          x: {shape: [30, 20], distribution: normal, seed: 1}
          w: {shape: [20, 10], distribution: normal, seed: 2}
        model: sin(x @ w)
        """
    assert codes(answered(folder, "Large", text)) == []
    slipped = answered(folder, "Slipped", text)
    assert codes(slipped) == ["GC101"]
    (finding,) = slipped.findings
    assert finding.input == "w"
    assert {entry.index[1:] for entry in finding.entries} == {(5, 7)}


PUSHED = """
import torch


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return g * torch.cos(*ctx.saved_tensors)

    @staticmethod
    def jvp(ctx, t):
        return t * torch.cos(*ctx.saved_tensors) * 1.01


def right(x):
    return torch.sin(x)


def wrong(x):
    return Sine.apply(x)
"""


@pytest.mark.parametrize(("layer", "found"), [("right", []), ("wrong", ["GC101"])])
def test_forward_mode_of_a_large_layer(tmp_path: Path, layer: str, found: list[str]) -> None:
    (tmp_path / "layers.py").write_text(PUSHED, "utf-8")
    path = tmp_path / "layer.yaml"
    text = f"""
        inputs: {{x: {{shape: [2000], distribution: normal}}}}
        model: sin(x)
        implementations: {{torch: 'layers.py:{layer}'}}
    """
    path.write_text(textwrap.dedent(text), "utf-8")
    (spec,), errors = read(str(path))
    assert errors == []
    problem = LayerProblem(spec, spec.implementations[0], 0, "float32", FIRST_ORDER)
    answer = examine(torch_engine(), problem)
    assert codes(answer) == found
    assert {finding.mode for finding in answer.findings} <= {"forward"}
    assert [check.truth for check in answer.checks] == ["certified", "certified"]


APPROXIMATED = """
import torch


def rectified(x):
    return torch.nn.functional.softplus(x)


def unit(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def slipped(x):
    return 1.001 * unit(x)
"""


@pytest.mark.parametrize(
    ("layer", "model", "dtype", "expected"),
    [
        ("rectified", "softplus(x)", "float64", "GC305"),
        ("rectified", "softplus(x)", "float32", None),
        ("unit", "gelu(x)", "float64", "GC305"),
        ("unit", "gelu(x)", "float32", "GC305"),
        ("slipped", "gelu(x)", "float64", "GC104"),
    ],
)
def test_what_a_framework_documents_is_no_other_function(
    tmp_path: Path, layer: str, model: str, dtype: str, expected: str | None
) -> None:
    (tmp_path / "layers.py").write_text(APPROXIMATED, "utf-8")
    path = tmp_path / "layer.yaml"
    form = f"implementations: {{torch: 'layers.py:{layer}'}}\n"
    path.write_text(f"inputs: {{x: [0.5, -2.0, 25.0]}}\nmodel: {model}\n{form}", "utf-8")
    (spec,), _ = read(str(path))
    problem = LayerProblem(spec, spec.implementations[0], 0, dtype, FIRST_ORDER)
    found = examine(torch_engine(), problem)
    assert set(codes(found)) == ({expected} if expected else set())
    assert sum(finding.input is None for finding in found.findings) == bool(expected)
