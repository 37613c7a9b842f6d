"""NumPy arrays that record what is computed from them.

The arrays are ndarrays of a class that records operators, functions and methods; the user's code
sees ordinary arrays. Numbers that avoid the class (by conversion to a Python float, or by a write
through a view) appear as new arrays of unknown origin. Less is then explained, but nothing is
wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, as_pairs, identical, joined
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.execution import Arrays, Execution, High, Step, format_named
from gradcheck_cli.engines.layer.recording import Annotations, Row
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.numpy.kernels import (
    ACCUMULATED,
    DATA_MOVEMENT,
    EXACT_SELECTIONS,
    KERNELS,
    REDUCED,
    RENAMED,
    of_pairs,
)
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.trace.complex_kernels import constant, on_parts
from gradcheck_cli.engines.trace.exact_kernels import Kernel, elementwise, on_balls, on_places

_METHODS = (
    *("sum", "prod", "mean", "var", "std", "max", "min", "cumsum", "cumprod", "dot", "clip"),
    *("reshape", "transpose", "ravel", "flatten", "squeeze", "swapaxes", "copy", "repeat", "take"),
    *("diagonal", "trace", "astype", "conj", "conjugate"),
)
_LIKE = frozenset(["zeros_like", "ones_like", "full_like", "empty_like"])
_MADE = ("zeros", "ones", "full", "empty", "eye", "array", "asarray", "ascontiguousarray")
"""Functions of NumPy that ignore the class of their arguments."""

_asarray = np.asarray  # NumPy's own, also while it is replaced

Run = Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class _Slot:
    """A placeholder for an argument."""

    place: int


def _filled(tree: Any, values: Sequence[Any]) -> Any:
    """The arguments with these values in place of the slots."""
    if isinstance(tree, _Slot):
        return values[tree.place]
    if isinstance(tree, tuple | list):
        return type(tree)([_filled(part, values) for part in tree])
    return tree


@dataclass(frozen=True, slots=True)
class _Call:
    """A function with all of its arguments except arrays."""

    function: Callable[..., Any]
    args: Any
    keywords: Mapping[str, Any]

    def __call__(self, values: Sequence[Any]) -> Any:
        named = {name: _filled(value, values) for name, value in self.keywords.items()}
        return self.function(*_filled(self.args, values), **named)

    def low(self, values: Sequence[Any]) -> list[Array]:
        result = self(values)
        several = isinstance(result, tuple | list)
        return [_asarray(y) for y in (result if several else [result])]

    def wide(self, values: Sequence[Any]) -> list[Array]:
        return self.low([_widened(value) for value in values])

    def exact(self, kernel: Kernel, values: Sequence[High]) -> list[High]:
        call = _Call(kernel, self.args, self.keywords)
        return on_balls(lambda *xs: call(xs), values)

    def exact_of_pairs(
        self, kernel: Kernel, places: Sequence[int], values: Sequence[High]
    ) -> list[High]:
        """The exact results, with pairs for complex numbers in these places of the values and in
        the results."""

        def of_pairs(*args: Any, **named: Any) -> Any:
            return kernel(*map(constant, args), **named)

        call = _Call(of_pairs, self.args, self.keywords)
        return on_balls(on_parts(lambda *xs: call(xs), places), values)


def _of_pairs(run: Run, places: Sequence[int]) -> Run:
    """`run`, with pairs along a last axis for complex numbers in these places and in the
    results."""

    def of_pairs(values: Sequence[Any]) -> list[Array]:
        given = [joined(x) if place in places else x for place, x in enumerate(values)]
        return [as_pairs(y) if y.dtype.kind == "c" else y for y in run(given)]

    return of_pairs


class NumpyRecorder:
    """Records the operations on noted arrays, in order, each with its line."""

    def __init__(self) -> None:
        self.execution = Execution(Arrays())
        self.annotations = Annotations(self.execution, row_of)
        self.backward = False
        self._places = Places(__name__)
        self._writes: list[
            tuple[Array, int]
        ] = []  # memory that was written to, and the slot of the new numbers

    def recorded(self, array: Any, slot: int | None = None) -> Any:
        """The array in the recording class, with this slot or a new one."""
        plain = _asarray(array)
        made = plain.view(Noted)
        made.recorder, made.slot = self, self._new(plain) if slot is None else slot
        return made

    def slot_of(self, array: Any) -> int | None:
        """The slot of the result of a recorded operation; None for other arrays."""
        return self._slot(array) if isinstance(array, Noted) else None

    def _new(self, plain: Array) -> int:
        self.annotations.count(plain.size, plain.dtype)
        return self.execution.add_slot(plain.copy(), format_named(plain.dtype.name))

    def _slot(self, value: Any) -> int:
        if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
            return self.execution.add_slot(value, None)
        plain = _asarray(value)
        if isinstance(value, Noted) and value.slot is not None:
            known = self._since_written(value.slot, plain)
            if known is not None:
                return known
        return self._new(plain)

    def _since_written(self, slot: int, plain: Array) -> int | None:
        """The slot of an array that had this one, after the recorded writes to its memory; None if
        they do not explain its numbers."""
        now = slot
        for memory, part in self._writes:
            if identical(self.execution.slots[now].native, plain):
                return now
            if part > slot and np.may_share_memory(memory, plain):
                now = self._overwritten(now, part, shared_places(plain, memory))
        return now if identical(self.execution.slots[now].native, plain) else None

    def _overwritten(self, slot: int, part: int, places: tuple[Array, Array]) -> int:
        """A new slot: the array of `slot` with some numbers of another array in their places."""
        call = _Call(overwritten, (_Slot(0), *places, _Slot(1)), {})
        slots = [slot, part]
        made = self._new(call([self.execution.slots[i].native for i in slots]))
        self._add("written", False, call, slots, [made])
        return made

    def _with_slots(self, tree: Any, arrays: list[Any], numbers: bool) -> Any:
        """The arguments with slots in place of arrays, which are appended to `found`. With
        `numbers`, Python numbers get slots too."""
        if isinstance(tree, np.ndarray | np.generic) or (numbers and isinstance(tree, int | float)):
            arrays.append(tree)
            return _Slot(len(arrays) - 1)
        if type(tree) in (tuple, list):
            return type(tree)([self._with_slots(part, arrays, numbers) for part in tree])
        return tree

    def call(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        target: Noted | None = None,
    ) -> Any:
        """Call the function, record it, and return its result. With `target`, the result is written
        there."""
        arrays: list[Any] = []
        is_ufunc = isinstance(function, np.ufunc)
        tree = self._with_slots(tuple(args), arrays, is_ufunc)
        named = {key: self._with_slots(value, arrays, False) for key, value in keywords.items()}
        call = _Call(function, tree, named)
        slots = [self._slot(value) for value in arrays]
        result = call([_as_ndarray(value) for value in arrays])
        several = isinstance(result, tuple | list)
        parts = list(result) if several else [result]
        if target is not None:
            memory = _asarray(target)
            memory[...] = result
            parts = [memory]
        if not all(isinstance(part, np.ndarray | np.generic) for part in parts):
            return result
        made = [self._new(_asarray(part)) for part in parts]
        self._add(name, is_ufunc, call, slots, made)
        if target is not None:
            self._writes.append((_asarray(target), made[0]))
            target.recorder, target.slot = self, made[0]
            return target
        noted = [
            self.recorded(part, slot) if np.ndim(part) or part.dtype.kind in "fc" else part
            for part, slot in zip(parts, made, strict=True)
        ]
        return getattr(type(result), "_make", type(result))(noted) if several else noted[0]

    def _add(
        self, name: str, is_ufunc: bool, call: _Call, slots: list[int], made: list[int]
    ) -> None:
        known = row_of(name) if is_ufunc or name in KERNELS else None
        shapes = [np.shape(self.execution.slots[slot].native) for slot in (*slots[:1], made[0])]
        wide: Run = call.wide
        exact: Run | None = None
        natives = [self.execution.slots[slot].native for slot in (*slots, *made)]
        complex_ = [i for i, x in enumerate(natives) if np.iscomplexobj(x)]
        if complex_:
            wide = _of_pairs(call.wide, complex_)
            kernel = of_pairs(name)
            if name in DATA_MOVEMENT:
                exact = partial(on_places, _of_pairs(call.low, complex_))
            elif kernel is not None:
                exact = partial(call.exact_of_pairs, kernel, complex_)
        elif name == "astype":
            wide = exact = _as_it_is
        elif name in DATA_MOVEMENT:
            exact = partial(on_places, call.low)
        elif name in KERNELS:
            exact = partial(call.exact, KERNELS[name])
        step = Step(
            name=name,
            args=tuple(slots),
            results=tuple(made),
            low=call.low,
            wide=wide,
            exact=exact,
            moves=name in DATA_MOVEMENT or (known is not None and known.name in EXACT_SELECTIONS),
            place=self._places.running(),
            elementwise=(known is not None and elementwise(known.name))
            or (name in ("astype", "copy", "reshape") and shapes[0] == shapes[-1]),
        )
        self.execution.add_step(step)
        self.annotations.add(step, stated=self.backward)

    def recording(self) -> AbstractContextManager[None]:
        """Note arrays that the user's code makes inside the block."""

        def made(make: Callable[..., Any], args: Any, keywords: Mapping[str, Any]) -> Any:
            array = make(*args, **keywords)
            if array.dtype.kind != "f":
                return array
            if make.__name__.endswith("array"):
                if isinstance(args[0], Noted):
                    return args[0].astype(array.dtype)
                if _recorder(_leaves(args[0])) is None:
                    return self.recorded(array)
                stacked = self.call("array", _stacked, (_arrays(args[0]),), {})
                return stacked.astype(array.dtype)
            noted = self.recorded(array)
            self.execution.slots[noted.slot].structural = True
            return noted

        return making(made)


@contextmanager
def making(made: Callable[[Callable[..., Any], Any, Mapping[str, Any]], Any]) -> Iterator[None]:
    """Call `made` whenever the user's code makes an array inside the block. It receives NumPy's
    function and the arguments."""
    before = {name: getattr(np, name) for name in _MADE}
    places = Places(__name__)

    def instead(name: str, *args: Any, **keywords: Any) -> Any:
        if places.running() is None:
            return before[name](*args, **keywords)
        return made(before[name], args, keywords)

    # Replacements may be nested: a layer without its casts can be recorded too.
    named = {name: update_wrapper(partial(instead, name), before[name]) for name in _MADE}
    with temporarily(np, **named):
        yield


_WAYS: Mapping[str, Mapping[str, str]] = {
    **{"__call__": {}, "outer": {}, "reduce": REDUCED, "accumulate": ACCUMULATED},
}
"""The ways to run a ufunc over arrays, and the names of the resulting functions, if any."""


class Noted(np.ndarray[Any, Any]):
    """An array with a `slot` in its recorder; None if no recorded operation made it."""

    recorder: NumpyRecorder | None
    slot: int | None

    def __array_finalize__(self, other: Any) -> None:
        self.recorder, self.slot = getattr(other, "recorder", None), None

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any:
        recorder = _recorder([*inputs, *(out or ())])
        target = out[0] if out and isinstance(out[0], Noted) else None
        if method == "at" and recorder is not None and isinstance(inputs[0], Noted):
            return recorder.call(f"{ufunc.__name__}.at", partial(_at, ufunc), inputs, {}, inputs[0])
        if recorder is None or (out and target is None) or method not in _WAYS:
            plain = {} if out is None else {"out": tuple(map(_as_ndarray, out))}
            given = [_as_ndarray(value) for value in inputs]
            return getattr(ufunc, method)(*given, **plain, **_plainly(keywords))
        if method == "__call__":
            return recorder.call(ufunc.__name__, ufunc, inputs, keywords, target)
        name = _WAYS[method].get(ufunc.__name__, f"{ufunc.__name__}.{method}")
        how = keywords if method == "outer" else {"axis": 0, **keywords}
        return recorder.call(name, getattr(ufunc, method), inputs, how, target)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        recorder = _recorder([self])
        if recorder is None or kwargs.get("out") is not None:
            return func(*_plainly(args), **_plainly(kwargs))
        if func.__name__ in _LIKE:
            made = recorder.recorded(func(*_plainly(args), **_plainly(kwargs)))
            recorder.execution.slots[made.slot].structural = True
            return made
        return recorder.call(func.__name__, func, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        if self.recorder is None:
            return super().__getitem__(index)
        return self.recorder.call("getitem", _getitem, (self, index), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        recorder = _recorder([self, value])
        if recorder is None:
            _asarray(self)[_plainly(index)] = _plainly(value)
            return
        if isinstance(value, int | float):
            value = self.dtype.type(value)
        recorder.call("setitem", _setitem, (self, index, value), {}, self)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    @property
    def T(self) -> Any:
        return self.transpose()

    @property  # type: ignore[misc]  # NumPy's setter is not watched
    def real(self) -> Any:
        return self if self.dtype.kind != "c" else np.real(self)

    @property  # type: ignore[misc]
    def imag(self) -> Any:
        return np.imag(self)


def _method(name: str) -> Callable[..., Any]:
    plain = getattr(np.ndarray, name)

    def called(self: Noted, *args: Any, **keywords: Any) -> Any:
        if self.recorder is None or keywords.get("out") is not None:
            return plain(_asarray(self), *_plainly(args), **_plainly(keywords))
        return self.recorder.call(name, plain, (self, *args), keywords)

    return called


for _name in _METHODS:
    setattr(Noted, _name, _method(_name))


def row_of(name: str) -> Row | None:
    """The row of the op table to which an operation corresponds."""
    from reference_engine.op import TABLE

    ours = RENAMED.get(name, name)
    return Row(ours) if ours in TABLE else None


def _getitem(array: Array, index: Any) -> Any:
    return array[index]


def _setitem(array: Array, index: Any, value: Any) -> Array:
    made = array.copy()
    made[index] = value
    return made


def _at(ufunc: np.ufunc, array: Array, *args: Any) -> Array:
    made = array.copy()
    ufunc.at(made, *args)
    return made


def _stacked(parts: Any) -> Array:
    return np.stack([_stacked(p) if isinstance(p, list) else _asarray(p) for p in parts])


def _leaves(tree: Any) -> list[Any]:
    """The leaves of nested lists and tuples."""
    if not isinstance(tree, list | tuple):
        return [tree]
    return [leaf for part in tree for leaf in _leaves(part)]


def _arrays(tree: Any) -> Any:
    """Nested lists of numbers and arrays, with arrays in place of numbers."""
    if isinstance(tree, list | tuple):
        return [_arrays(part) for part in tree]
    return tree if isinstance(tree, np.ndarray) else np.float64(tree)


def _recorder(values: Sequence[Any]) -> NumpyRecorder | None:
    found = (v.recorder for v in values if isinstance(v, Noted) and v.recorder is not None)
    return next(found, None)


def _as_ndarray(value: Any) -> Any:
    return _asarray(value) if isinstance(value, Noted) else value


def _plainly(tree: Any) -> Any:
    if type(tree) in (tuple, list):
        return type(tree)([_plainly(part) for part in tree])
    if isinstance(tree, dict):
        return {name: _plainly(part) for name, part in tree.items()}
    return _as_ndarray(tree)


def _widened(value: Any) -> Any:
    kind = value.dtype.kind if isinstance(value, np.ndarray) else ""
    wide = {"f": np.float64, "c": np.complex128}.get(kind)
    return value if wide is None else value.astype(wide)


def _as_it_is(values: Sequence[High]) -> list[High]:
    """A conversion. Its rounding is an error of the operation itself."""
    return [_widened(values[0])]


def shared_places(plain: Array, memory: Array) -> tuple[Array, Array]:
    """The positions of shared memory in both arrays, flattened."""
    mine, theirs = _addresses(plain), _addresses(memory)
    _, places, others = np.intersect1d(mine, theirs, return_indices=True)
    return places, others


def _addresses(array: Array) -> Array:
    addresses = np.full(array.shape, array.ctypes.data, np.int64)
    for axis, stride in enumerate(array.strides):
        steps = np.arange(array.shape[axis]) * stride
        addresses += steps.reshape(-1, *(1,) * (array.ndim - axis - 1))
    return addresses.reshape(-1)


def overwritten(array: Array, places: Array, others: Array, part: Array) -> Array:
    """The array with the numbers of `part` at `others` written to its `places`; all positions are
    flattened."""
    made = array.copy()
    made.reshape(-1)[places] = part.reshape(-1)[others]
    return made
