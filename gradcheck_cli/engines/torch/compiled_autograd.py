"""PyTorch's compiled autograd: the backward pass is captured as one graph, into which the compiled
parts of the forward pass are unpacked, and compiled as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradcheck_cli.engines.derivatives import Arrays, Tape
from gradcheck_cli.engines.torch.compiled import COMPILED_AUTOGRAD
from gradcheck_cli.engines.torch.compiled_layer import CompiledTorchSubject
from gradcheck_cli.engines.torch.compiler import CompiledTorch
from gradcheck_cli.engines.torch.framework import Torch
from gradcheck_cli.engines.torch.passes import CompiledLayerTorch


class _Captured(Torch):
    """PyTorch that captures its backward passes while `captures` is true."""

    captures = True

    @contextmanager
    def tape(self, sources: Sequence[Any]) -> Iterator[tuple[Tape, list[Any]]]:
        with super().tape(sources) as (tape, watched):
            yield _CapturedTape(self, tape), watched


class _CapturedTape:
    def __init__(self, fw: _Captured, tape: Tape) -> None:
        self._fw = fw
        self._tape = tape

    def gradient(
        self, targets: Arrays, sources: Arrays, cotangents: Arrays, again: bool
    ) -> list[Any]:
        arguments = targets, sources, cotangents, again
        if not self._fw.captures:
            return self._tape.gradient(*arguments)
        import torch
        from torch._dynamo.compiled_autograd import _enable

        # `torch._dynamo.config.compiled_autograd` does the same around compiled code.
        with _enable(torch.compile, dynamic=False):
            return self._tape.gradient(*arguments)


class CapturedTorch(_Captured, CompiledTorch):
    """Captures the backward passes of formulas."""


class CapturedLayerTorch(_Captured, CompiledLayerTorch):
    """Captures the backward passes of layers."""


class CapturedTorchSubject(CompiledTorchSubject):
    """A user's layer under `torch.compile`, with its backward pass under compiled autograd."""

    framework = CapturedLayerTorch
    more_stages = (COMPILED_AUTOGRAD,)
    fw: CapturedLayerTorch

    @contextmanager
    def at_stage(self, stage: str) -> Iterator[None]:
        self.fw.captures = stage in ("", COMPILED_AUTOGRAD)
        try:
            with super().at_stage(stage):
                yield
        finally:
            self.fw.captures = True
