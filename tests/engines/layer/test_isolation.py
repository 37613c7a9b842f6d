import importlib
import os
import random
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from gradcheck_cli import check
from gradcheck_cli.engines.layer.isolation import Randomness, surroundings
from tests.checks.making import examined


def test_what_belongs_to_the_process_is_put_back(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("KEPT", "a")
    monkeypatch.setenv("LOST", "b")

    def state():
        numbers = random.getstate(), np.random.get_state()[1].tobytes(), np.random.get_state()[2]
        others = os.getcwd(), dict(os.environ), list(sys.path), list(warnings.filters)
        return numbers, others, np.geterr()

    before = state()
    try:
        with surroundings():
            os.chdir(tmp_path)
            os.environ.update(KEPT="c", NEW="d")
            del os.environ["LOST"]
            sys.path.insert(0, "nowhere")
            warnings.simplefilter("error")
            np.seterr(all="raise")
            random.random(), np.random.random()
            raise KeyError
    except KeyError:
        assert state() == before


@pytest.mark.parametrize("kind", ["MT19937", "PCG64", "SFC64"])
@pytest.mark.parametrize("draws", [0, 1, 2, 3])
def test_numpys_random_numbers_go_on_whatever_draws_them(kind: str, draws: int) -> None:
    def numbers() -> list[float]:
        np.random.set_bit_generator(getattr(np.random, kind)(5))
        for _ in range(draws):  # an odd number leaves the second of a pair
            np.random.standard_normal()
        with warnings.catch_warnings(), between():
            warnings.simplefilter("error")
            if between is surroundings:
                np.random.seed(3)
                np.random.standard_normal()
        return [np.random.standard_normal(), np.random.random(), np.random.standard_normal()]

    own = np.random.get_bit_generator()
    try:
        between = nullcontext
        alone = numbers()
        between = surroundings
        assert numbers() == alone
    finally:
        np.random.set_bit_generator(own)


def test_random_numbers_begin_again_and_tell_when_they_are_drawn() -> None:
    with surroundings():
        numbers = Randomness(3)
        draws = []
        for _ in range(2):
            numbers.restart()
            assert not numbers.has_drawn()
            draws.append((random.random(), np.random.random()))
            assert numbers.has_drawn()
    assert draws[0] == draws[1]


def test_a_users_module_is_as_it_was() -> None:
    class Careless(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(2)
            self.weight = nn.Parameter(torch.tensor([1.0, 2.0]))
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            self.eval() if self.calls % 2 else self.train()
            with torch.no_grad():
                self.weight += 1
            torch.rand(3)
            return self.norm(x * self.weight)

    module = Careless()
    module.weight.grad = torch.tensor([5.0, 6.0])
    torch.manual_seed(11)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    state, tracking = torch.get_rng_state(), torch.is_grad_enabled()
    for asked in (False, True):
        examined(module, {"x": np.ones((3, 2)) * [[1], [2], [4]]}, behaviour=asked)
    after = module.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert torch.equal(module.weight.grad, torch.tensor([5.0, 6.0]))
    assert (module.calls, module.training, module.norm.training) == (0, True, True)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled() is tracking


def test_what_a_function_captured_and_switched_is_as_it_was() -> None:
    norm = nn.BatchNorm1d(2).eval()
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    weight.grad = torch.tensor([5.0, 6.0])

    def careless(x):
        norm.train()
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(torch.is_grad_enabled())
        torch.autograd.set_detect_anomaly(True)
        with torch.no_grad():
            weight.mul_(1)
        return norm(x * weight)

    before = {name: tensor.clone() for name, tensor in norm.state_dict().items()}
    for asked in (False, True):
        examined(careless, {"x": np.ones((3, 2)) * [[1], [2], [4]]}, behaviour=asked)
    after = norm.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert not norm.training
    assert torch.get_default_dtype() is torch.float32
    assert not torch.is_anomaly_enabled()
    assert weight.detach().tolist() == [1.0, 2.0]
    assert weight.dtype is torch.float32
    assert torch.equal(weight.grad, torch.tensor([5.0, 6.0]))


@pytest.mark.parametrize("framework", ["torch", "jax.numpy", "tensorflow", "numpy"])
def test_a_layer_that_makes_numpy_raise_is_judged_as_any_other(framework: str) -> None:
    module = importlib.import_module(framework)

    def layer(x):
        y = 1e200 / x
        np.seterr(all=errors)
        return y

    def backward(y_bar, x):
        x_bar = -y_bar * 1e200 / x / x
        np.seterr(all=errors)
        return x_bar

    x = getattr(module, "asarray", getattr(module, "constant", None))([1e-200, 1e-90, 0.0, 2.0])
    own = {"backward": backward} if framework == "numpy" else {}
    before, found = np.geterr(), []
    for errors in ("ignore", "raise"):  # noqa: B007 - which the functions read
        report = check(layer, x, dtypes="float64", **own)
        found.append([(one.code, one.input, one.mode, one.message) for one in report.findings])
        assert np.geterr() == before
    assert found[0] == found[1]
