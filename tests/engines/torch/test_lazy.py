"""A lazy module has its parameters after a first call."""

from __future__ import annotations

import numpy as np
import torch

from gradcheck_cli.engines.torch.lazy import initialised
from tests.checks.making import examined

X = np.array([[0.3, -1.2, 0.7]])


def test_a_module_that_is_not_lazy_stays_the_same() -> None:
    module = torch.nn.Linear(3, 2)
    assert initialised(module, {"input": X}, (), {}) is module


def test_the_users_own_module_stays_lazy() -> None:
    module = torch.nn.LazyLinear(2)
    found = initialised(module, {"input": X, "weight": np.zeros((2, 3))}, (), {})
    assert found.weight.shape == (2, 3)
    assert torch.nn.parameter.is_lazy(module.weight)


def test_a_lazy_module_is_checked_with_its_parameters() -> None:
    module = torch.nn.Sequential(
        torch.nn.LazyLinear(2), torch.nn.Tanh(), torch.nn.LazyBatchNorm1d()
    )
    answer = examined(module.eval(), {"input": np.vstack([X, 2 * X])})
    assert answer.failure is None
    assert not answer.findings
    assert {check.input for check in answer.checks} >= {"input", "0.weight", "0.bias", "2.weight"}
