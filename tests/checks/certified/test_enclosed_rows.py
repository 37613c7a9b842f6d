"""Large layers beside what is enclosed of their lifted programs: mistakes that no difference sees
are found, what is right has no finding, and differences decide where nothing can be enclosed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gradcheck_cli.checks.certified.enclosed_rows import compared
from gradcheck_cli.checks.large import projected as large
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.judge.gate import unexplained
from gradcheck_cli.truth.certified.enclosed_products import EnclosedArray
from tests.checks.making import examined
from tests.checks.wrong_functions import FlushedTail

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 40))
CERTIFIED = "certified, from the trace"


def sources(answer: LayerAnswer) -> set[str]:
    assert answer.failure is None, answer.failure
    return {check.truth for check in answer.checks}


def found(answer: LayerAnswer) -> set[tuple[str, str | None, str | None]]:
    return {(f.code, f.input, f.truth_source) for f in answer.findings}


class SmallBesideLarge(torch.autograd.Function):
    """1e7 x + sin(x), whose small part is wrong by a part in a thousand."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return 1e7 * x + torch.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 1e7 * g + 1.001 * g * torch.cos(x)


class Normalised(torch.autograd.Function):
    """Layer normalisation, whose backward forgets epsilon in one place."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
        ctx.save_for_backward(x - mean, var)
        return (x - mean) / torch.sqrt(var + 1e-10)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        centered, var = ctx.saved_tensors
        scale = torch.rsqrt(var + 1e-10)
        y = centered * torch.rsqrt(var)
        return scale * (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_tail_of_a_sigmoid_is_found_and_named(dtype: str) -> None:
    x = X.copy()
    x[3, 7] = -45.0
    answer = examined(FlushedTail, {"x": x}, dtype=dtype, modes=("reverse",))
    (finding,) = answer.findings
    assert finding.severity == "error"
    assert finding.truth_source == CERTIFIED
    assert finding.entries[0].index == (3, 7, 3, 7)
    assert finding.entries[0].truth == pytest.approx(np.exp(-45.0), rel=1e-6)
    assert not examined(FlushedTail, {"x": X}, dtype=dtype, modes=("reverse",)).findings


@pytest.mark.parametrize("layer", [SmallBesideLarge, Normalised])
def test_a_small_term_beside_a_large_one_is_found(layer: Any) -> None:
    answer = examined(layer, {"x": X}, modes=("reverse",))
    assert sources(answer) == {CERTIFIED}
    assert {code for code, _, source in found(answer) if source == CERTIFIED} & {"GC101", "GC301"}


def convolutions() -> nn.Module:
    """Dead windows of the pooling tie at 0, and nothing hangs on them."""
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, padding=1),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 5),
    )


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, activation="gelu")


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 10, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("make", "shape"),
    [(convolutions, (3, 2, 8, 8)), (encoder, (2, 6, 16)), (Recurrent, (3, 7, 6))],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_networks_are_certified_and_right(make: Any, shape: tuple[int, ...], dtype: str) -> None:
    torch.manual_seed(0)
    answer = examined(make(), {"x": RNG.standard_normal(shape)}, dtype=dtype)
    assert not answer.findings
    assert sources(answer) == {CERTIFIED}
    assert any("compared with certified products" in note for note in answer.notes)
    for check in answer.checks:
        assert check.caught is not None
        assert check.caught < 1e-5


def test_a_tail_of_terms_that_cancel_is_no_mistake() -> None:
    """1 + tanh(x) loses all digits far to the left, and so does its derivative, which is 1e-15."""

    def layer(x: Any) -> Any:
        return x * (1 + torch.tanh(x + 0.04 * x**3))

    x = X.copy()
    x[3, 7:12] = -5.5, -6.0, -6.5, -7.0, -9.0
    for dtype in ("float32", "float64"):
        answer = examined(layer, {"x": x}, dtype=dtype)
        assert not [f for f in answer.findings if f.severity == "error"]
        assert sources(answer) == {CERTIFIED}


class SlopeAtZero(torch.autograd.Function):
    """A relu with this slope at 0."""

    slope = 0.5

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.relu(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * torch.where(x == 0, SlopeAtZero.slope, (x > 0).to(g.dtype))


def test_entries_at_a_kink_alone_are_left_to_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    x = X.copy()
    x[3, 7] = 0.0
    for modes in [("reverse",), ("reverse", "forward")]:
        answer = examined(torch.relu, {"x": x}, modes=modes)
        assert {f.code for f in answer.findings} == {"GC401"}
        assert sources(answer) == {CERTIFIED}
        for check in answer.checks:
            passes = {one.rule: one.entries for one in check.passed_by}
            assert (passes["enclosed"], passes["products"]) == (X.size - 1, 1)
    monkeypatch.setattr(SlopeAtZero, "slope", 1.5)
    (finding,) = examined(SlopeAtZero, {"x": x}, modes=("reverse",)).findings
    assert (finding.code, finding.entries[0].index[-2:]) == ("GC101", (3, 7))


def test_a_kink_hides_no_mistake_elsewhere() -> None:
    """Which no difference sees, since it is small beside what is right."""
    x = X.copy()
    x[3, 7] = 0.0
    answer = examined(lambda x: SmallBesideLarge.apply(torch.relu(x)), {"x": x}, modes=("reverse",))
    assert {code for code, _, source in found(answer) if source == CERTIFIED} & {"GC101", "GC301"}


def test_leaves_that_are_right_beside_a_wrong_one_need_no_finding() -> None:
    def layer(x: Any, w: Any) -> Any:
        return torch.sin(x @ w.detach() + x @ w)

    inputs = {"x": X, "w": RNG.standard_normal((40, 10))}
    answer = examined(layer, inputs, modes=("reverse", "forward"))
    assert {f.input for f in answer.findings} == {"w"}
    assert not list(unexplained(answer.checks, answer.findings))


def test_what_left_the_framework_on_its_way_is_left_to_differences() -> None:
    def layer(x: Any) -> Any:
        return x * torch.sigmoid(torch.from_numpy(np.array(x.detach().numpy())))

    answer = examined(layer, {"x": X}, modes=("reverse",))
    assert CERTIFIED not in sources(answer)
    assert {f.code for f in answer.findings} == {"GC101"}


def test_a_lift_that_differences_contradict_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    x = X.copy()
    x[3, 7] = -20.0
    monkeypatch.setattr(large.EnclosedRows, "contradicted", lambda *_: True)
    answer = examined(SmallBesideLarge, {"x": x}, modes=("reverse",))
    assert CERTIFIED not in sources(answer)
    assert any("contradict" in note for note in answer.notes)


def test_bars_that_are_too_wide_are_left_to_differences() -> None:
    """Each step loses as many digits as it may: what is enclosed says less than differences do."""

    def layer(x: Any) -> Any:
        for _ in range(40):
            x = torch.tanh(1.5 * (x - x.mean(0)))
        return x

    answer = examined(layer, {"x": X[:10, :10]}, modes=("reverse",))
    assert CERTIFIED not in sources(answer)
    assert any("finite differences decide" in note for note in answer.notes)
    assert not any(f.severity == "error" for f in answer.findings)


def test_what_rounding_moves_as_far_is_excused_to_half_of_the_digits() -> None:
    right = EnclosedArray(np.ones(3), np.full(3, 1e-16))
    mine = np.array([1.0, 1 + 1e-10, 1 + 1e-3])
    everywhere = np.ones(3, np.bool_)
    half = np.full(3, 2.0**-26)
    strict = compared(mine, right, everywhere, lambda: np.zeros(3), half)
    assert strict.off.tolist() == [False, True, True]
    assert strict.worst.tolist() == [2, 1]
    noisy = compared(mine, right, everywhere, lambda: np.ones(3), half)
    assert noisy.off.tolist() == [False, False, True]
    assert noisy.limits[1] == pytest.approx(1e-10, rel=1e-5)
