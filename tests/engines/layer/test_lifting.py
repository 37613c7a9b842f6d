"""A recorded forward becomes a program that computes the layer, or is refused by name."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gradcheck_cli.domain.layer import word_of
from gradcheck_cli.engines.layer import recording
from gradcheck_cli.engines.layer.lifting import MOST_NODES, NotLifted
from gradcheck_cli.engines.torch import kernels
from tests.checks.making import assert_computes, subject_of, torch_engine

X = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.6]])


def cut(x: Any) -> Any:
    y = x * 2 if x.sum() > 0 else x
    return y[:, 1:].reshape(-1)


def put(x: Any) -> Any:
    """By masks that depend on x, of which one selects nothing."""
    y = torch.zeros_like(x)
    y[x > 0] = x[x > 0].exp()
    y[x < -9] = x[x < -9].log()
    return y


def looped(x: Any) -> Any:
    for _ in range(3):
        x = torch.sin(x) + 0.1 * x.mean()
    return x


class Stated(torch.autograd.Function):
    """Its backward is wrong, which its forward does not care about."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.exp(-x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


@pytest.mark.parametrize(
    "layer",
    [
        torch.exp,
        cut,
        put,
        looped,
        Stated.apply,
        lambda x: torch.stack([x[0], x[1] * x[0]]).softmax(-1).log(),
        lambda x: (x.T @ x).flatten()[:4] / x.norm(),
        lambda x: torch.where(x > 0, x, x.exp() - 1).cumsum(0),
        lambda x: (torch.relu(x), x.mean(0)),
        lambda x: torch.nn.functional.layer_norm(x, (3,)),
    ],
)
def test_the_program_computes_the_layer_here_and_nearby(layer: Callable[..., Any]) -> None:
    subject = subject_of(torch_engine(), layer, x=X)
    lifted = subject.lift()
    for there in (X, X + 1e-3):
        assert_computes(lifted, subject, {"x": there}, rtol=1e-13, atol=1e-15)


def test_parameters_are_inputs_by_their_words() -> None:
    torch.manual_seed(0)
    subject = subject_of(torch_engine(), nn.Sequential(nn.Linear(3, 2), nn.Tanh()), x=X)
    lifted = subject.lift()
    assert set(lifted.program.inputs) >= {"x", word_of("0.weight"), word_of("0.bias")}
    assert_computes(lifted, subject, {"0.bias": np.array([1.0, -1.0])})


def test_leaves_and_views_are_no_numbers_that_a_recording_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The input and its transpose have the memory that the layer has anyway."""
    monkeypatch.setattr(recording, "MOST_NUMBERS", 0)
    assert subject_of(torch_engine(), lambda x: 2 * x.T.T, x=X).lift()
    subject = subject_of(torch_engine(), lambda x: 2 * x.T + 1, x=X)
    with pytest.raises(recording.TooLarge, match=r"more than 6e\+00 numbers"):
        subject.lift()


def test_a_recording_is_freed_with_its_program() -> None:
    subject = subject_of(torch_engine(), looped, x=X)
    kept: list[weakref.ref[Any]] = []
    record = subject.record_forward

    def recorded() -> Any:
        found = record()
        kept.extend(weakref.ref(slot.native) for slot in found.execution.slots[-1:])
        return found

    subject.record_forward = recorded
    gc.collect()
    gc.disable()
    try:
        assert subject.lift().islands == ()
        (result,) = kept
        assert result() is None
    finally:
        gc.enable()


def test_a_node_has_the_line_of_the_user() -> None:
    lifted = subject_of(torch_engine(), looped, x=X).lift()
    node = next(node for node in lifted.program.nodes if node.op == "sin")
    assert node.source is not None
    assert "torch.sin(x)" in node.source.line(node.span.line)


def test_an_operation_without_rows_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(kernels.KERNELS, "sin")
    with pytest.raises(NotLifted, match=r"no formula for .*sin`") as refused:
        subject_of(torch_engine(), looped, x=X).lift().without_islands()
    assert refused.value.place is not None


def test_rows_that_compute_something_else_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kernels.KERNELS, "sin", kernels.KERNELS["cos"])
    with pytest.raises(NotLifted, match="sin` does not reproduce its result"):
        subject_of(torch_engine(), looped, x=X).lift()


def test_what_is_too_long_is_refused() -> None:
    def long(x: Any) -> Any:
        for _ in range(MOST_NODES + 1):
            x = torch.sin(x)
        return x

    with pytest.raises(NotLifted, match=f"more than {MOST_NODES} operations"):
        subject_of(torch_engine(), long, x=X).lift()


def test_a_layer_of_constants_has_no_program() -> None:
    with pytest.raises(NotLifted, match="leads from an input to the output"):
        subject_of(torch_engine(), lambda x: torch.ones(2) + 0, x=X).lift()


def test_rows_are_compared_where_their_numbers_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kernels.KERNELS, "sin", kernels.KERNELS["neg"])
    with pytest.raises(NotLifted, match="sin` does not reproduce its result"):
        subject_of(torch_engine(), torch.sin, x=np.array([1e-300])).lift()


def test_only_results_that_are_read_are_compared() -> None:
    """A determinant keeps factors for its backward, which here are rounding errors alone."""
    singular = np.array([[0.1, 0.7, 0.3], [0.2, 1.4, 0.6], [0.5, -0.3, 0.4]])
    lifted = subject_of(torch_engine(), torch.linalg.det, x=singular).lift()
    assert [node.op for node in lifted.program.nodes[:2]] == ["input", "det"]


@pytest.mark.parametrize("layer", [torch.add, torch.sub, lambda a, b: torch.exp(-a) + b])
def test_masks_that_were_cast_are_numbers(layer: Callable[..., Any]) -> None:
    def masked(x: Any) -> Any:
        return x * layer((x > 0).to(x.dtype), (x < 1).to(x.dtype))

    subject = subject_of(torch_engine(), masked, x=X)
    assert_computes(subject.lift(), subject, {"x": X})
