"""What PyTorch composes its operations of, in a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradcheck_cli.engines.base import Engine


@pytest.fixture
def names(engine_called: Callable[[str], Engine]) -> Callable[..., list[str]]:
    """names(function, composed): the operations that it runs, as they are recorded."""
    engine_called("torch")
    import torch

    from gradcheck_cli.engines.torch.compositions import unfused
    from gradcheck_cli.engines.torch.recorder import TorchRecorder

    def recorded(function: Callable[[Any], Any], composed: bool = True) -> list[str]:
        recorder = TorchRecorder(composed)
        x = torch.ones(2, 4, dtype=torch.float64, requires_grad=True)
        with recorder.recording(), unfused():
            function(x)
        return [step.name for step in recorder.execution.steps]

    return recorded


def test_operation_without_rows_is_its_parts(names: Callable[..., list[str]]) -> None:
    from torch.nn.functional import soft_margin_loss

    assert names(lambda x: soft_margin_loss(x, x.detach()), False)[-1] == "aten.soft_margin_loss"
    found = names(lambda x: soft_margin_loss(x, x.detach()))
    assert {"aten.exp", "aten.log1p", "aten.mean"} <= set(found)


def test_operation_with_rows_stays_whole(names: Callable[..., list[str]]) -> None:
    from torch.nn.functional import gelu

    assert names(gelu) == ["aten.gelu"]


def test_operation_that_its_own_parts_run_is_recorded(names: Callable[..., list[str]]) -> None:
    """The parts of copysign end in one operation under PyTorch's decompositions, which runs it."""
    import torch

    assert "aten.nextafter" in names(lambda x: torch.nextafter(x, x))


def test_recurrent_cell_and_attention_are_not_fused(names: Callable[..., list[str]]) -> None:
    import torch

    cell = torch.nn.LSTM(4, 2).double()
    attention = torch.nn.functional.scaled_dot_product_attention
    found = [
        *names(lambda x: cell(x[None])),
        *names(lambda x: attention(x[None], x[None], x[None])),
    ]
    assert "aten._safe_softmax" in found or "aten._softmax" in found
    assert "aten.tanh" in found
    assert not [name for name in found if "mkldnn" in name or "attention" in name]


def test_encoder_in_inference_is_not_fused(names: Callable[..., list[str]]) -> None:
    import torch

    encoder = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).double().eval()
    with torch.no_grad():
        assert "aten.native_layer_norm" in names(lambda x: encoder(x[None]))
    assert torch.backends.mha.get_fastpath_enabled()
