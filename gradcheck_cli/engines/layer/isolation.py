"""The surroundings of a user's code: the same at every call, and restored afterwards."""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Any

import numpy as np

_STAYS = count(1)
_stay = 0  # the number of the surroundings that are open


_kept: list[Any] = []


def reusable() -> list[Any] | None:
    """Objects that may be used again inside the current surroundings, and are released with them;
    None outside of any."""
    return _kept if _stay else None


_learned: dict[int, dict[Any, Any]] = {}


def knowledge_of(live: Any) -> dict[Any, Any]:
    """What examinations inside the current surroundings have learned about a live object, for
    example about the same layer in another dtype. It is forgotten at their end. None learns
    nothing."""
    return _learned.setdefault(id(live), {}) if _stay and live is not None else {}


def surroundings_number() -> int:
    """The number of the current surroundings, in which observations about a layer stay valid; 0
    outside of any."""
    return _stay


@contextmanager
def surroundings() -> Iterator[None]:
    """Restores the state of the whole process afterwards: the current directory, the environment,
    the import path, warning filters, NumPy's error handling, and the random numbers of Python and
    NumPy. Subjects restore the state of their frameworks. If surroundings are nested, the outermost
    ones restore."""
    global _stay
    if _stay:
        yield
        return
    _stay = next(_STAYS)
    try:
        with _put_back_afterwards():
            yield
    finally:
        _stay = 0
        _kept.clear()
        _learned.clear()


@contextmanager
def _put_back_afterwards() -> Iterator[None]:
    folder, environment, path = _folder(), _environment(), list(sys.path)
    errors, drawn = np.geterr(), random.getstate()
    try:
        with warnings.catch_warnings(), _own_numpy_generator():
            yield
    finally:
        random.setstate(drawn)
        np.seterr(**errors)
        sys.path[:] = path
        if _environment() != environment:
            _restore_environment(environment)
        if folder is not None:
            os.chdir(folder)


@contextmanager
def _own_numpy_generator() -> Iterator[None]:
    """Inside the block, the random numbers of `np.random` come from gradcheck's own Mersenne
    Twister, and the user's generator, of whatever kind, stands still. At the end, the second number
    of a Gaussian pair is put back if there was one."""
    from numpy.random import mtrand

    own, before = mtrand.get_bit_generator(), mtrand.get_state(legacy=False)
    mtrand.set_bit_generator(_twister())
    try:
        yield
    finally:
        mtrand.set_bit_generator(own)
        if before["has_gauss"]:
            mtrand.set_state(before)


@cache
def _twister() -> np.random.MT19937:
    return np.random.MT19937(0)


def _folder() -> str | None:
    """The current directory, or None if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _environment() -> dict[Any, Any]:
    """The raw dictionary behind `os.environ`, whose `copy` would decode every name and value."""
    return dict(vars(os.environ)["_data"])


def _restore_environment(environment: Mapping[Any, Any]) -> None:
    read = {os.environ.decodekey(n): os.environ.decodevalue(v) for n, v in environment.items()}
    for name in os.environ.keys() - read.keys():
        del os.environ[name]
    for name, value in read.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


class Randomness:
    """Starts the random numbers of Python and NumPy from the same seed before every call."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._first: tuple[float, float] | None = None  # numbers from the seed on

    def restart(self) -> None:
        """Starts from the seed. Must be called inside of `surroundings`."""
        random.setstate(_of_python(self._seed))  # to seed anew takes twice as long
        np.random.seed(self._seed % 2**32)

    def has_drawn(self) -> bool:
        """Whether random numbers were drawn since `restart`. Starts from the seed again."""
        found = random.random(), np.random.random()
        self.restart()
        if self._first is None:
            self._first = random.random(), np.random.random()
            self.restart()
        return found != self._first


@cache
def _of_python(seed: int) -> Any:
    return random.Random(seed).getstate()
