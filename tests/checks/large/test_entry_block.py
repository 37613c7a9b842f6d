"""Entries that a search has named are judged one by one, with the indices of the whole gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.large.entry_block import Part, judged_part
from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.truth.layers.projections import Projections
from tests.checks.making import layer_problem, torch_engine

X = np.linspace(0.2, 1.4, 60).reshape(6, 10)
WRONG = (2, 3)


class Off(torch.autograd.Function):
    """sin; the gradient of one entry is off by a tenth."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        slope = torch.cos(ctx.saved_tensors[0])
        slope[WRONG] *= 1.1
        return g * slope


def judged(layer: Any, flat: list[int]) -> Any:
    problem = layer_problem(layer, {"x": X}, modes=("reverse",))
    subjects = Subjects(torch_engine(), problem)
    narrow = subjects.bound("float64")
    bound = BoundLayer("torch", problem, narrow, narrow, subjects.bound)
    truth = Projections(narrow, narrow.value({}), {"x": (-np.inf, np.inf)}, seed=1)
    part = Part.of_entries(truth, truth.leaves[0], np.array(flat))
    return judged_part(bound, part, more=False)


def test_a_wrong_entry_has_its_index_in_the_whole_array() -> None:
    found = judged(Off, [5, 23, 40])
    (finding,) = found.findings
    assert finding.code == "GC101"
    assert finding.input == "x"
    assert finding.entries[0].index[-2:] == WRONG
    assert found.traced[finding].flat == 23
    assert not found.harmless


def test_right_entries_pass() -> None:
    found = judged(Off, [5, 40])
    assert not found.findings
    assert not found.harmless  # nothing was found that could be


def test_without_undecided_entries_neither_findings_nor_passes_speak_of_them() -> None:
    """A rule that lets an entry go undecided asks for GC501, and a part without it has no such
    entry."""
    found = judged(lambda x: (x + 1e16) - 1e16, [5, 23])
    assert any(one.code == "GC501" for one in found.findings)
    assert any(one.rule == "undecided" for passes in found.passed.values() for one in passes)
    left = found.decided()
    assert not any(one.code == "GC501" for one in left.findings)
    assert not any(one.rule == "undecided" for passes in left.passed.values() for one in passes)
    wrong = judged(Off, [5, 23, 40])
    assert wrong.decided().findings == wrong.findings
