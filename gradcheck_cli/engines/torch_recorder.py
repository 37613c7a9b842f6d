"""What PyTorch executes: every ATen operation of the forward pass and of the derivative.

A `TorchDispatchMode` sees below autograd what is really run, in the backward pass and for tangents
too (on the CPU both run in the calling thread). An array is known again by its memory: address,
shape, strides and dtype; the record holds on to all of it, so that no address is used twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.exact_kernels import moved, on_balls
from gradcheck_cli.engines.execution import Execution, High, Observer, Step, format_named
from gradcheck_cli.engines.torch_exact import HANDED_ON, KERNELS, MOVES, ZEROS

Rebuild = Callable[[Sequence[Any], bool], tuple[Any, Any]]

_TAG = "gradcheck node"  # in the metadata of autograd's nodes


class _Conversions:
    def numpy(self, array: Any) -> Array:
        plain = array.detach()
        if plain.is_floating_point():
            plain = plain.to(torch.float64)
        result: Array = plain.numpy(force=True)
        return result

    def native(self, values: Array, like: Any) -> Any:
        return torch.tensor(np.ascontiguousarray(values)).reshape(values.shape).to(like.dtype)


class TorchRecorder(Observer):
    """`execution.Recorder` of PyTorch."""

    def __init__(self) -> None:
        self.execution = Execution(_Conversions())
        self._places: dict[tuple[Any, ...], int] = {}
        self._node: int | None = None
        self._backward = False
        self._tagged: list[Any] = []  # held, so that their metadata stays

    @contextmanager
    def recording(self) -> Iterator[None]:
        with _Mode(self):
            yield

    def watch(self, array: Any) -> Any:
        self.slot(array)
        return array

    def slot_of(self, array: Any) -> int | None:
        return self._places.get(_identity(array))

    def enter(self, node: int) -> None:
        self._node = node

    def leave(self, node: int, value: Any) -> Any:
        """Autograd's nodes from this value down to those of earlier nodes are the node's."""
        waiting = [getattr(value, "grad_fn", None)]
        while waiting:
            function = waiting.pop()
            if function is None or _TAG in function.metadata:
                continue
            function.metadata[_TAG] = node
            self._tagged.append(function)
            waiting.extend(following for following, _ in function.next_functions)
        return value

    def derive(self) -> None:
        self._node = None
        self._backward = True

    def slot(self, tensor: Any) -> int:
        """The slot of a tensor; of one that was not seen yet, a new one."""
        key = _identity(tensor)
        if key not in self._places:
            self._places[key] = self._new(tensor)
        return self._places[key]

    def _new(self, tensor: Any) -> int:
        name = str(tensor.dtype).removeprefix("torch.")
        return self.execution.add_slot(tensor, format_named(name))

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The operation, written down."""
        leaves, spec = tree_flatten((args, kwargs))
        if any(isinstance(a, torch.Tensor) and a.is_meta for a in leaves):
            return func(*args, **kwargs)
        slots, rebuild = self._arguments(leaves, spec, _numbers(func, args))
        written = [args[i] for i in _written(func) if i < len(args)]
        before = [self._overwrite(tensor) for tensor in written]
        result = func(*args, **kwargs)
        tensors = [y for y in tree_flatten(result)[0] if isinstance(y, torch.Tensor)]
        if not tensors or tensors[0].is_meta:
            return result
        name = func.overloadpacket.__name__
        if name in ZEROS:
            for y in tensors:
                self.execution.slots[self.slot(y)].structural = True
        elif written or any(_identity(y) not in self._places for y in tensors):
            if written:
                name = name.removesuffix("_")
            made = tuple(self._made(y) for y in tensors)
            self._add(_name(func), name, slots, made, func, rebuild)
            for tensor, others in zip(written, before, strict=True):
                self._scatter(tensor, others)
        return result

    def _made(self, tensor: Any) -> int:
        slot = self._places[_identity(tensor)] = self._new(tensor)
        return slot

    def _add(
        self,
        shown: str,
        name: str,
        args: tuple[int, ...],
        results: tuple[int, ...],
        func: Any,
        rebuild: Rebuild,
    ) -> None:
        moves = name in MOVES or getattr(func, "is_view", False)
        self.execution.add_step(
            Step(
                name=shown,
                args=args,
                results=results,
                low=partial(_low, func, rebuild),
                wide=partial(_wide, func, rebuild),
                exact=_exact(name, moves, func, rebuild),
                moves=moves or name in HANDED_ON,
                node=self._owner(),
                phase="backward" if self._backward else "forward",
            )
        )

    def _owner(self) -> int | None:
        if not self._backward:
            return self._node
        function = torch._C._current_autograd_node()
        found: int | None = None if function is None else function.metadata.get(_TAG)
        return found

    def _arguments(
        self, leaves: list[Any], spec: TreeSpec, numbers: set[int]
    ) -> tuple[tuple[int, ...], Rebuild]:
        """The slots of the arrays and numbers that go in, and how a call is made of others in their
        place (True: what names a floating dtype names float64)."""
        holes = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) or i in numbers]
        slots = tuple(
            self.execution.add_slot(leaves[i], None) if i in numbers else self.slot(leaves[i])
            for i in holes
        )
        rest = [None if i in holes else leaf for i, leaf in enumerate(leaves)]

        def rebuild(given: Sequence[Any], widened: bool) -> tuple[Any, Any]:
            filled = [_widened(x) for x in rest] if widened else list(rest)
            for i, x in zip(holes, given, strict=True):
                filled[i] = x
            call: tuple[Any, Any] = tree_unflatten(filled, spec)
            return call

        return slots, rebuild

    def _overwrite(self, tensor: Any) -> list[tuple[Any, int]]:
        """This tensor's memory will be written to: what was there stays in the record. Gives the
        other arrays in that memory, each with the slot of its numbers so far."""
        others = []
        for key, slot in list(self._places.items()):
            kept = self.execution.slots[slot]
            if _memory(kept.native) == _memory(tensor):
                if key != _identity(tensor):
                    others.append((kept.native, slot))
                kept.native = kept.native.detach().clone()
                del self._places[key]
        return others

    def _scatter(self, written: Any, others: list[tuple[Any, int]]) -> None:
        """What was written into a view stands in the arrays around it. Those of other layouts are
        taken as they are from here on."""
        for tensor, slot in others:
            offset = written.storage_offset() - tensor.storage_offset()
            inside = tensor.is_contiguous() and offset >= 0 and tensor.numel() > written.numel()
            if inside:
                geometry = tuple(written.shape), tuple(written.stride()), offset
                args = (slot, self.slot(written))
                made = (self._made(tensor),)
                self._add("copy_", "copy_", args, made, partial(_into, geometry), _as_given)


def _into(geometry: tuple[Any, ...], around: Any, part: Any) -> Any:
    whole = around.contiguous().clone()
    whole.as_strided(*geometry).copy_(part)
    return whole


def _as_given(given: Sequence[Any], widened: bool) -> tuple[Any, Any]:
    return tuple(given), {}


class _Mode(TorchDispatchMode):  # type: ignore[misc]
    """Hands every operation to the recorder."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here, and to keep the compiler away it would be imported first: two
        seconds."""
        return False

    def __init__(self, recorder: TorchRecorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._recorder.run(func, args, kwargs or {})


def _name(func: Any) -> str:
    return str(func).removesuffix(".default")


def _identity(tensor: Any) -> tuple[Any, ...]:
    return (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)


def _memory(tensor: Any) -> int:
    """The memory that a tensor is a part of; a tensor without any is alone with itself."""
    address: int = tensor.untyped_storage().data_ptr() if tensor.data_ptr() else 0
    return address or -id(tensor)


def _written(func: Any) -> list[int]:
    """The positions of the arguments that the operation writes to."""
    arguments = func._schema.arguments if func._schema.is_mutable else ()
    return [i for i, a in enumerate(arguments) if a.alias_info and a.alias_info.is_write]


@cache
def _takes_arrays(func: Any) -> tuple[bool, ...]:
    """Of each argument, whether it is an array, or a number in an array's place."""
    return tuple(str(argument.type) in ("Tensor", "number") for argument in func._schema.arguments)


def _numbers(func: Any, args: Any) -> set[int]:
    """The leaves that are numbers where an array could stand."""
    found = set()
    position = 0
    for array, given in zip(_takes_arrays(func), args, strict=False):
        if array and isinstance(given, (int, float)):
            found.add(position)
        position += len(tree_flatten(given)[0]) if isinstance(given, (list, tuple)) else 1
    return found


def _widened(x: Any) -> Any:
    return torch.float64 if isinstance(x, torch.dtype) and x.is_floating_point else x


def _fresh(x: Any) -> Any:
    """A kernel may write to what it is given."""
    return x.detach().clone() if isinstance(x, torch.Tensor) else x


def _results(result: Any) -> list[Any]:
    return [y for y in tree_flatten(result)[0] if isinstance(y, torch.Tensor)]


def _low(func: Any, rebuild: Rebuild, given: Sequence[Any]) -> list[Any]:
    args, kwargs = rebuild([_fresh(x) for x in given], False)
    with torch.no_grad():
        return _results(func(*args, **kwargs))


def _wide(func: Any, rebuild: Rebuild, given: Sequence[Any]) -> list[Array]:
    tensors = [
        x if isinstance(x, (int, float)) else torch.tensor(np.ascontiguousarray(x)).reshape(x.shape)
        for x in given
    ]
    args, kwargs = rebuild(tensors, True)
    with torch.no_grad():
        return [y.numpy(force=True) for y in _results(func(*args, **kwargs))]


def _exact(
    name: str, moves: bool, func: Any, rebuild: Rebuild
) -> Callable[[Sequence[High]], list[High]] | None:
    if moves:
        return partial(moved, partial(_wide, func, rebuild))
    kernel = KERNELS.get(name)
    if kernel is None:
        return None

    def on_given(*given: Any) -> Any:
        args, kwargs = rebuild(given, False)
        return kernel(*args, **kwargs)

    return partial(on_balls, on_given)
