"""PyTorch: autograd for reverse mode, `torch.autograd.forward_ad` for forward mode."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.adapter import ProgramEngine
from gradcheck_cli.engines.base import Capabilities
from gradcheck_cli.engines.framework import Pushed
from gradcheck_cli.engines.walker import OPERATORS, Lowering, Rule, custom_gradients

_THREADS = 2  # several engines share the machine, and specs are small
_DECOMPOSITIONS = "PYTORCH_JIT"  # what torch.autograd.forward_ad asks before it imports them


class TorchEngine(ProgramEngine):
    """PyTorch on the CPU."""

    capabilities = Capabilities(
        name="torch", distributions=("torch",), install="pip install 'gradcheck-cli[torch]'"
    )

    def load(self) -> str:
        import torch

        torch.set_num_threads(_THREADS)
        self._table = _table(torch)
        return str(torch.__version__)

    def framework(self, dtype: str) -> _Torch:
        return _Torch(self._table, dtype)

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

    def lacks(self, error: BaseException) -> bool:
        return isinstance(error, NotImplementedError) or "not implemented for" in str(error)


class _Torch:
    """PyTorch in one dtype (`framework.Framework`)."""

    def __init__(self, table: Mapping[str, Lowering], dtype: str) -> None:
        import torch

        self._torch = torch
        self._table = table
        self._dtype = getattr(torch, dtype)
        self._kinds = {"float": self._dtype, "int": torch.int64, "bool": torch.bool}

    def lowering(self, op: str) -> Lowering | None:
        return self._table.get(op)

    def constant(self, value: bool | int | float, kind: str) -> Any:
        return self._torch.tensor(value, dtype=self._kinds[kind])

    def cast(self, array: Any, kind: str) -> Any:
        return array.to(self._kinds[kind])

    def array(self, values: Array) -> Any:
        # A copy, contiguous and writable: neither a read-only nor a strided array may leak in.
        tensor = self._torch.tensor(np.ascontiguousarray(values).reshape(np.shape(values)))
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    def leaf(self, values: Array) -> Any:
        return self.array(values).requires_grad_()

    def numpy(self, array: Any) -> Array:
        plain = array.detach()
        if plain.is_floating_point():
            plain = plain.to(self._torch.float64)
        result: Array = plain.numpy(force=True)  # a derivative of sgn is a "ZeroTensor"
        return result

    def dtype_of(self, array: Any) -> str:
        return str(array.dtype).removeprefix("torch.")

    def tape(self, sources: Sequence[Any]) -> nullcontext[tuple[_Graph, list[Any]]]:
        return nullcontext((_Graph(self._torch), list(sources)))

    @contextmanager
    def tangent(self, primal: Any, tangent: Any) -> Iterator[tuple[Any, Pushed]]:
        forward_ad = self._torch.autograd.forward_ad
        # Decompositions serve the forward derivative of some backward formulas (softmax). Their
        # import costs as much as a small run, and a primal outside any graph cannot need them.
        plain = not primal.requires_grad
        with forward_ad.dual_level():
            with _without_decompositions() if plain else nullcontext():
                dual = forward_ad.make_dual(primal, tangent)
            yield dual, lambda result: forward_ad.unpack_dual(result).tangent

    def inner(self, a: Any, b: Any) -> Any:
        return (a * b).sum()

    def descend(self, parameter: Any, gradient: Any, rate: float) -> Any:
        with self._torch.no_grad():
            return (parameter - rate * gradient).requires_grad_()

    def custom(self, rule: Rule) -> Lowering:
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


@contextmanager
def _without_decompositions() -> Iterator[None]:
    before = os.environ.get(_DECOMPOSITIONS)
    os.environ[_DECOMPOSITIONS] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_DECOMPOSITIONS]
        else:
            os.environ[_DECOMPOSITIONS] = before


def _function(torch: Any, rule: Rule) -> Lowering:
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
    apply: Lowering = Stated.apply
    return apply


def _axes(axis: int | tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """The reduced axes, counted from 0, in order."""
    if axis is None:
        return tuple(range(rank))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(sorted(a % rank for a in given))


def _table(torch: Any) -> dict[str, Lowering]:
    """The op table in PyTorch's own words: what a user would call."""
    functional = torch.nn.functional

    def reduction(call: Callable[..., Any]) -> Lowering:
        def reduce(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
            if axis is None and not keepdims:
                return call(x)
            return call(x, dim=_axes(axis, x.ndim), keepdim=keepdims)

        return reduce

    def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if axis is None and not keepdims:
            return torch.prod(x)
        for dim in reversed(_axes(axis, x.ndim)):  # torch.prod takes one axis at a time
            x = torch.prod(x, dim=dim, keepdim=keepdims)
        return x

    def logsumexp(x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
        return torch.logsumexp(x, dim=_axes(axis, x.ndim), keepdim=keepdims)

    def norm(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        dim = None if axis is None else _axes(axis, x.ndim)
        return torch.linalg.vector_norm(x, dim=dim, keepdim=keepdims)

    def transpose(x: Any, axes: Any = None) -> Any:
        return torch.permute(x, tuple(reversed(range(x.ndim))) if axes is None else tuple(axes))

    def squeeze(x: Any, axis: Any = None) -> Any:
        return torch.squeeze(x) if axis is None else torch.squeeze(x, dim=_axes(axis, x.ndim))

    def expand_dims(x: Any, axis: Any) -> Any:
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        rank = x.ndim + len(axes)
        for dim in sorted(a % rank for a in axes):
            x = torch.unsqueeze(x, dim)
        return x

    return {
        **OPERATORS,
        "matmul": lambda x, y: x @ y,
        "exp": torch.exp,
        "log": torch.log,
        "log1p": torch.log1p,
        "expm1": torch.expm1,
        "sqrt": torch.sqrt,
        "square": torch.square,
        "sin": torch.sin,
        "cos": torch.cos,
        "tan": torch.tan,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "softplus": functional.softplus,
        "relu": torch.relu,
        "erf": torch.erf,
        "abs": torch.abs,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "where": torch.where,
        "clip": torch.clamp,
        "sum": reduction(torch.sum),
        "mean": reduction(torch.mean),
        "max": reduction(torch.amax),
        "min": reduction(torch.amin),
        "prod": prod,
        "logsumexp": logsumexp,
        "softmax": lambda x, axis=-1: torch.softmax(x, dim=axis),
        "log_softmax": lambda x, axis=-1: torch.log_softmax(x, dim=axis),
        "norm": norm,
        "reshape": lambda x, shape: torch.reshape(x, (shape,) if isinstance(shape, int) else shape),
        "transpose": transpose,
        "broadcast_to": lambda x, shape: torch.broadcast_to(
            x, (shape,) if isinstance(shape, int) else shape
        ),
        "expand_dims": expand_dims,
        "squeeze": squeeze,
        "concatenate": lambda *xs, axis=0: torch.cat(xs, dim=axis),
        "stack": lambda *xs, axis=0: torch.stack(xs, dim=axis),
        "getitem": _getitem(torch),
        "stop_gradient": lambda x: x.detach(),
        "logical_and": torch.logical_and,
        "logical_or": torch.logical_or,
        "logical_not": torch.logical_not,
    }


def _getitem(torch: Any) -> Lowering:
    def getitem(x: Any, index: tuple[Any, ...]) -> Any:
        """PyTorch's slices have positive steps only: a negative one flips that axis first."""
        used = sum(part is not None and part is not Ellipsis for part in index)
        axis = 0
        parts: list[Any] = []
        for part in index:
            if part is Ellipsis:
                axis += x.ndim - used
            elif isinstance(part, slice) and part.step is not None and part.step < 0:
                size = x.shape[axis]
                taken = range(*part.indices(size))
                x = torch.flip(x, (axis,))
                first = size - 1 - taken.start
                part = slice(first, first + len(taken) * -part.step, -part.step)
                axis += 1
            elif part is not None:
                axis += 1
            parts.append(part)
        return x[tuple(parts)]

    return getitem
