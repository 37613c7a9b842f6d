"""A program that is enclosed is the truth about a layer, in terms of its leaves."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.certified import program_truth
from gradcheck_cli.checks.certified.program_truth import ProgramTruth
from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.domain.evaluation import SECOND, Projection
from gradcheck_cli.engines.trace.symbols import ProgramWriter
from reference_engine.traced import ROWS
from tests.checks.making import SPAN, bound_layer, layer_problem, torch_engine

X = np.array([0.3, -1.2])
FACTOR = np.array([2.0, 5.0])


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Module()
        self.inner.slope = torch.nn.Parameter(torch.tensor([0.5, 1.5], dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x * self.inner.slope) * torch.from_numpy(FACTOR)


def truth_of_scaled() -> ProgramTruth:
    problem = layer_problem(Scaled(), {"x": X})
    subjects = Subjects(torch_engine(), problem)
    narrow = subjects.bound("float64")
    layer = BoundLayer("torch", problem, narrow, narrow, subjects.bound)
    writer = ProgramWriter(SPAN)
    x, slope = writer.input("x", X), writer.input("inner_slope", np.array([0.5, 1.5]))
    output = ROWS["sin"](x * slope) * FACTOR
    return ProgramTruth(layer, writer.program(output), writer.constants)


def test_blocks_have_the_names_of_leaves_and_constants_do_not_move() -> None:
    program = truth_of_scaled()
    truth = program.truth({"reverse": Projection()})
    assert {name for _, name in truth.blocks} == {"x", "inner.slope"}
    outer = np.cos(X * [0.5, 1.5]) * FACTOR
    for name, right in (("x", outer * [0.5, 1.5]), ("inner.slope", outer * X)):
        block = truth.blocks["reverse", name]
        assert np.all(block.certified)
        np.testing.assert_allclose(block.value, np.diag(right), rtol=1e-15)


def test_compositions_with_the_same_numbers_share_a_hessian(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = truth_of_scaled()
    computed = []
    compute = program_truth.compute
    monkeypatch.setattr(
        program_truth, "compute", lambda request: computed.append(request) or compute(request)
    )
    row = np.array([[1.0, -2.0]])
    found = {}
    for mode in SECOND[:3]:
        projection = Projection(row.copy())
        truth, blocks = program.second_order(mode, projection, ["x", "inner.slope"], costs=False)
        assert {key for key, _ in truth.blocks} == {mode}
        found[mode] = blocks["x", "inner.slope"].value
    assert len(computed) == 1
    assert np.array_equal(found[SECOND[0]], found[SECOND[1]])
    program.second_order(SECOND[0], Projection(2 * row), ["x"], costs=False)
    assert len(computed) == 2


@pytest.mark.parametrize(
    ("numbers", "ill_conditioned"),
    [([1.0, 1.0], False), ([1.0, 1025.0 / 1024.0], False), ([1.0, 1.0000001], True)],
)
def test_constants_of_few_digits_are_exact_and_others_are_data(
    numbers: list[float], ill_conditioned: bool
) -> None:
    """The derivative of (c - exp(-x))^2 beside 0 is as uncertain as c."""
    near = np.array([1e-7, 2e-7])
    identity = SimpleNamespace(forward=lambda x: x, backward=lambda upstream, x: upstream)
    layer = bound_layer(identity, {"x": near}, dtype="float32")
    writer = ProgramWriter(SPAN)
    gap = ROWS["subtract"](np.array(numbers), ROWS["exp"](-writer.input("x", near)))
    program = ProgramTruth(layer, writer.program(gap * gap), writer.constants)
    block = program.truth({"reverse": Projection()}, costs=True).blocks["reverse", "x"]
    uncertain = block.condition[0, 0] > 0.1 * abs(block.value[0, 0])
    assert uncertain == ill_conditioned
