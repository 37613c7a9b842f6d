"""A mistake of gradcheck's own is GC706, whatever was looked at when it happened."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.checks import examination, subjects
from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.engines.jax.engine import JaxEngine
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from gradcheck_cli.engines.torch.engine import TorchEngine
from gradcheck_cli.engines.torch.layer import TorchSubject
from tests.checks.making import layer_problem, subject_of, torch_engine
from tests.every import first


class Halved(torch.autograd.Function):
    """A sine whose backward is half of the right one, and writes to what it is given."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, y_bar: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return y_bar.mul_(0.5) * x.cos()


class Clipped(torch.autograd.Function):
    """A sine whose backward is no linear function of what it is given, and is differentiated
    wrongly."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, y_bar: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return y_bar.clamp(-1.5, 1.5) * (2 * x.cos() - x.detach().cos())


def halved(x: torch.Tensor) -> torch.Tensor:
    return Halved.apply(x)


def clipped(x: torch.Tensor) -> torch.Tensor:
    return Clipped.apply(x).sum()


def cast(x: torch.Tensor) -> torch.Tensor:
    return Halved.apply(x.float()).to(x.dtype)


def mistaken(*_: Any, **__: Any) -> Any:
    """What raises in gradcheck's own code."""
    return FORMATS["float32"].ulp(np.array(["a"]))


def unnamed(where: str) -> Any:
    """What reads a name that nobody defined, in a module of gradcheck."""
    defined: dict[str, Any] = {}
    file = importlib.import_module(where).__file__
    exec(compile("def function(*_, **__):\n    return nobody", str(file), "exec"), defined)
    return defined["function"]


def answer(layer: Any, **options: Any) -> LayerAnswer:
    problem = layer_problem(layer, {"x": [0.3, 1.2]}, dtype=options.pop("dtype", "float64"))
    return examine(torch_engine(), replace(problem, **options))


def is_mistake(found: LayerAnswer) -> bool:
    if found.failure is not None:
        return found.failure.kind == "internal"
    return "GC706" in {finding.code for finding in found.findings}


SECOND = {"modes": ("reverse", "reverse-over-reverse")}
PLACES = [
    (TorchSubject, "casts", halved, {}),
    (TorchSubject, "functions", halved, {}),
    (TorchSubject, "functions", clipped, {"behaviour": True}),
    (TorchSubject, "hvp", clipped, SECOND),
    (TorchSubject, "jvp", torch.sin, {"behaviour": True}),
    (examination, "draws_other_numbers", halved, {}),
    (subjects, "draws_other_numbers", cast, {}),
    (subjects, "draws_other_numbers", halved, {"dtype": "float32"}),
]


@pytest.mark.parametrize(("owner", "name", "layer", "options"), first(4, PLACES))
def test_a_mistake_of_ours_is_said(
    owner: Any, name: str, layer: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_mistake(answer(layer, **options))
    monkeypatch.setattr(owner, name, mistaken)
    assert is_mistake(answer(layer, **options))


class Product:
    def forward(self, x: Any) -> Any:
        self.x = x
        return x * x

    def backward(self, y_bar: Any) -> Any:
        return 2 * self.x * y_bar


@pytest.mark.parametrize(
    ("make", "layer"),
    [
        (TorchEngine, lambda x: x * x),
        (JaxEngine, lambda x: x * x),
        (TensorFlowEngine, lambda x: x * x),
        (NumpyEngine, Product),
    ],
)
def test_a_name_that_nobody_defined_is_ours_beside_what_users_wrote(
    make: Any, layer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make()
    engine.load()
    problem = layer_problem(layer, {"x": [0.3, 1.2]}, engine=engine.capabilities.name)
    found = examine(engine, problem)
    assert found.failure is None
    subject = type(subject_of(engine, layer, x=[0.3, 1.2]))
    monkeypatch.setattr(subject, "call", unnamed(subject.__module__))
    assert is_mistake(examine(engine, problem))
