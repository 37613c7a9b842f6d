"""Calls of ATen operations that can be repeated on other arrays or in higher precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.execution import High
from gradcheck_cli.engines.torch.kernels import CHOSEN, FOURIER, KERNELS
from gradcheck_cli.engines.trace.exact_kernels import OfRun, is_general, on_balls, on_places, row

_AS_BITS = torch.ops.aten.view.dtype

Hole = tuple[int | str, int | None]
"""The position or name of an argument and, for a list of arrays, an index into it."""


class Conversions:
    """Implements `execution.Conversions` for PyTorch."""

    def numpy(self, array: Any) -> Array:
        if array.dtype is torch.bfloat16:  # NumPy has none
            array = array.float()
        if array.is_complex():
            array = pairs(array)
        plain: Array = array.numpy(force=True)
        return np.asarray(plain, np.float64) if plain.dtype.kind == "f" else plain

    def native(self, values: Array, like: Any) -> Any:
        tensor = (
            torch.view_as_complex(as_tensor(values)) if like.is_complex() else as_tensor(values)
        )
        return tensor.to(like.device, like.dtype)


class Call:
    """An operation and its arguments. Arrays, and numbers in place of arrays, are holes that
    other values can fill; `given` holds the values of this call. An argument of ATen is at most
    a list."""

    def __init__(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._func = func
        self.pointwise = torch.Tag.pointwise in getattr(func, "tags", ())
        self._args = list(args)
        self._kwargs = dict(kwargs)
        self._holes: list[Hole] = []
        self.given: list[Any] = []
        numbers = takes_arrays(func)
        for i, x in enumerate(args):
            if isinstance(x, (int, float)):
                if i < len(numbers) and numbers[i]:
                    self._holes.append((i, None))
                    self.given.append(x)
            else:
                self._take(i, x)
        for name, x in kwargs.items():
            self._take(name, x)

    def _take(self, place: int | str, x: Any) -> None:
        """Record the arrays in an argument."""
        if isinstance(x, torch.Tensor):
            self._holes.append((place, None))
            self.given.append(x)
        elif isinstance(x, (list, tuple)):
            within = [k for k, one in enumerate(x) if isinstance(one, torch.Tensor)]
            self._holes += [(place, k) for k in within]
            self.given += [x[k] for k in within]

    def is_meta(self) -> bool:
        """Whether an argument is a meta tensor, which has a shape and no numbers."""
        return any(isinstance(x, torch.Tensor) and x.is_meta for x in self.given)

    def takes_memory(self) -> bool:
        """Whether an argument is raw memory, whose content depends on the dtype."""
        return any(isinstance(x, torch.UntypedStorage) for x in self._args)

    def is_complex(self) -> bool:
        """Whether an argument is a complex array or number."""
        return any(isinstance(x, complex) for x in (*self._args, *self._kwargs.values())) or any(
            isinstance(x, torch.Tensor) and x.is_complex() for x in self.given
        )

    def _filled(self, given: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        args, kwargs = list(self._args), dict(self._kwargs)
        for (place, k), x in zip(self._holes, given, strict=True):
            where: Any = args if isinstance(place, int) else kwargs
            if k is None:
                where[place] = x
            else:
                where[place] = [*where[place][:k], x, *where[place][k + 1 :]]
        return args, kwargs

    def low(self, given: Sequence[Any]) -> list[Any]:
        with torch.no_grad():
            return self.live(self._copied_if_written(given))

    def live(self, given: Sequence[Any]) -> list[Any]:
        """Run the operation. Autograd records it if its arguments are in the graph."""
        args, kwargs = self._filled(given)
        return list(tensors(self._func(*args, **kwargs)))

    def wide(self, values: Sequence[Any]) -> list[Array]:
        if self._func is _AS_BITS:  # in the dtypes of the call
            narrow = [as_tensor(x).to(y) for x, y in zip(values, self.given, strict=True)]
            return [y.numpy(force=True) for y in self.low(narrow)]
        numbers = [_like(x, y) for x, y in zip(values, self.given, strict=True)]
        args, kwargs = self._filled(self._copied_if_written(numbers))
        args = [_widened(x) for x in args]
        kwargs = {name: _widened(x) for name, x in kwargs.items()}
        with torch.no_grad():
            made = tensors(self._func(*args, **kwargs))
            return [(pairs(y) if y.is_complex() else y).numpy(force=True) for y in made]

    def _copied_if_written(self, values: Sequence[Any]) -> Sequence[Any]:
        """Copy the arguments if the operation writes to any of them."""
        if not (hasattr(self._func, "_schema") and _of_operation(self._func).mutable):
            return values
        return [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in values]

    def exact(
        self, name: str, moves: bool, run: Callable[[], OfRun]
    ) -> Callable[[Sequence[High]], list[High]] | None:
        """The operation on arrays of `arb`, or None if there is no exact kernel. Choices that the
        run made by its numbers are kept."""
        if moves and self._func is not _AS_BITS:
            is_view = getattr(self._func, "is_view", False)
            return partial(on_places if is_view else _copied, self.wide)
        if name not in KERNELS and name not in CHOSEN:
            return None
        if self.is_complex() and name not in FOURIER:
            return None

        def on_given(*values: Any) -> Any:
            args, kwargs = self._filled(values)
            if name in CHOSEN:
                made = CHOSEN[name](run(), *args, **kwargs)
            else:
                made = KERNELS[name](*args, **kwargs)
            if not isinstance(made, tuple):
                return _own(made, values)
            return tuple(
                [of_run if y is None else y for y, of_run in zip(made, run().results, strict=True)]
            )

        return partial(on_balls, on_given)


def _copied(move: Callable[[Any], Any], given: Sequence[High]) -> list[High]:
    """Move the elements into a new array."""
    return [_own(y, given) for y in on_places(move, given)]


def _own(made: Any, given: Sequence[High]) -> Any:
    """Copy an unchanged argument into a node of its own if the program must hold for other numbers
    too. The layout of the result may differ, and a kernel then adds in another order or takes
    another loop."""
    if is_general(made) and any(made is x for x in given):
        return row("reshape")(made, shape=made.shape)
    return made


def as_tensor(values: Any) -> Any:
    """The numbers as a tensor that shares their memory if possible."""
    values = np.asarray(values)
    if not (values.flags.c_contiguous and values.flags.writeable):
        values = np.array(values, order="C")
    return torch.from_numpy(values)


def pairs(array: Any) -> Any:
    """Complex numbers as pairs along a last axis."""
    return torch.view_as_real(array.resolve_conj().resolve_neg())


def _like(values: Any, native: Any) -> Any:
    """The numbers as a replacement for an argument of the call, on its device: some kernels, such
    as those of cuDNN, exist on no other."""
    if isinstance(values, (int, float)):
        return values
    tensor = as_tensor(values)
    if not isinstance(native, torch.Tensor):
        return tensor
    if native.is_complex():
        tensor = torch.view_as_complex(tensor)
    return tensor.to(native.device)


def tensors(result: Any) -> Iterator[Any]:
    """The arrays of a result, which is an array or a nested list of arrays."""
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (list, tuple)):
        for part in result:
            yield from tensors(part)


class _Schema:
    """What an operation's schema says about its arguments, by position: which are arrays, or
    numbers in place of arrays, and which the operation writes to."""

    def __init__(self, schema: Any) -> None:
        self.mutable: bool = schema.is_mutable
        self.arrays = tuple(str(a.type) in ("Tensor", "number") for a in schema.arguments)
        self.written = tuple(
            i
            for i, a in enumerate(schema.arguments)
            if schema.is_mutable and a.alias_info and a.alias_info.is_write
        )


@cache
def _of_operation(func: Any) -> _Schema:
    return _Schema(func._schema)


def takes_arrays(func: Any) -> tuple[bool, ...]:
    return _of_operation(func).arrays if hasattr(func, "_schema") else ()


def written_positions(func: Any) -> tuple[int, ...]:
    """The positions of the arguments that the operation writes to."""
    return _of_operation(func).written


def _widened(x: Any) -> Any:
    if isinstance(x, torch.dtype) and x.is_complex:
        return torch.complex128
    return torch.float64 if isinstance(x, torch.dtype) and x.is_floating_point else x
