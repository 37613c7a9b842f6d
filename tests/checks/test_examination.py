"""An examination answers whatever the layer does: a finding, a failure or a note, and no raise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gradcheck_cli.checks.examination import examine
from tests.checks.making import examined, layer_problem, torch_engine

X = {"x": np.array([0.7, -1.3])}


class Doubled(torch.autograd.Function):
    """sin, whose gradient is twice the right one."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g * torch.cos(ctx.saved_tensors[0])


def test_a_right_layer_has_checks_and_no_findings() -> None:
    answer = examined(torch.sin, X, modes=("reverse",))
    assert answer.failure is None
    assert not answer.findings
    assert [check.status for check in answer.checks] == ["passed"]
    assert answer.duration_s > 0


def test_where_nobody_is_to_be_blamed_findings_have_no_causes() -> None:
    problem = layer_problem(Doubled, X, modes=("reverse",))
    blamed, plain = (examine(torch_engine(), problem, blaming=b) for b in (True, False))
    assert [one.code for one in blamed.findings] == [one.code for one in plain.findings]
    assert "GC101" in {one.code for one in plain.findings}
    assert all(one.cause is not None for one in blamed.findings if one.code == "GC101")
    assert all(one.cause is None for one in plain.findings)


def test_what_the_layer_raises_is_a_failure_at_its_line() -> None:
    def layer(x: Any) -> Any:
        raise ValueError("only on Tuesdays")

    failure = examined(layer, X).failure
    assert failure is not None
    assert "only on Tuesdays" in failure.message
    assert failure.place is not None
    assert failure.place.text.startswith("raise ValueError")


def test_even_an_exit_is() -> None:
    def layer(x: Any) -> Any:
        raise SystemExit(3)

    assert examined(layer, X).failure is not None


def test_a_device_that_the_engine_lacks_is_refused_before_the_layer_runs() -> None:
    ran = []
    problem = layer_problem(ran.append, X)
    failure = examine(torch_engine(), replace(problem, device="tpu:0")).failure
    assert failure is not None
    assert "`tpu:0`" in failure.message
    assert not ran


def test_a_layer_without_anything_to_differentiate_has_a_note() -> None:
    answer = examined(lambda x: x.double(), {"x": np.array([1, 2])})
    assert answer.failure is None
    assert not answer.checks
    assert any("nothing to differentiate" in note for note in answer.notes)
