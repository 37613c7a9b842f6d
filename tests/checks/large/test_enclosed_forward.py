"""Forward mode of large layers, output by output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.checks.making import examined

X = np.random.default_rng(0).standard_normal((50, 40))
X[3, 7] = -45.0


class Sigmoid(torch.autograd.Function):
    """Its jvp is cut off where the value is below `least`."""

    least = 0.0

    @staticmethod
    def forward(x: Any) -> Any:
        return torch.sigmoid(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * y * (1 - y)

    @staticmethod
    def jvp(ctx: Any, x_dot: Any) -> Any:
        (y,) = ctx.saved_tensors
        return torch.where(y < Sigmoid.least, torch.zeros_like(y), x_dot * y * (1 - y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_right_jvp_is_certified(dtype: str) -> None:
    answer = examined(Sigmoid, {"x": X}, dtype=dtype)
    assert not answer.findings
    assert {(c.mode, c.truth) for c in answer.checks} == {
        ("reverse", "certified, from the trace"),
        ("forward", "certified, from the trace"),
    }
    assert all(check.caught is not None and check.caught < 1e-10 for check in answer.checks)


def test_waves_of_a_transform_are_constants() -> None:
    """Cosines of parts of a turn, of which no length but 1, 2, 3, 4 and 6 has simple ones alone."""

    def spectrogram(x: Any) -> Any:
        window = torch.hann_window(20, dtype=x.dtype)
        frames = torch.stft(x, 20, hop_length=10, window=window, return_complex=True)
        return torch.log1p(frames.abs() ** 2) + torch.fft.rfft(x, 70, norm="ortho").imag.sum()

    answer = examined(spectrogram, {"x": X[0]}, dtype="float64")
    assert not answer.findings
    assert {check.truth for check in answer.checks} == {"certified, from the trace"}


class Cancelling(Sigmoid):
    """x (1 + tanh(x)), whose jvp takes 1 - tanh(x)^2, of which nothing is left far to the left."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * (1 + torch.tanh(x))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return Cancelling.jvp(ctx, g)

    @staticmethod
    def jvp(ctx: Any, x_dot: Any) -> Any:
        (x,) = ctx.saved_tensors
        y = torch.tanh(x)
        return x_dot * (1 + y + x * (1 - y * y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_digits_that_are_lost_are_not_called_wrong(dtype: str) -> None:
    x = X.copy()
    x[3, 7:12] = -16.0, -17.0, -18.0, -18.5, -18.8
    answer = examined(Cancelling, {"x": x}, dtype=dtype, modes=("forward",))
    assert not answer.findings


def test_a_small_tangent_that_is_flushed_is_not_passed_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Sigmoid, "least", 1e-16)
    answer = examined(Sigmoid, {"x": X}, dtype="float64", modes=("forward",))
    assert not answer.findings
    assert any("no right digit in 1 of 2000 entries" in note for note in answer.notes)


def test_an_output_whose_tangent_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    x = X.copy()
    x[3, 7] = -10.0
    monkeypatch.setattr(Sigmoid, "least", 1e-4)
    (found,) = examined(Sigmoid, {"x": x}).findings
    assert (found.code, found.mode, found.input) == ("GC101", "forward", "x")
    assert found.truth_source == "certified, from the trace"
    assert "off in 1 of 2000 entries: entry 127 is 0" in found.message
