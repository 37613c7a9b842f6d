"""Layers are judged by the certified derivative of their own forward, where that is a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.checks import small
from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.lifted import LiftedTruth, lifted_truth
from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.engines.layer.lifting import NotLifted
from gradcheck_cli.truth.blocks import Differences
from tests.checks.making import examined, layer_problem, torch_engine
from tests.checks.test_verdicts import function

pytestmark = pytest.mark.usefixtures("one_thread")

X = {"x": np.array([0.3, -1.2, 0.7])}
FROM_THE_TRACE = "certified, from the trace"


def bound(layer: Any, dtype: str = "float64", x: Any = X["x"]) -> BoundLayer:
    problem = layer_problem(layer, {"x": x}, dtype=dtype)
    subjects = Subjects(torch_engine(), problem)
    narrow = subjects.bound(dtype)
    return BoundLayer("torch", problem, narrow, subjects.highest(narrow), subjects.bound)


def sources(layer: Any, **settings: Any) -> set[str]:
    return {check.truth for check in examined(layer, X, **settings).checks}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_layer_of_known_operations_is_certified(dtype: str) -> None:
    assert sources(lambda x: torch.exp(-(x**2)).sum() * x, dtype=dtype) == {FROM_THE_TRACE}


def test_where_the_value_vanishes_its_rounding_does_not() -> None:
    """log(x / (1 - x)) is 0 at 0.5, where a few ulps show nothing of how it rounds nearby."""
    LiftedTruth(bound(torch.logit, x=np.array([1e-30, 0.5, 0.999999])))
    LiftedTruth(bound(torch.sin, x=np.zeros(2)))


def through_numpy(x: Any) -> Any:
    return x * torch.from_numpy(np.sin(x.detach().numpy()))


def through_a_number(x: Any) -> Any:
    return x * x.detach().max().item()


@pytest.mark.parametrize("layer", [through_numpy, through_a_number])
def test_what_leaves_the_framework_on_its_way_is_not_a_constant(layer: Any) -> None:
    with pytest.raises(NotLifted, match="not its function nearby"):
        LiftedTruth(bound(layer))


def test_a_branch_is_followed_and_its_edge_is_not() -> None:
    def branching(x: Any) -> Any:
        return x * 2 if x[0] > 0.1 else x * 3

    def on_the_edge(x: Any) -> Any:
        return (x - 0.3) * 2 if x[0] > 0.3 else (x - 0.3) * 3

    notes: dict[str, None] = {}
    assert lifted_truth(bound(branching), notes) is not None
    assert not notes
    assert lifted_truth(bound(on_the_edge), notes) is None
    (note,) = notes
    assert "jump); finite differences decide" in note


def test_a_tie_of_a_maximum_is_left_to_differences() -> None:
    assert sources(lambda x: torch.relu(x - 0.3)) != {FROM_THE_TRACE}


def test_a_wrong_backward_beside_a_lifted_forward_is_wrong() -> None:
    wrong = function(lambda x: torch.exp(-x), lambda g, x: 1e-7 * g - g * torch.exp(-x))
    answer = examined(wrong.apply, X)
    assert {finding.code for finding in answer.findings} == {"GC101"}
    assert {finding.truth_source for finding in answer.findings} == {FROM_THE_TRACE}


def test_differences_that_contradict_the_program_take_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def agrees(self: LiftedTruth, *_: Any) -> bool:
        return False

    wrong = function(lambda x: torch.exp(-x), lambda g, x: g * torch.exp(-x))
    monkeypatch.setattr(small.LiftedTruth, "agrees", agrees)
    answer = examined(wrong.apply, X)
    assert {finding.code for finding in answer.findings} == {"GC101"}
    assert FROM_THE_TRACE not in {finding.truth_source for finding in answer.findings}


def test_a_difference_contradicts_where_its_bar_leaves_out_the_truth() -> None:
    layer = bound(torch.exp)
    program = LiftedTruth(layer)
    whole = small.Whole(layer, program, uncast=False)
    truth = whole.made().truth
    assert truth is not None
    right = np.diag(np.exp(X["x"]))
    for off, agrees in ((0.0, True), (1e-3, False)):
        found = Differences.empty(3, 3)
        found.value[:], found.error[:], found.kind[:] = right + off, 1e-6, 0
        assert program.agrees(truth, {"x": right}, {"x": found}) is agrees


def test_a_layer_that_raises_while_it_is_watched_is_judged_by_differences() -> None:
    def shy(x: Any) -> Any:
        if torch.utils._python_dispatch._get_current_dispatch_mode() is not None:
            raise RuntimeError("not with a mode")
        return torch.sin(x)

    assert sources(shy) == {"confirmed"}
