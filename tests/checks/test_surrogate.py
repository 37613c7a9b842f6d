"""A declared backward is held against what it declares, and nothing else is."""

import numpy as np
import torch
from torch import nn

from gradcheck_cli.domain.implementation import Surrogate
from gradcheck_cli.domain.layer import LayerAnswer
from tests.checks.making import SPAN, examined

X = {"x": np.array([0.3, 1.2, -0.6])}


def step(forward, backward):
    class Step(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, g):
            return backward(g, ctx.saved_tensors[0])

    return Step


ROUND = step(torch.round, lambda g, x: g)


def declared(formula: str, input: str | None = None) -> tuple[Surrogate, ...]:
    return (Surrogate(formula, "it has no slope of its own", SPAN, input),)


def codes(answer: LayerAnswer) -> list[str]:
    assert answer.failure is None, answer.failure
    return [finding.code for finding in answer.findings]


def test_straight_through() -> None:
    surrogates = declared("straight_through")
    assert codes(examined(ROUND, X)) == ["GC101"]
    answer = examined(ROUND, X, surrogates=surrogates)
    assert codes(answer) == []
    assert [(check.input, check.truth) for check in answer.checks] == [("x", "declared")]
    assert any("it has no slope of its own" in note for note in answer.notes)
    for size in (3, 2000):
        half = step(torch.round, lambda g, x: g * 0.9999)
        wrong = examined(half, {"x": np.linspace(0.1, 9, size)}, surrogates=surrogates)
        assert codes(wrong) == ["GC101"]
        assert "`straight_through` was declared" in wrong.findings[0].message
        assert wrong.findings[0].truth_source == "declared"


def test_the_derivative_of_a_formula() -> None:
    hard = step(torch.sign, lambda g, x: g * (x.abs() <= 1))
    assert codes(examined(hard, X, surrogates=declared("clip(x, -1, 1)"))) == []
    assert codes(examined(hard, X, surrogates=declared("clip(x, -2, 2)"))) == ["GC101"]
    at_kinks = {"x": np.array([-1.0, 0.0, 1.0])}
    assert codes(examined(hard, at_kinks, surrogates=declared("clip(x, -1, 1)"))) == ["GC401"]


def test_only_what_is_declared_is_let_off() -> None:
    class Quantised(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([3.0, 0.5, 2.0]))
            self.factor = factor

        def forward(self, x):
            weight = self.weight.detach() * (1 - self.factor) + self.weight * self.factor
            return ROUND.apply(x) * weight

    surrogates = declared("x * weight", "x")
    assert codes(examined(Quantised(1.0), X, surrogates=surrogates)) == []
    wrong = examined(Quantised(0.5), X, surrogates=surrogates, modes=("reverse",)).findings
    assert {(finding.code, finding.input) for finding in wrong} == {("GC101", "weight")}


def test_a_surrogate_that_is_the_derivative_is_told() -> None:
    told = [
        any("equals the derivative" in note for note in answer.notes)
        for answer in (
            examined(step(torch.sin, lambda g, x: g * x.cos()), X, surrogates=declared("sin(x)")),
            examined(ROUND, X, surrogates=declared("straight_through")),
        )
    ]
    assert told == [True, False]


def test_a_surrogate_that_cannot_be_meant() -> None:
    messages = {
        "`z` has no gradient": declared("straight_through", "z"),
        "unknown name `y`": declared("x * y"),
        "has shape ()": declared("sum(x)"),
    }
    for words, surrogates in messages.items():
        failure = examined(ROUND, X, surrogates=surrogates).failure
        assert failure is not None
        assert words in failure.message
    failure = examined(lambda x: x.sum(), X, surrogates=declared("straight_through")).failure
    assert failure is not None
    assert "`x` has 3 entries and the output 1" in failure.message
