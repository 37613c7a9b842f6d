import numpy as np
import pytest
import torch

from gradcheck_cli.checks.behaviour import checks
from gradcheck_cli.checks.large import projected
from gradcheck_cli.checks.large.progress import reporting_to, tell
from gradcheck_cli.domain.layer import LayerProgress
from tests.checks.making import behaviour, examined


def test_what_is_told_is_heard_meanwhile_alone() -> None:
    heard: list[LayerProgress] = []
    tell("before", 1, 2)
    with reporting_to(heard.append):
        tell("differences", 1, 2)
    tell("after", 1, 2)
    assert heard == [LayerProgress("differences", 1, 2)]


def test_a_large_layer_tells_which_question_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[LayerProgress] = []
    x = {"x": np.random.default_rng(0).standard_normal((40, 40))}
    with reporting_to(heard.append):
        examined(torch.tanh, x)
        behaviour(torch.tanh, x)
        assert not heard  # it is not large
        for module in (projected, checks):
            monkeypatch.setattr(module, "LARGE", 1)
        examined(torch.tanh, x)
        behaviour(torch.tanh, x)
    what = [*dict.fromkeys(one.what for one in heard)]
    assert what == ["reverse mode", "forward mode", "behaviour"]
    for question in ("reverse mode", "behaviour"):
        done = [one.done for one in heard if one.what == question]
        assert done == sorted(set(done))
    assert all(one.done <= one.expected for one in heard)


@pytest.mark.usefixtures("is_large")
def test_where_a_tangent_decides_as_many_runs_as_it_takes_are_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[LayerProgress] = []
    monkeypatch.setattr(projected, "LARGE", 1)
    with reporting_to(heard.append):
        examined(torch.tanh, {"x": np.random.default_rng(0).standard_normal((40, 40))})
    what = [*dict.fromkeys(one.what for one in heard)]
    assert what == ["reverse mode", "its operations", "forward mode"]
    assert heard[-1].expected - heard[-1].done == 3  # forward mode itself
