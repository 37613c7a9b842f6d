"""Pairs of NumPy functions: the operation that is to blame, in forward or in backward."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import gradcheck_cli
from gradcheck_cli.domain.report import Cause
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from gradcheck_cli.engines.numpy.recorder import NumpyRecorder
from tests.checks.making import causes_of, stretch


def causes(layer: Any, x: Any) -> set[Cause]:
    """Those of all errors in float32, each of which has one."""
    engine = NumpyEngine()
    engine.load()
    return causes_of(engine, "numpy", layer, x, "float32")


def recip(x: Any) -> Any:
    return 1 / np.exp(x)


def recip_back(up: Any, x: Any) -> Any:
    e = np.exp(x)
    return -up * e / (e * e)


def softmax(x: Any) -> Any:
    e = np.exp(x)
    y = e / e.sum(axis=-1, keepdims=True)
    return y, y


def softmax_back(up: Any, cache: Any) -> Any:
    dx = np.zeros(cache.shape, cache.dtype)
    for i in range(len(cache)):  # row by row, as people write it
        dx[i] = cache[i] * (up[i] - np.sum(up[i] * cache[i]))
    return dx


def in_place(x: Any) -> Any:
    y = x.copy()
    y *= 100
    np.exp(y, out=y)
    return 1 / y


def in_place_back(up: Any, x: Any) -> Any:
    e = np.exp(np.asarray(x) * 100)
    dx = np.empty_like(x)
    dx[:] = -up * 100 * e / e**2
    return dx


class Normal:
    """Variance as E[x^2] - E[x]^2; what backward needs is kept."""

    def __init__(self) -> None:
        self.gain = np.array([1.0, 2.0, 3.0])

    def forward(self, x: Any) -> Any:
        mean = x.mean()
        self.spread = np.sqrt((x * x).mean() - mean**2)
        self.normal = (x - mean) / self.spread
        return self.normal * self.gain

    def backward(self, up: Any) -> Any:
        self.dgain = up * self.normal
        bar = up * self.gain
        return (bar - bar.mean() - self.normal * (bar * self.normal).mean()) / self.spread


@pytest.mark.parametrize(
    ("layer", "x", "phase", "kind", "text"),
    [
        (
            SimpleNamespace(forward=recip, backward=recip_back),
            [60.0],
            "backward",
            "overflow",
            "e * e",
        ),
        (
            SimpleNamespace(forward=softmax, backward=softmax_back),
            [[100.0, 1.0], [1.0, 2.0]],
            "forward",
            "overflow",
            "np.exp(x)",
        ),
        (
            SimpleNamespace(forward=in_place, backward=in_place_back),
            [0.5],
            "backward",
            "overflow",
            "e**2",
        ),
        (
            Normal(),
            [1000.0, 1000.1, 1000.2],
            "forward",
            "cancellation",
            "(x * x).mean() - mean**2",
        ),
    ],
)
def test_the_operation_on_the_users_line(
    layer: Any, x: Any, phase: str, kind: str, text: str
) -> None:
    for cause in causes(layer, x):
        assert (cause.phase, cause.kind, stretch(cause)) == (phase, kind, text)
        assert cause.proven


def test_noted_arrays_compute_as_others_do() -> None:
    """Views share their memory, numbers decide, and what was written to is what it is then."""

    def code(x: Any) -> tuple[Any, ...]:
        first = x[0]
        first += 1
        y = np.concatenate([x.T, np.ones((2, 1), x.dtype)], axis=1).astype(np.float32)
        y[y > 2] = -1
        total = sum(float(one) for one in x.ravel()) if x.sum() > 0 else 0
        parts = [row.max() for row in y]
        return x, y, total, np.stack(parts), np.var(x, axis=0), x[[1, 0], 1:], x.argmax()

    x = np.array([[1.0, 2.0], [3.0, 0.5]])
    recorder = NumpyRecorder()
    noted = recorder.recorded(x.copy())
    with recorder.recording():
        found = code(noted)
    for mine, theirs in zip(found, code(x.copy()), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), theirs)
        assert np.asarray(mine).dtype == np.asarray(theirs).dtype
    assert np.zeros(2).__class__ is np.ndarray
    for step in recorder.execution.steps:  # and can be run again from what was written down
        again = step.low([recorder.execution.slots[slot].native for slot in step.args])
        for slot, value in zip(step.results, again, strict=True):
            np.testing.assert_array_equal(value, recorder.execution.slots[slot].native)


def test_a_zero_that_another_library_computed_may_be_lost_digits() -> None:
    """Of its operations nothing was seen: that exact ones give the same zero is not known."""

    class Saturated:
        def forward(self, x):
            self.x = torch.from_numpy(x.copy()).requires_grad_()
            return np.tanh(x)

        def backward(self, upstream):
            bar = torch.from_numpy(np.array(upstream))
            return torch.autograd.grad(torch.tanh(self.x), self.x, bar)[0].numpy()

    found = gradcheck_cli.check(Saturated(), np.array([29.0, 0.3])).findings
    assert {finding.code for finding in found if finding.severity == "error"} == {"GC302"}
