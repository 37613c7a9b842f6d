"""PyTorch in one dtype: arrays, and derivatives of functions of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.placement import HOST
from gradcheck_cli.engines.derivatives import (
    Arrays,
    Movable,
    Moved,
    TangentOf,
    Tape,
    TapeFramework,
    Targets,
)
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.kit.lowerings import Missing
from gradcheck_cli.engines.kit.walker import Call, Rule
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.torch.custom_operations import custom_operations_refusing
from gradcheck_cli.engines.torch.startup import Duals, without_compiler

if TYPE_CHECKING:
    from gradcheck_cli.engines.execution import Recorder


_WIDE = (np.dtype(np.float64), np.dtype(np.float32))  # the dtypes in which numbers are stored
_EXACT: AbstractContextManager[None] = nullcontext()  # around a conversion without rounding


class Torch(TapeFramework):
    """PyTorch in one dtype on one device (`framework.Framework`)."""

    def __init__(
        self, table: Mapping[str, Call | Missing], dtype: str, device: str = HOST.device
    ) -> None:
        import torch

        self._torch = torch
        self._calls = table
        self._device = device
        self._is_here = device == HOST.device
        self._dtype = getattr(torch, dtype)
        self._is_double = self._dtype is torch.float64
        self._levels = False
        self._level: Duals | None = None  # shared by several jvps
        self._of_numpy = {
            torch.float64: np.float64,
            torch.float32: np.float32,
            torch.float16: np.float16,
        }
        self.kinds = {"float": self._dtype, "int": torch.int64, "bool": torch.bool}

    def lowering(self, op: str) -> Call | Missing | None:
        return self._calls.get(op)

    def constant(self, value: bool | int | float, kind: str) -> Any:
        return self._torch.tensor(value, dtype=self.kinds[kind], device=self._device)

    def cast(self, array: Any, kind: str) -> Any:
        return array.to(self.kinds[kind])

    def array(self, values: Array) -> Any:
        # A copy, contiguous and writable: neither a read-only nor a strided array may leak in.
        values = np.asarray(values)
        if self._dtype in self._of_numpy and values.dtype in _WIDE:
            # Convert in one step: a second copy would take noticeable time.
            with _EXACT if self._is_double else np.errstate(over="ignore", under="ignore"):
                made = self._torch.from_numpy(
                    np.array(values, self._of_numpy[self._dtype], order="C")
                )
            return made if self._is_here else made.to(self._device)
        tensor = self._torch.tensor(np.ascontiguousarray(values).reshape(np.shape(values)))
        wanted = self._dtype if tensor.is_floating_point() else tensor.dtype
        is_there = wanted is tensor.dtype and self._is_here
        return tensor if is_there else tensor.to(self._device, wanted)

    def leaf(self, values: Array) -> Any:
        return self.array(values).requires_grad_()

    def numpy(self, array: Any) -> Array:
        if array.dtype is self._torch.bfloat16:  # NumPy has none
            array = array.float()
        plain: Array = array.numpy(force=True)  # a derivative of sgn is a "ZeroTensor"
        return plain.astype(np.float64) if plain.dtype.kind == "f" else plain

    def dtype_of(self, array: Any) -> str:
        return str(array.dtype).removeprefix("torch.")

    def tape(self, sources: Sequence[Any]) -> AbstractContextManager[tuple[Tape, list[Any]]]:
        return nullcontext((Graph(self._torch), list(sources)))

    def tangent(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> AbstractContextManager[tuple[list[Any], TangentOf]]:
        if self._level is None:
            return self._at_a_level(primals, tangents)
        return nullcontext(self._duals_of(primals, tangents, self._level))

    @contextmanager
    def _at_a_level(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> Iterator[tuple[list[Any], TangentOf]]:
        with _level(self._torch) as duals:
            yield self._duals_of(primals, tangents, duals)

    def _duals_of(
        self, primals: Sequence[Any], tangents: Sequence[Any], duals: Duals
    ) -> tuple[list[Any], TangentOf]:
        # primals in a graph, whose backward may be differentiated
        inside = any(primal.requires_grad for primal in primals)
        make = self._torch.autograd.forward_ad.make_dual if inside else duals.make
        moved = [
            x if x_dot is None else make(x, x_dot, level=duals.level)
            for x, x_dot in zip(primals, tangents, strict=True)
        ]
        return moved, duals.tangent_of

    @contextmanager
    def forward_level(self) -> Iterator[None]:
        """Let all jvps inside the block share one level of dual numbers: to begin and end a level
        takes longer than a small call."""
        with _level(self._torch) as duals, temporarily(self, _level=duals):
            yield

    def nested(self) -> AbstractContextManager[Any]:
        """Use the nested levels of `torch.func`. `torch.autograd.forward_ad` has only one level,
        and some of its results cannot be differentiated again (softmax)."""
        return temporarily(self, _levels=True)

    def jvp(self, function: Movable, primals: Arrays, tangents: Arrays) -> Moved:
        if not self._levels:
            return super().jvp(function, primals, tangents)
        try:
            with without_compiler(), custom_operations_refusing():
                return self.pushed(function, primals, tangents)
        except RuntimeError as error:
            if "setup_context" not in str(error):  # `torch.func` does not support the function
                raise
            return super().jvp(function, primals, tangents)

    def pushed(self, function: Movable, primals: Arrays, tangents: Arrays) -> Moved:
        """The jvp by `torch.func.jvp`."""
        parts = Parts()
        moved, own, along = _of_moving(function, primals, tangents)
        targets, pushed, rest = self._torch.func.jvp(
            lambda *duals: parts.arrays_of(moved(*duals)), own, along, has_aux=True
        )
        return parts.targets(targets), parts.targets(pushed), parts.rest(rest)

    def descend(self, parameter: Any, gradient: Any, rate: float) -> Any:
        with self._torch.no_grad():
            return (parameter - rate * gradient).requires_grad_()

    def recorder(self) -> Recorder:
        if self._levels:  # recording may crash the process
            raise Unsupported("no operations are recorded inside `torch.func`")
        from gradcheck_cli.engines.torch.recorder import TorchRecorder

        return TorchRecorder()

    def custom(self, rule: Rule) -> Call:
        return _function(self._torch, rule)


@contextmanager
def _level(torch: Any) -> Iterator[Duals]:
    """A level of dual numbers."""
    levels = torch.autograd.forward_ad
    with levels.dual_level() as level, without_compiler(), custom_operations_refusing():
        yield Duals.of(torch, level)


class Graph:
    """A `Tape` for PyTorch, which records every operation itself."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def gradient(
        self, targets: Arrays, sources: Arrays, cotangents: Arrays, again: bool
    ) -> list[Any]:
        result: list[Any] = [None] * len(sources)
        connected = [i for i, source in enumerate(sources) if source.requires_grad]
        pairs = zip(targets, cotangents, strict=True)
        used = [(y, y_bar) for y, y_bar in pairs if y.requires_grad]
        if not used or not connected:
            return result
        outputs, bars = zip(*used, strict=True)
        grads = self._of_connected(outputs, [sources[i] for i in connected], bars, again)
        for i, grad in zip(connected, grads, strict=True):
            result[i] = grad
        return result

    def _of_connected(
        self, targets: Sequence[Any], sources: Sequence[Any], cotangents: Sequence[Any], again: bool
    ) -> Sequence[Any]:
        """The gradients of targets with respect to sources, all of which require a gradient; None
        for a source that no target depends on."""
        # <target, cotangent> has the same gradients to the last bit as `grad_outputs=cotangent`,
        # whose mere check of shapes imports sympy (0.3 s; torch/autograd/__init__.py, _make_grads).
        return self._torch.autograd.grad(
            [(y * y_bar).sum() for y, y_bar in zip(targets, cotangents, strict=True)],
            sources,
            retain_graph=True,
            create_graph=again,
            allow_unused=True,
        )


def _function(torch: Any, rule: Rule) -> Call:
    """A `torch.autograd.Function` whose backward runs the custom rule in recorded operations, so
    that it can be differentiated again."""

    class Stated(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(*args: Any) -> Any:
            # A rule may return an argument; autograd requires a new tensor.
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
    return Stated.apply


def _of_moving(
    function: Callable[[list[Any]], Targets], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Callable[..., Targets], tuple[Any, ...], tuple[Any, ...]]:
    """The function of only those primals that have a tangent, as `torch.func.jvp` requires,
    followed by these primals and their tangents."""
    moving = [i for i, x_dot in enumerate(tangents) if x_dot is not None]

    def moved(*some: Any) -> Targets:
        duals = list(primals)
        for i, moving_one in zip(moving, some, strict=True):
            duals[i] = moving_one
        return function(duals)

    own, along = (tuple(arrays[i] for i in moving) for arrays in (primals, tangents))
    return moved, own, along


class Parts:
    """Converts the results of a function to the form that `torch.func` requires, arrays without
    None, and back. The function's own arrays belong to an inner level of the transforms; the
    transform returns the ones to use."""

    def __init__(self) -> None:
        self._targets: list[bool] = []  # whether each is an array
        self._rest: list[bool] | None = None

    def arrays_of(self, found: Targets) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        targets, rest = found
        self._targets = [part is not None for part in targets]
        self._rest = None if rest is None else [part is not None for part in rest]
        return _arrays_in(targets), _arrays_in(rest or ())

    def targets(self, arrays: Sequence[Any]) -> list[Any]:
        return _in_places(self._targets, arrays)

    def rest(self, arrays: Sequence[Any]) -> tuple[Any, ...] | None:
        return None if self._rest is None else tuple(_in_places(self._rest, arrays))


def _arrays_in(parts: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(part for part in parts if part is not None)


def _in_places(is_array: Sequence[bool], arrays: Sequence[Any]) -> list[Any]:
    remaining = iter(arrays)
    return [next(remaining) if one else None for one in is_array]
