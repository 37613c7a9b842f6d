"""What a user's code finds around itself: the same at every call, and as it was afterwards."""

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


def kept() -> list[Any] | None:
    """What may be used again in the surroundings that are open, and is let go with them; None
    outside of any."""
    return _kept if _stay else None


_learned: dict[int, dict[Any, Any]] = {}


def learned(live: Any) -> dict[Any, Any]:
    """What the examinations in the surroundings that are open learn about a live object, which is
    let go with them: about the same layer in another dtype, for example. None has none."""
    return _learned.setdefault(id(live), {}) if _stay and live is not None else {}


def stay() -> int:
    """Which surroundings are open: what a layer was seen to be there it still is. 0 for none."""
    return _stay


@contextmanager
def surroundings() -> Iterator[None]:
    """Puts back what belongs to the whole process: the current directory, the environment, the
    path of imports, the filters of warnings, NumPy's handling of errors, and the random numbers of
    Python and NumPy. What belongs to a framework is put back by its own subject. Of several, one in
    the other, the outermost does so."""
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
        with warnings.catch_warnings(), _numpy_draws_elsewhere():
            yield
    finally:
        random.setstate(drawn)
        np.seterr(**errors)
        sys.path[:] = path
        if _environment() != environment:
            _put_back(environment)
        if folder is not None:
            os.chdir(folder)


@contextmanager
def _numpy_draws_elsewhere() -> Iterator[None]:
    """Inside, the random numbers of `np.random` come from a Mersenne Twister of gradcheck's own,
    and the user's, which may be of another kind, stands still. It is left without the second number
    of a pair of Gaussian ones, which is put back where there was one."""
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
    """The current directory; None where it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _environment() -> dict[Any, Any]:
    """The environment, as `os.environ` holds it: its own `copy` decodes every name and value."""
    return dict(vars(os.environ)["_data"])


def _put_back(environment: Mapping[Any, Any]) -> None:
    read = {os.environ.decodekey(n): os.environ.decodevalue(v) for n, v in environment.items()}
    for name in os.environ.keys() - read.keys():
        del os.environ[name]
    for name, value in read.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


class Randomness:
    """The random numbers of Python and NumPy, from the same seed before every call."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._first: tuple[float, float] | None = None  # numbers from the seed on

    def again(self) -> None:
        """From the seed on. Who calls this stands in `surroundings`."""
        random.setstate(_of_python(self._seed))  # to seed anew takes twice as long
        np.random.seed(self._seed % 2**32)

    def drawn(self) -> bool:
        """Whether numbers were drawn since `again`: the next ones are no longer the first. Begins
        anew."""
        found = random.random(), np.random.random()
        self.again()
        if self._first is None:
            self._first = random.random(), np.random.random()
            self.again()
        return found != self._first


@cache
def _of_python(seed: int) -> Any:
    return random.Random(seed).getstate()
