"""Whether NumPy code draws from a generator of its own, whose numbers depend on the dtype that they
are drawn in. `RandomState` draws the same ones for every dtype."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from gradcheck_cli.engines.temporarily import temporarily

_generator: Any = import_module("numpy.random._generator")


class OwnDraws:
    """`seen`: a generator was made, or one that the object holds has moved on."""

    def __init__(self) -> None:
        self.seen = False


@contextmanager
def watched_draws(owner: Any) -> Iterator[OwnDraws]:
    """Looks meanwhile at the generators among the attributes of an object, and at those that
    `default_rng` makes, which takes its bit generator from its own module at every call."""
    draws, made = OwnDraws(), _generator.PCG64
    held = [
        v for v in getattr(owner, "__dict__", {}).values() if isinstance(v, np.random.Generator)
    ]
    before = [repr(one.bit_generator.state) for one in held]

    def make(*args: Any) -> Any:
        draws.seen = True
        return made(*args)

    try:
        with temporarily(_generator, PCG64=make):
            yield draws
    finally:
        draws.seen |= before != [repr(one.bit_generator.state) for one in held]
