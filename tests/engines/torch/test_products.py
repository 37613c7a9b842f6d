"""Derivatives of products: what is recorded is what runs when nobody watches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli import specfile
from gradcheck_cli.checks.protocol import drive
from gradcheck_cli.domain.search import KINDS, GradientRequest
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.kit.gradient_program import engine_program
from gradcheck_cli.search.box import domain_of
from gradcheck_cli.search.searching import Searching

FUNCTIONS: list[Callable[..., Any]] = [
    lambda torch, x: torch.prod(x),
    lambda torch, x: torch.prod(x, 0),
    lambda torch, x: torch.prod(x, 0, keepdim=True),
    lambda torch, x: torch.cumprod(x, 0),
]


@pytest.fixture
def derivative(engine_called: Callable[[str], Engine]) -> Callable[..., tuple[Any, Any]]:
    """derivative(function, x): the gradient of a call, and the record's own."""
    engine_called("torch")
    import torch

    from gradcheck_cli.engines.torch.recorder import TorchRecorder

    def found(function: Callable[..., Any], x: Any) -> tuple[Any, Any]:
        alone = x.clone().requires_grad_()
        (there,) = torch.autograd.grad(function(torch, alone).sum(), alone)
        recorder = TorchRecorder()
        watched = x.clone().requires_grad_()
        with recorder.recording():
            recorder.enter(0)
            y = recorder.leave(0, function(torch, recorder.watch(watched)))
            recorder.derive()
            torch.autograd.grad(y.sum(), watched)
        return there, recorder.execution

    return found


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_the_record_has_what_runs_without_it(
    derivative: Callable[..., tuple[Any, Any]], function: Callable[..., Any], dtype: str
) -> None:
    """Bit by bit, and in exact rows up to rounding."""
    import torch

    rng = np.random.default_rng(0)
    for size in (2, 3, 8, 17):
        x = torch.tensor(rng.uniform(0.3, 3, size) * rng.choice((-1, 1), size)).to(
            getattr(torch, dtype)
        )
        there, execution = derivative(function, x)
        (step,) = (one for one in execution.steps if one.name.endswith("prod_backward"))
        (here,) = step.low([execution.slots[slot].native for slot in step.args])
        assert torch.equal(here.flatten(), there)
        wide = step.wide([execution.values(slot) for slot in step.args])
        assert np.allclose(wide[0].ravel(), there.double(), rtol=0.1)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_beside_a_zero_the_record_is_as_it_was(
    derivative: Callable[..., tuple[Any, Any]], function: Callable[..., Any]
) -> None:
    import torch

    there, execution = derivative(function, torch.tensor([0.5, 0.0, 2.0]))
    assert not any(one.name.endswith("prod_backward") for one in execution.steps)
    assert torch.isfinite(there).all()


@pytest.mark.parametrize("model", ["prod(v)", "sum(cumprod(v))"])
@pytest.mark.parametrize("low", [0.5, -0.5])
def test_products_are_proven_away_from_0(
    engine_called: Callable[[str], Engine], model: str, low: float
) -> None:
    """Where a factor may be 0, or so small that the product underflows, they are not."""
    engine = engine_called("torch")
    text = f"inputs: {{v: {{value: [1, 1.5, 1.25], domain: [{low}, 2]}}}}\nmodel: {model}\n"
    (spec,), _ = specfile.read("here.yaml", text)
    domain = domain_of(spec.inputs, "float32")
    assert domain is not None

    def answer(question: Any) -> Any:
        if isinstance(question, GradientRequest):
            return engine_program(engine, question.problem)
        return engine.evaluate(question)

    searching = Searching(spec, "torch", domain, KINDS, 1.0, 0)
    drive(searching.look(), lambda ask: answer(ask.question))
    verdicts = {one.kind: one.verdict for one in searching.so_far().searches}
    proven = verdicts["gradient-inaccurate"] == "proven-absent"
    assert proven == (low > 0)
    assert verdicts["undefined"] == "proven-absent"
