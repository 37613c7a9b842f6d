"""A lazy module has its parameters after a first call."""

from __future__ import annotations

import numpy as np
import torch

from gradcheck_cli import check
from gradcheck_cli.engines.torch.lazy import initialised
from tests.checks.making import examined

X = np.array([[0.3, -1.2, 0.7]])


def test_a_module_that_is_not_lazy_stays_the_same() -> None:
    module = torch.nn.Linear(3, 2)
    assert initialised(module, {"input": X}, (), {}) == (module, [])


def test_the_users_own_module_stays_lazy() -> None:
    module = torch.nn.LazyLinear(2)
    found, _ = initialised(module, {"input": X, "weight": np.zeros((2, 3))}, (), {})
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


class ActNorm(torch.nn.Module):
    """Sets its scale by the first batch. Without the switch, it does so in every call."""

    def __init__(self, switched: bool = True) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("done", torch.tensor(False))
        self.switched = switched

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.done:
            with torch.no_grad():
                self.scale.copy_(1 / x.std(0))
            self.done.fill_(self.switched)
        return self.scale * x


def test_parameters_that_the_first_call_sets_are_checked_as_it_sets_them() -> None:
    module = ActNorm()
    report = check(module, torch.tensor(np.vstack([X, 2 * X, -X])))
    assert not report.findings
    assert "the first call sets `scale`" in str(report)
    assert not module.done  # the user's own


def test_parameters_that_every_call_sets_are_not_set_by_the_first() -> None:
    report = check(ActNorm(switched=False), torch.tensor(np.vstack([X, 2 * X, -X])))
    assert "GC603" in {finding.code for finding in report.findings}


def test_a_module_that_raises_before_it_is_set_is_reported_once() -> None:
    module = ActNorm()
    answer = examined(module, {"x": np.zeros((3, 4))})  # of the wrong shape
    assert answer.failure is not None
