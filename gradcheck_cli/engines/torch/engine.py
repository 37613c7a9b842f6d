"""PyTorch: autograd for reverse mode, `torch.autograd.forward_ad` for forward mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode, Problem, TrainingProblem
from gradcheck_cli.domain.placement import HOST
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import Capabilities
from gradcheck_cli.engines.kit.adapter import LoweredEngine
from gradcheck_cli.engines.kit.device_setup import torch_placed
from gradcheck_cli.engines.kit.framework import Pushed, Taped
from gradcheck_cli.engines.kit.lowerings import Missing, bound
from gradcheck_cli.engines.kit.modes import Answer
from gradcheck_cli.engines.kit.startup import without_compiler, without_decompositions
from gradcheck_cli.engines.kit.walker import OPERATORS, Call, Rule, custom_gradients
from gradcheck_cli.engines.torch.ops import TABLE

if TYPE_CHECKING:
    from gradcheck_cli.engines.execution import Recorder
    from gradcheck_cli.engines.layer.subject import Subject, SubjectRequest

_THREADS = 2  # several engines share the machine, and specs are small
_LACKS = (  # how PyTorch says that an op has no kernel for a dtype
    "not implemented for",
    "Low precision dtypes not supported",
    "dimensions of float, double",  # torch.linalg.pinv
)


class TorchEngine(LoweredEngine):
    """PyTorch, on the CPU or on a GPU."""

    capabilities = Capabilities(
        name="torch",
        distributions=("torch",),
        install="pip install 'gradcheck-cli[torch]'",
        layers=True,
        devices=("cpu", "cuda"),
    )
    table = TABLE

    def __init__(self) -> None:
        super().__init__()
        self._settings = ExitStack()

    def load(self) -> str:
        import torch

        torch.set_num_threads(_THREADS)
        if self.placement != HOST:
            self._settings.enter_context(torch_placed(torch, self.placement))
        self._calls = {**OPERATORS, **bound(self.table, torch)}
        return str(torch.__version__)

    def framework(self, dtype: str) -> _Torch:
        return _Torch(self._calls, dtype, self.placement.device)

    def differentiate(self, problem: Problem, answer: Answer) -> None:
        with self._there():
            super().differentiate(problem, answer)

    def descend(
        self, problem: TrainingProblem, losses: list[Array], path: dict[str, list[Array]]
    ) -> None:
        with self._there():
            super().descend(problem, losses, path)

    def _there(self) -> AbstractContextManager[Any]:
        """Where operations make arrays of nothing (`arange`). On the CPU they do so anyway."""
        import torch

        return nullcontext() if self.placement == HOST else torch.device(self.placement.device)

    def close(self) -> None:
        self._settings.close()
        super().close()

    def refuses(self, program: Program, mode: Mode) -> str | None:
        """Forward mode through a `torch.autograd.Function` needs its `jvp`."""
        if not mode.startswith("forward"):
            return None
        for custom in custom_gradients(program):
            if custom.jvp is None:
                return (
                    "PyTorch's forward mode needs a stated jvp for the custom gradient of "
                    f"`{custom.name}`"
                )
        return None

    def subject(self, request: SubjectRequest) -> Subject:
        from gradcheck_cli.engines.torch.layer import TorchSubject

        return TorchSubject(request, self.placement.device)

    @contextmanager
    def plainly(self) -> Iterator[None]:
        import torch

        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            for kind in {"cpu", self.placement.kind}:
                stack.enter_context(torch.autocast(kind, enabled=False))
            if self.placement != HOST:
                stack.enter_context(torch_placed(torch, self.placement))
            yield

    def lacks(self, error: BaseException) -> bool:
        words = str(error)
        return isinstance(error, NotImplementedError) or any(phrase in words for phrase in _LACKS)


class _Torch(Taped):
    """PyTorch in one dtype on one device (`framework.Framework`)."""

    def __init__(
        self, table: Mapping[str, Call | Missing], dtype: str, device: str = HOST.device
    ) -> None:
        import torch

        self._torch = torch
        self._calls = table
        self._device = device
        self._dtype = getattr(torch, dtype)
        self.kinds = {"float": self._dtype, "int": torch.int64, "bool": torch.bool}

    def lowering(self, op: str) -> Call | Missing | None:
        return self._calls.get(op)

    def constant(self, value: bool | int | float, kind: str) -> Any:
        return self._torch.tensor(value, dtype=self.kinds[kind], device=self._device)

    def cast(self, array: Any, kind: str) -> Any:
        return array.to(self.kinds[kind])

    def array(self, values: Array) -> Any:
        # A copy, contiguous and writable: neither a read-only nor a strided array may leak in.
        tensor = self._torch.tensor(np.ascontiguousarray(values).reshape(np.shape(values)))
        wanted = self._dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.to(self._device, wanted)

    def leaf(self, values: Array) -> Any:
        return self.array(values).requires_grad_()

    def numpy(self, array: Any) -> Array:
        if array.dtype is self._torch.bfloat16:  # NumPy has none
            array = array.float()
        plain: Array = array.numpy(force=True)  # a derivative of sgn is a "ZeroTensor"
        return plain.astype(np.float64) if plain.dtype.kind == "f" else plain

    def dtype_of(self, array: Any) -> str:
        return str(array.dtype).removeprefix("torch.")

    def tape(self, sources: Sequence[Any]) -> nullcontext[tuple[_Graph, list[Any]]]:
        return nullcontext((_Graph(self._torch), list(sources)))

    @contextmanager
    def tangent(self, primal: Any, tangent: Any) -> Iterator[tuple[Any, Pushed]]:
        forward_ad = self._torch.autograd.forward_ad
        inside = primal.requires_grad  # of a graph, whose backward may be differentiated
        with forward_ad.dual_level(), without_compiler():
            with nullcontext() if inside else without_decompositions():
                dual = forward_ad.make_dual(primal, tangent)
            yield dual, lambda result: forward_ad.unpack_dual(result).tangent

    def descend(self, parameter: Any, gradient: Any, rate: float) -> Any:
        with self._torch.no_grad():
            return (parameter - rate * gradient).requires_grad_()

    def recorder(self) -> Recorder:
        from gradcheck_cli.engines.torch.recorder import TorchRecorder

        return TorchRecorder()

    def custom(self, rule: Rule) -> Call:
        return _function(self._torch, rule)


class _Graph:
    """PyTorch records by itself; a tape only has to ask."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def gradient(
        self, target: Any, sources: Sequence[Any], cotangent: Any, again: bool
    ) -> list[Any]:
        result: list[Any] = [None] * len(sources)
        connected = [i for i, source in enumerate(sources) if source.requires_grad]
        if not target.requires_grad or not connected:
            return result
        # <target, cotangent> has the same gradients to the last bit as `grad_outputs=cotangent`,
        # whose mere check of shapes imports sympy (0.3 s; torch/autograd/__init__.py, _make_grads).
        grads = self._torch.autograd.grad(
            (target * cotangent).sum(),
            [sources[i] for i in connected],
            retain_graph=True,
            create_graph=again,
            allow_unused=True,
        )
        for i, grad in zip(connected, grads, strict=True):
            result[i] = grad
        return result


def _function(torch: Any, rule: Rule) -> Call:
    """A `torch.autograd.Function` whose backward runs the stated rule in recorded ops, so that
    second derivatives go through it."""

    class Stated(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(*args: Any) -> Any:
            # A rule may hand an argument straight back; autograd wants a tensor of its own.
            value = rule.value(*args)
            return value.clone() if any(value is arg for arg in args) else value

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            return tuple(rule.pull(upstream, ctx.saved_tensors))

        if rule.jvp is not None:

            @staticmethod
            def jvp(ctx: Any, *tangents: Any) -> Any:
                args = ctx.saved_tensors
                moving = [
                    torch.zeros_like(arg) if tangent is None else tangent
                    for tangent, arg in zip(tangents, args, strict=True)
                ]
                return rule.push(moving, args)

    Stated.__name__ = rule.name
    apply: Call = Stated.apply
    return apply
