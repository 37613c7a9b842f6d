"""A program that is enclosed is the truth about a layer, in terms of its leaves."""

from __future__ import annotations

import numpy as np
import torch

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.program_truth import ProgramTruth
from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.domain.evaluation import Projection
from gradcheck_cli.engines.trace.symbols import ProgramWriter
from reference_engine.traced import ROWS
from tests.checks.making import SPAN, layer_problem, torch_engine

X = np.array([0.3, -1.2])
FACTOR = np.array([2.0, 5.0])


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Module()
        self.inner.slope = torch.nn.Parameter(torch.tensor([0.5, 1.5], dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x * self.inner.slope) * torch.from_numpy(FACTOR)


def test_blocks_have_the_names_of_leaves_and_constants_do_not_move() -> None:
    problem = layer_problem(Scaled(), {"x": X})
    subjects = Subjects(torch_engine(), problem)
    narrow = subjects.bound("float64")
    layer = BoundLayer("torch", problem, narrow, narrow, subjects.bound)
    writer = ProgramWriter(SPAN)
    x, slope = writer.input("x", X), writer.input("inner_slope", np.array([0.5, 1.5]))
    output = ROWS["sin"](x * slope) * FACTOR
    program = ProgramTruth(layer, writer.program(output), writer.constants)
    truth = program.truth({"reverse": Projection()})
    assert {name for _, name in truth.blocks} == {"x", "inner.slope"}
    outer = np.cos(X * [0.5, 1.5]) * FACTOR
    for name, right in (("x", outer * [0.5, 1.5]), ("inner.slope", outer * X)):
        block = truth.blocks["reverse", name]
        assert np.all(block.certified)
        np.testing.assert_allclose(block.value, np.diag(right), rtol=1e-15)
