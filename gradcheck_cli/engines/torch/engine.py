"""PyTorch: autograd for reverse mode, `torch.autograd.forward_ad` for forward mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode, Problem, TrainingProblem, modes_in
from gradcheck_cli.domain.placement import HOST
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import COMPILER, Capabilities
from gradcheck_cli.engines.kit.adapter import LoweredEngine
from gradcheck_cli.engines.kit.modes import Answer
from gradcheck_cli.engines.kit.patience import NO_COMPILER
from gradcheck_cli.engines.kit.walker import custom_gradients
from gradcheck_cli.engines.torch.compiled import (
    COMPILED_AUTOGRAD,
    INDUCTOR,
    STAGES,
    at_stage,
    settings_of_compiler_restored,
)
from gradcheck_cli.engines.torch.compiler import CompiledTorch, set_up
from gradcheck_cli.engines.torch.device_setup import placed
from gradcheck_cli.engines.torch.framework import Torch
from gradcheck_cli.engines.torch.ops import TABLE

if TYPE_CHECKING:
    from gradcheck_cli.engines.layer.subject import Subject, SubjectRequest

_THREADS = 2  # several engines share the machine, and specs are small


class TorchEngine(LoweredEngine):
    """PyTorch, on the CPU or on a GPU."""

    capabilities = Capabilities(
        name="torch",
        distributions=("torch",),
        install="pip install 'gradcheck-cli[torch]'",
        layers=True,
        orders=(1, 2, 3),
        kernels="gradcheck_cli.engines.torch.kernels",
        devices=("cpu", "cuda"),
    )
    table = TABLE
    placed = staticmethod(placed)
    lacking = (
        "not implemented for",
        "Low precision dtypes not supported",
        "dimensions of float, double",  # torch.linalg.pinv
        "expected to have the same number of dimensions",  # triplet_margin_loss
        "query, key, and value to all be",  # scaled_dot_product_attention
        "all elements of input should be between 0 and 1",  # binary_cross_entropy
    )

    def load(self) -> str:
        import torch

        torch.set_num_threads(_THREADS)
        return self._loaded(torch)

    def framework(self, dtype: str) -> Torch:
        return Torch(self._calls, dtype, self.placement.device)

    def differentiate(self, problem: Problem, answer: Answer) -> None:
        with self._on_device():
            super().differentiate(problem, answer)

    def descend(
        self, problem: TrainingProblem, losses: list[Array], path: dict[str, list[Array]]
    ) -> None:
        with self._on_device():
            super().descend(problem, losses, path)

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        """Run on this engine's device, in one thread. Operations that make arrays from nothing
        (`arange`) would otherwise run on the CPU, and threads would wait for each other, because
        the arrays of a spec are small."""
        import torch

        torch.set_num_threads(1)
        try:
            with nullcontext() if self.placement == HOST else torch.device(self.placement.device):
                yield
        finally:
            torch.set_num_threads(_THREADS)

    def refuses(self, program: Program, mode: Mode) -> str | None:
        """Why forward mode is impossible, or None. It needs the `jvp` of each
        `torch.autograd.Function`, and a `jvp` does not run under an outer forward mode
        (github.com/pytorch/pytorch/issues/197867)."""
        if "forward" not in modes_in(mode):
            return None
        for custom in custom_gradients(program):
            if custom.jvp is None:
                return (
                    f"PyTorch's forward mode needs a jvp for the custom gradient of `{custom.name}`"
                )
            if mode == "forward-over-forward":
                return f"PyTorch does not differentiate the jvp of `{custom.name}` in forward mode"
        return None

    def subject(self, request: SubjectRequest) -> Subject:
        from gradcheck_cli.engines.layer.reused_subjects import take
        from gradcheck_cli.engines.torch.layer import TorchSubject

        left = take(TorchSubject, request) if self.placement == HOST else None
        return left or TorchSubject(request, self.placement.device)

    @contextmanager
    def plainly(self) -> Iterator[None]:
        import torch

        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            for kind in {"cpu", self.placement.kind}:
                stack.enter_context(torch.autocast(kind, enabled=False))
            stack.enter_context(settings_of_compiler_restored())
            stack.enter_context(super().plainly())
            yield


class TorchCompileEngine(TorchEngine):
    """PyTorch with every derivative compiled by `torch.compile`. On a CPU, Inductor writes C++."""

    capabilities = replace(
        TorchEngine.capabilities,
        name="torch-compile",
        by_default=False,
        kernels="",
        tools=(COMPILER,),
        stages=(*STAGES, INDUCTOR),
    )

    def load(self) -> str:
        version = super().load()
        set_up()
        return version

    def refuses(self, program: Program, mode: Mode) -> str | None:
        """Why Dynamo cannot trace the program, or None. A custom gradient is a class made around
        the rule of the spec, and Dynamo only traces classes of modules."""
        custom = next(iter(custom_gradients(program)), None)
        if custom is not None:
            return f"torch.compile does not trace the custom gradient of `{custom.name}`"
        return None

    def subject(self, request: SubjectRequest) -> Subject:
        from gradcheck_cli.engines.torch.compiled_layer import CompiledTorchSubject

        if request.dtype != request.rounding:  # a second look at the layer as it was written
            return super().subject(request)
        return CompiledTorchSubject(request, self.placement.device)

    def framework(self, dtype: str) -> Torch:
        """Return plain PyTorch if nothing is compiled: the transforms of `CompiledTorch` do not
        nest without a compiler around them."""
        if self.stage == NO_COMPILER:
            return super().framework(dtype)
        return CompiledTorch(self._calls, dtype, self.placement.device)

    def differentiate(self, problem: Problem, answer: Answer) -> None:
        import torch

        with at_stage(torch, problem.stage):
            super().differentiate(problem, answer)


class TorchCompiledAutogradEngine(TorchCompileEngine):
    """PyTorch under `torch.compile`, with its backward pass compiled as a whole by compiled
    autograd. It supports first derivatives in reverse mode only."""

    capabilities = replace(
        TorchCompileEngine.capabilities,
        name="torch-compiled-autograd",
        modes=("reverse",),
        orders=(1,),
        stages=(*STAGES, INDUCTOR, COMPILED_AUTOGRAD),
    )

    def subject(self, request: SubjectRequest) -> Subject:
        from gradcheck_cli.engines.torch.compiled_autograd import CapturedTorchSubject

        if request.dtype != request.rounding:
            return super().subject(request)
        return CapturedTorchSubject(request, self.placement.device)

    def framework(self, dtype: str) -> Torch:
        from gradcheck_cli.engines.torch.compiled_autograd import CapturedTorch

        if self.stage not in ("", COMPILED_AUTOGRAD):
            return super().framework(dtype)
        return CapturedTorch(self._calls, dtype, self.placement.device)
