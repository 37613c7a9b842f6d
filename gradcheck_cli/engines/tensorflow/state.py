"""Variables and constants of TensorFlow layers in the dtype in which the layer runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.layer import Role
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.capture import Put


@dataclass(frozen=True, slots=True)
class Found:
    """A tf.Variable, a tensor or a NumPy array of a layer. `differentiable` says that it is
    trained. `put` replaces it by another object, or is None if that is impossible. `seed` says that
    random numbers come from it."""

    name: str
    original: Any
    role: Role
    differentiable: bool
    put: Put | None
    seed: bool = False


class HeldVariable(ABC):
    """A variable or constant while the layer runs: at its value rounded to the problem's format, or
    at another value. `source` is the object that a tape watches; `swapped` says that it replaces
    the user's object."""

    swapped = False
    written = False  # by the first call

    def __init__(self, tf: Any, found: Found, dtype: str, rounding: str) -> None:
        self._tf = tf
        self.found = found
        self.source = found.original
        self.value = numbers(found.original)
        self.floating = self.value.dtype.kind == "f"
        self._dtype = dtype
        if self.floating:
            self.value = FORMATS[rounding].round(self.value)

    def tensor(self, value: Array) -> Any:
        return self._tf.cast(self._tf.constant(value), self._dtype)

    @abstractmethod
    def settle(self, value: Array) -> None:
        """Use this value in place of the own one from now on."""

    @abstractmethod
    def at(self, value: Array | None) -> AbstractContextManager[None]:
        """Put the object in its place inside the block, with another value if one is given, and
        restore everything afterwards. Blocks may be nested."""

    def now(self) -> bytes:
        """The present numbers as bytes, to be compared."""
        return b""

    @property
    def restless(self) -> bool:
        """Whether the object must be set to its value before each call."""
        return self.written


class _Variable(HeldVariable):
    def __init__(self, tf: Any, found: Found, dtype: str, rounding: str) -> None:
        super().__init__(tf, found, dtype, rounding)
        self._base = self.tensor(self.value) if self.floating else None

    def settle(self, value: Array) -> None:
        self.value = value
        self._base = self.tensor(value)

    def now(self) -> bytes:
        return np.asarray(self.source.numpy()).tobytes()

    @contextmanager
    def _assigned(self, value: Any | None) -> Iterator[None]:
        # Reading shares memory until the next assignment, so this costs nothing for large ones.
        before = self.source.read_value()
        if value is None and self.written:  # possibly by an enclosing call
            value = self._tf.cast(self.value, self.source.dtype)
        if value is not None:
            self.source.assign(value)
        try:
            yield
        finally:
            if value is not None or not self.found.differentiable:
                self.source.assign(before)


class InPlace(_Variable):
    """A variable that already has the dtype, or holds integers. It is overwritten during a call."""

    def __init__(self, tf: Any, found: Found, dtype: str, rounding: str) -> None:
        super().__init__(tf, found, dtype, rounding)
        rounds = self.floating and not np.array_equal(
            self.value, numbers(found.original), equal_nan=True
        )
        self._base = self._base if rounds else None

    @property
    def restless(self) -> bool:
        return self.written or self._base is not None

    def at(self, value: Array | None) -> AbstractContextManager[None]:
        return self._assigned(self._base if value is None else self.tensor(value))


class Swapped(_Variable):
    """A variable of another dtype, replaced by one of this dtype."""

    swapped = True

    def __init__(self, tf: Any, found: Found, dtype: str, rounding: str) -> None:
        super().__init__(tf, found, dtype, rounding)
        self.source = tf.Variable(self._base, trainable=found.differentiable)
        self._inside = 0

    def settle(self, value: Array) -> None:
        super().settle(value)
        self.source.assign(self._base)

    @contextmanager
    def at(self, value: Array | None) -> Iterator[None]:
        put = self.found.put
        assert put is not None
        if not self._inside:
            put(self.source)
        self._inside += 1
        try:
            with self._assigned(None if value is None else self.tensor(value)):
                yield
        finally:
            self._inside -= 1
            if not self._inside:
                put(self.found.original)


class Constant(HeldVariable):
    """A tensor or a NumPy array, replaced by another one."""

    def __init__(self, tf: Any, found: Found, dtype: str, rounding: str) -> None:
        super().__init__(tf, found, dtype, rounding)
        self._inside = 0
        self._array = self.written = isinstance(
            found.original, np.ndarray
        )  # arrays may be written to
        same = self._array or found.original.dtype.name == dtype
        same &= np.array_equal(self.value, numbers(found.original), equal_nan=True)
        self.swapped = not same and found.put is not None
        if self.swapped:
            self.source = self.tensor(self.value)

    def tensor(self, value: Array) -> Any:
        return value.astype(self.found.original.dtype) if self._array else super().tensor(value)

    def settle(self, value: Array) -> None:
        self.value = value
        self.source = self.tensor(value)
        self.swapped = self.found.put is not None

    def now(self) -> bytes:
        return self.source.tobytes() if self._array else b""

    @contextmanager
    def at(self, value: Array | None) -> Iterator[None]:
        put, before = self.found.put, self.source
        if value is not None or self.written:
            self.source = self.tensor(self.value if value is None else value)
        if put is None or self.source is self.found.original:
            yield
            return
        self._inside += 1
        put(self.source)
        try:
            yield
        finally:
            self._inside -= 1
            self.source = before
            put(before if self._inside else self.found.original)


def held_class(tf: Any, found: Found, dtype: str, rounding: str) -> HeldVariable:
    """The kind of held variable for the object and the dtype."""
    if not isinstance(found.original, tf.Variable):
        return Constant(tf, found, dtype, rounding)
    other = found.original.dtype.is_floating and found.original.dtype.name != dtype
    return (Swapped if other and found.put else InPlace)(tf, found, dtype, rounding)


def numbers(array: Any) -> Array:
    """A tensor, variable or array as float64 (integers, booleans and complex numbers unchanged)."""
    plain = np.asarray(array if isinstance(array, np.ndarray) else array.numpy())
    return plain if plain.dtype.kind in "biuc" else plain.astype(np.float64)
