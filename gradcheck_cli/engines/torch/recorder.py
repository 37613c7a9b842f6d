"""Records what PyTorch executes: every ATen operation of the forward pass and of the derivative.

A `TorchDispatchMode` sees below autograd which operations really run, also in the backward pass and
for tangents (on the CPU both run in the calling thread). An array is identified by its memory:
address, shape, strides and dtype. The record keeps all arrays alive, so that no address is reused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch

from gradcheck_cli.domain.dtypes import FloatFormat
from gradcheck_cli.engines.execution import Execution, Observer, Step, format_named
from gradcheck_cli.engines.torch import products
from gradcheck_cli.engines.torch.calls import Call, Conversions, pairs, tensors, written_positions
from gradcheck_cli.engines.torch.compositions import composition, users_implementation
from gradcheck_cli.engines.torch.dispatch import OperationMode
from gradcheck_cli.engines.torch.kernels import DATA_MOVEMENT, EXACT_SELECTIONS, RANDOM, ZEROS
from gradcheck_cli.engines.trace.exact_kernels import OfRun

_TAG = "gradcheck node"  # in the metadata of autograd's nodes


class TorchRecorder(Observer):
    """Implements `execution.Recorder` for PyTorch."""

    def __init__(self, composed: bool = False) -> None:
        """`composed`: record operations without rows as the operations into which PyTorch
        decomposes them."""
        self.composed = composed
        self.execution = Execution(Conversions())
        self._places: dict[tuple[Any, ...], int] = {}
        self._tagged: list[Any] = []  # kept alive for their metadata

    @contextmanager
    def recording(self) -> Iterator[None]:
        with _Mode(self, self.composed):
            yield

    def watch(self, array: Any) -> Any:
        self.slot(array)
        return array

    def slot_of(self, array: Any) -> int | None:
        return self._places.get(_identity(array))

    def leave(self, node: int, value: Any) -> Any:
        """Assign to `node` the autograd nodes from this value down to the nodes that are assigned
        already."""
        waiting = [getattr(value, "grad_fn", None)]
        while waiting:
            function = waiting.pop()
            if function is None or _TAG in function.metadata:
                continue
            function.metadata[_TAG] = node
            self._tagged.append(function)
            if function.name() in products.NAMES:
                products.Product(self.execution, self.slot, function, node)
            waiting.extend(following for following, _ in function.next_functions)
        return value

    def slot(self, tensor: Any) -> int:
        """The slot of a tensor; a new one if the tensor was not seen before."""
        key = _identity(tensor)
        slot = self._places.get(key)
        if slot is None:
            slot = self._places[key] = self._new(tensor)
        return slot

    def _new(self, tensor: Any) -> int:
        return self.execution.add_slot(tensor, _format_of(tensor.dtype))

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the operation and record it."""
        call = Call(func, args, kwargs)
        if call.is_meta():
            return func(*args, **kwargs)
        slots = tuple([self._argument_slot(x) for x in call.given])
        places = written_positions(func)
        changed = [args[i] for i in places if i < len(args)] if places else []
        before = [self._overwrite(tensor) for tensor in changed]
        result = func(*args, **kwargs)
        made = list(tensors(result))
        if not made or made[0].is_meta:
            return result
        name = _packet(func)
        if name in ZEROS:
            for y in made:
                self.execution.slots[self.slot(y)].structural = True
        elif name in RANDOM or call.takes_memory():  # another run would differ
            for y in made:
                self._result_slot(y)
        elif changed or not all(_identity(y) in self._places for y in made):
            if changed:
                name = name.removesuffix("_")
            moves = name in DATA_MOVEMENT or (getattr(func, "is_view", False) and name != "_conj")
            # The owner of a changed tensor may replace its memory later.
            kept = [y.detach() if any(y is one for one in changed) else y for y in made]
            self._add(
                _name(func), name, moves, slots, tuple([self._result_slot(y) for y in kept]), call
            )
        for tensor, others in zip(changed, before, strict=True):
            self._scatter(tensor, others)
        return result

    def run_by_parts(self, shown: str, name: str, call: Call, run: Callable[[], Any]) -> Any:
        """Run a function whose operations are recorded. If they do not lead from its arguments to
        its results, as where NumPy computes them, record the function as one operation."""
        inputs = [self._argument_slot(x) for x in call.given]
        start, versions = len(self.execution.steps), [x._version for x in call.given]
        result = run()
        made = list(tensors(result))
        if versions == [x._version for x in call.given] and not self._leads(start, inputs, made):
            slots = tuple([self._result_slot(y) for y in made])
            self._add(shown, name, False, tuple(inputs), slots, call)
        return result

    def _leads(self, start: int, given: Sequence[int], made: Sequence[Any]) -> bool:
        """Whether recorded steps, from `start` on, lead from some of the given slots to each of
        these arrays."""
        for slot in map(self.slot_of, made):
            reached = {slot}
            for step in reversed(self.execution.steps[start:]):
                if not reached.isdisjoint(step.results):
                    reached.update(step.args)
            if reached.isdisjoint(given):
                return False
        return True

    def _argument_slot(self, x: Any) -> int:
        return self.slot(x) if isinstance(x, torch.Tensor) else self.execution.add_slot(x, None)

    def _result_slot(self, tensor: Any) -> int:
        slot = self._places[_identity(tensor)] = self._new(tensor)
        return slot

    def _add(
        self,
        shown: str,
        name: str,
        moves: bool,
        args: tuple[int, ...],
        results: tuple[int, ...],
        call: Call,
    ) -> None:
        self.execution.add_step(
            Step(
                name=shown,
                args=args,
                results=results,
                low=call.low,
                live=call.live,
                wide=call.wide,
                exact=call.exact(name, moves, partial(_of_run, self.execution, args, results)),
                moves=moves or name in EXACT_SELECTIONS,
                elementwise=call.pointwise,
                node=self._owner(),
                phase=self.phase,
            )
        )

    def _owner(self) -> int | None:
        if not self.backward:
            return self.node
        function = torch._C._current_autograd_node()
        return None if function is None else function.metadata.get(_TAG)

    def _overwrite(self, tensor: Any) -> list[tuple[Any, int]]:
        """Copy what this tensor's memory holds before a write, so that it stays in the record.
        Returns the other arrays in that memory, each with the slot of its numbers so far."""
        others = []
        for key, slot in list(self._places.items()):
            kept = self.execution.slots[slot]
            if memory_of(kept.native) == memory_of(tensor):
                if key != _identity(tensor):
                    others.append((kept.native, slot))
                kept.native = kept.native.detach().clone()
                del self._places[key]
        return others

    def _scatter(self, part: Any, others: list[tuple[Any, int]]) -> None:
        """Record a write to a tensor for all arrays that share its memory, whatever their layout.
        Arrays in other parts of the memory are unchanged."""
        written = _offsets(part)
        for tensor, slot in others:
            around = _offsets(tensor)
            if not torch.isin(around, written).any():
                self.execution.slots[slot].native = tensor
                self._places[_identity(tensor)] = slot
                continue
            args = (slot, self.slot(part))
            first = torch.minimum(around.min(), written.min())
            call = Call(partial(_into, around - first, written - first), (tensor, part), {})
            self._add("copy_", "copy_", True, args, (self._result_slot(tensor),), call)


def _offsets(tensor: Any) -> Any:
    """The offset in memory of each real number of a tensor."""
    tensor = _real(tensor)
    offsets = torch.tensor(tensor.storage_offset())
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        offsets = offsets[..., None] + stride * torch.arange(size)
    return offsets


def _real(tensor: Any) -> Any:
    return pairs(tensor) if tensor.is_complex() else tensor


def _into(around: Any, written: Any, tensor: Any, part: Any) -> Any:
    """The tensor after the part was written to its offsets in the same memory."""
    values = _real(tensor)
    memory = values.new_zeros(int(max(around.max(), written.max())) + 1)
    memory[around] = values
    memory[written] = _real(part).to(memory.dtype)
    return torch.view_as_complex(memory[around]) if tensor.is_complex() else memory[around]


class _Mode(OperationMode):
    """Passes every operation to the recorder."""

    def __init__(
        self, recorder: TorchRecorder, composed: bool, open: frozenset[Any] = frozenset()
    ) -> None:
        """`open`: the operations that are being run by their parts. A part of the same name runs as
        one operation."""
        super().__init__()
        self._recorder = recorder
        self._composed = composed
        self._open = open

    def operation(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        recorder = self._recorder
        if not self._composed or func in self._open:
            return recorder.run(func, args, kwargs)
        parts = composition(func, args, kwargs)
        if parts is not None:
            with self._inside(func):
                result = parts(*args, **kwargs)
            return recorder.run(func, args, kwargs) if result is NotImplemented else result
        users = users_implementation(func)
        if users is None:
            return recorder.run(func, args, kwargs)
        with self._inside(func):
            call, run = Call(func, args, kwargs), partial(users, *args, **kwargs)
            return recorder.run_by_parts(_name(func), _packet(func), call, run)

    def _inside(self, func: Any) -> _Mode:
        """The mode in which the parts of an operation run."""
        return _Mode(self._recorder, True, self._open | {func})


@cache
def _format_of(dtype: Any) -> FloatFormat | None:
    return format_named(str(dtype).removeprefix("torch."))


@cache
def _name(func: Any) -> str:
    return str(func).removesuffix(".default")


@cache
def _packet(func: Any) -> str:
    """The name of an ATen operation; for other libraries with their namespace in front."""
    name: str = func.overloadpacket.__name__
    return name if func.namespace == "aten" else f"{func.namespace}::{name}"


def _of_run(execution: Execution, args: tuple[int, ...], results: tuple[int, ...]) -> OfRun:
    """The numbers of a step in its run. A method of the recorder would keep it, and all that it
    recorded, as long as the step."""
    values = execution.values
    return OfRun([values(slot) for slot in args], [values(slot) for slot in results])


def _identity(tensor: Any) -> tuple[Any, ...]:
    key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
    return (*key, tensor.is_conj()) if tensor.is_complex() else key


def memory_of(tensor: Any) -> int:
    """The address of the storage of a tensor. A tensor without memory shares it with no other."""
    address: int = tensor.untyped_storage().data_ptr() if tensor.data_ptr() else 0
    return address or -id(tensor)
