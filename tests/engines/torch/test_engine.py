"""What is peculiar to PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.torch.engine import TorchEngine

X = np.array([0.3, -1.2, 2.1, 0.5, 1.5])


@pytest.fixture
def torch_engine(engine_called: Callable[[str], Engine]) -> Engine:
    return engine_called("torch")


@pytest.mark.parametrize("index", ["::-1", "::-2", "3::-2", "-2:0:-1", ":1:-1", "None, ::-3"])
def test_negative_steps_are_numpys(
    torch_engine: Engine, ask: Callable[..., Any], index: str
) -> None:
    answer = ask(torch_engine, f"x[{index}] * 1.0", x=X)
    np.testing.assert_array_equal(answer.output, eval(f"x[{index}]", {"x": X}))


def test_second_axis_is_flipped_behind_an_ellipsis(
    torch_engine: Engine, ask: Callable[..., Any]
) -> None:
    m = np.arange(12.0).reshape(2, 2, 3)
    answer = ask(torch_engine, "m[..., 0, ::-2] * 1.0", m=m)
    np.testing.assert_array_equal(answer.output, m[..., 0, ::-2])


def test_second_derivative_of_abs_is_zero(torch_engine: Engine, ask: Callable[..., Any]) -> None:
    answer = ask(torch_engine, "sum(abs(x))", mode="reverse-over-reverse", x=X)
    assert answer.failure is None
    np.testing.assert_array_equal(answer.gradients["x.x"].values, np.zeros((5, 5)))


def test_forward_mode_leaves_the_environment_alone(
    torch_engine: Engine, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for setting in (None, "1"):
        if setting is None:
            monkeypatch.delenv("PYTORCH_JIT", raising=False)
        else:
            monkeypatch.setenv("PYTORCH_JIT", setting)
        assert ask(torch_engine, "exp(x)", mode="forward", x=1.0).failure is None
        assert os.environ.get("PYTORCH_JIT") == setting


def test_module_costs_no_framework() -> None:
    code = (
        "import sys\n"
        "from gradcheck_cli.engines.torch.engine import TorchEngine\n"
        "TorchEngine().capabilities\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_custom_gradient_that_returns_its_argument(
    torch_engine: Engine, ask: Callable[..., Any], program: Callable[..., Program]
) -> None:
    text = (
        "def f_vjp(upstream, x):\n    return 2 * upstream\n"
        "@custom_gradient(f_vjp)\ndef f(x):\n    return x\n"
        "f(x) * 3"
    )
    assert ask(torch_engine, text, x=1.0).gradients["x"].values.tolist() == [[6.0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f.triplet_margin_loss(torch.ones(2, 2), torch.ones(2), torch.ones(2, 2)),
        lambda f: f.scaled_dot_product_attention(*torch.ones(2, 2, 2), torch.ones(2)),
        lambda f: f.binary_cross_entropy(torch.tensor([1.5]), torch.ones(1)),
    ],
)
def test_shape_or_range_that_an_op_lacks_is_unsupported(call: Callable[[Any], Any]) -> None:
    with pytest.raises(RuntimeError) as caught:
        call(torch.nn.functional)
    assert TorchEngine().lacks(caught.value)
