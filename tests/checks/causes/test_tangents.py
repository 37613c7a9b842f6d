"""A number that is not finite in forward mode alone is blamed on the operation that made the first
such tangent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.domain.report import Cause
from tests.checks.making import examined, stretch

pytestmark = pytest.mark.usefixtures("one_thread")


def alternating(x: Any) -> Any:
    with torch.no_grad():  # which hides nothing from forward mode
        turns = (2 * x).floor()
    return (-1) ** turns * x


def reciprocal(x: Any) -> Any:
    return 1 / torch.exp(x)


def two_of_them(x: Any, y: Any) -> Any:
    return torch.sin(x) * torch.pow(y.round(), 2.0).sqrt() + x


def cause_in_forward_mode(layer: Any, **inputs: list[float]) -> Cause:
    arrays = {name: np.array(values) for name, values in inputs.items()}
    answer = examined(layer, arrays, dtype="float32", modes=("forward",))
    causes = {finding.cause for finding in answer.findings if finding.code in ("GC201", "GC202")}
    (cause,) = causes
    assert cause is not None
    return cause


@pytest.mark.parametrize(
    ("layer", "inputs", "text", "kind"),
    [
        (alternating, {"x": [0.7, 1.3]}, "(-1) ** turns", "0*inf"),
        (reciprocal, {"x": [100.0]}, "torch.exp(x)", "overflow"),
        (two_of_them, {"x": [0.3], "y": [0.2]}, "torch.pow(y.round(), 2.0).sqrt()", "0*inf"),
    ],
)
def test_the_first_tangent_that_is_not_finite_is_blamed(
    layer: Any, inputs: dict[str, list[float]], text: str, kind: str
) -> None:
    cause = cause_in_forward_mode(layer, **inputs)
    assert (stretch(cause), cause.kind) == (text, kind)
