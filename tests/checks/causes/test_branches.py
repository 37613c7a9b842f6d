"""A kink or a jump of a layer stands at the branch of the user's code that makes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.checks.causes.branches import WORDS
from gradcheck_cli.testing.api import check
from tests.checks.making import examined

X = np.array([0.5, -0.5, 2.0])


def jump(x: Any) -> Any:
    if x[:2].sum() > 0:
        return torch.sin(x)
    return torch.cos(x)


def kink(x: Any) -> Any:
    unrelated = x * 2 if x[2] > 1 else x
    return unrelated * (3 * x[0] - 1 if x[0] > 0.5 else x[0])


def turns(x: Any) -> Any:
    while x.norm() > 1:
        x = x / 2
    return x


def several(x: Any) -> Any:
    return torch.stack([one * 2 for one in x if one > 0.5]).sum()


def within(x: Any) -> Any:
    return jump(x * 1.0)


@pytest.mark.parametrize(
    ("layer", "x", "text"),
    [
        (jump, X, "x[:2].sum() > 0"),
        (kink, X, "x[0] > 0.5"),
        (turns, np.array([0.6, 0.8]), "x.norm() > 1"),
        (several, X, "one > 0.5"),
        (within, X, "x[:2].sum() > 0"),
    ],
)
def test_the_condition_is_where_the_finding_stands(layer: Any, x: Any, text: str) -> None:
    answer = examined(layer, {"x": x}, modes=("reverse",))
    assert answer.findings
    for finding in answer.findings:
        assert finding.code in {"GC401", "GC403"}
        assert finding.message.endswith(WORDS)
        assert finding.place is not None
        assert finding.place.text == text


def relu(x: Any) -> Any:
    if x[0] > 0:  # decided alike on both sides
        x = 2 * x
    return torch.relu(x - 1)


def test_a_kink_of_an_operation_stands_at_no_branch() -> None:
    (finding,) = examined(relu, {"x": X}, modes=("reverse",)).findings
    assert finding.code == "GC401"
    assert finding.place is None


def test_the_report_shows_the_line() -> None:
    report = str(check(jump, torch.tensor(X), modes=["reverse"], dtypes=["float64"]))
    assert "test_branches.py" in report
    assert "if x[:2].sum() > 0:" in report
