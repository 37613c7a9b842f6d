"""The operations that a PyTorch layer runs, and the user's line of each. The recorder of formulas
is extended: it finds out itself which operations belong to which array.

Below autograd, the arguments of an operation still carry their `grad_fn`, so each autograd node is
identified by the array that it returned. A hook before the node sees the cotangent of that array.
The operations that run while the node is current compute the derivative of the array's operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.layer.custom import ForwardPass
from gradcheck_cli.engines.layer.recording import Annotations, Recording, Row, record
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.torch.calls import Call
from gradcheck_cli.engines.torch.compositions import unfused
from gradcheck_cli.engines.torch.custom_functions import (
    applied,
    around_calls,
    replaced_forward,
    without_ctx,
)
from gradcheck_cli.engines.torch.dispatch import WATCHER
from gradcheck_cli.engines.torch.kernels import PERMUTED_ARGS, ROWS
from gradcheck_cli.engines.torch.recorder import TorchRecorder, memory_of
from gradcheck_cli.engines.trace.exact_kernels import elementwise

_GIVES = "gradcheck slots"  # in the metadata of autograd's nodes: number of the output -> slot


class TorchLayerRecorder(TorchRecorder):
    """Records a user's code, including code of the user that runs in the backward pass."""

    def __init__(self, composed: bool = False) -> None:
        super().__init__(composed)
        self.annotations = Annotations(self.execution, row_of)
        self._places_of = Places(__name__, TorchRecorder.__module__, WATCHER)
        self._functions: list[Any] = []  # kept alive for their metadata
        self._memory: set[int] = set()  # of recorded tensors, which stay alive

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        if not self.composed:  # composed runs have no backward pass, and need no nodes
            for argument in tree_leaves((args, kwargs)):
                self.gives(argument)
        return super().run(func, args, kwargs)

    def leaves(self, arrays: Mapping[str, Any]) -> dict[str, int]:
        """The slots of the leaves with their present numbers: a captured tensor gets its own `data`
        back afterwards. Detaching is hidden from the recorder, because the layer does not do it."""
        with _disable_current_modes():
            kept = {name: tensor.detach() for name, tensor in arrays.items()}
        return {name: self.slot(tensor) for name, tensor in kept.items()}

    def output(self, array: Any) -> int:
        self.gives(array)
        return self.slot(array)

    def finish(self) -> None:
        """Do nothing: the owner of each step was known when it ran."""

    def gives(self, tensor: Any) -> None:
        """Record the autograd node that returned the tensor, if there is one."""
        function = tensor.grad_fn if isinstance(tensor, torch.Tensor) else None
        if function is None:
            return
        known = function.metadata.setdefault(_GIVES, {})
        if not known:
            self._functions.append(function)
        if tensor.output_nr not in known:
            known[tensor.output_nr] = self.slot(tensor)

    def derive(self) -> None:
        """Mark the start of the backward pass of the recorded operations."""
        super().derive()
        for function in self._functions:
            function.register_prehook(self._cotangents(function.metadata[_GIVES]))

    def functions(self) -> AbstractContextManager[None]:
        """Inside the block, record a user's `autograd.Function` whose forward leaves PyTorch, for
        example for NumPy, as one operation."""
        return around_calls(
            lambda cls: replaced_forward(cls, partial(self._forward, cls, cls.forward))
        )

    def _forward(self, cls: Any, forward: Callable[..., Any], *args: Any) -> Any:
        call, name = Call(*applied(cls, without_ctx(cls, args)), {}), f"{cls.__name__}.apply"
        return self.run_by_parts(name, name, call, lambda: forward(*args))

    def _cotangents(self, gives: Mapping[int, int]) -> Callable[[Sequence[Any]], None]:
        def hook(bars: Sequence[Any]) -> None:
            for place, slot in gives.items():
                if place < len(bars) and bars[place] is not None:
                    self.annotations.bars[slot] = self.slot(bars[place])

        return hook

    def _new(self, tensor: Any) -> int:
        memory = memory_of(tensor)
        if memory not in self._memory:  # a view has none of its own
            self._memory.add(memory)
            self.annotations.count(tensor.numel(), tensor.dtype)
        return super()._new(tensor)

    def _add(self, *call: Any) -> None:
        super()._add(*call)
        step = self.execution.steps[-1]
        step.place = self._places_of.running()
        row = row_of(step.name)
        step.elementwise = row is not None and elementwise(row.name)
        if not self.backward or step.place is not None:
            self.annotations.add(step, stated=self.backward)
            return
        function = torch._C._current_autograd_node()
        gives = {} if function is None else function.metadata.get(_GIVES, {})
        if gives:
            self.annotations.owners.append((step, gives[min(gives)]))


def record_forward(forward: ForwardPass, place: Span) -> Recording:
    """Record one forward pass, in operations that have rows as far as possible."""
    recorder = TorchLayerRecorder(composed=True)
    with unfused(), recorder.functions():
        return record(recorder, forward, place)


def row_of(name: str) -> Row | None:
    packet = name.split(".")[1] if name.startswith("aten.") else name
    packet = packet if packet in ROWS or packet in PERMUTED_ARGS else packet.removesuffix("_")
    if packet in PERMUTED_ARGS:
        return Row(*PERMUTED_ARGS[packet])
    return Row(ROWS[packet]) if packet in ROWS else None
