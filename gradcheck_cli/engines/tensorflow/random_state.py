"""The random numbers of TensorFlow and Keras: the same before each call, and the user's own again
afterwards.

An operation with a seed of its own leaves no trace in the state of TensorFlow. Only watching the
operations shows that a layer draws with one.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from tensorflow.python.eager import context

from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.layer import isolation
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.tensorflow.casts import Run, around_operations

_SEED, _GENERATOR = "global_random_seed", "global_seed_generator"
"""The state that Keras keeps between calls (keras/src/utils/rng_utils.py,
random/seed_generator.py)."""


class _Watched(random.Random):
    """The generator from which TensorFlow takes the seeds of its operations."""

    used = False

    def randint(self, a: int, b: int) -> int:
        self.used = True
        return super().randint(a, b)


class Randomness:
    """Seeds Python, NumPy, TensorFlow and Keras. `streams` says that kernels keep streams of random
    numbers.

    `tf.random.set_seed` also drops every kernel, which makes the next operations slow. It is only
    called once kernels keep streams.
    """

    def __init__(self, tf: Any, seed: int) -> None:
        self._tf = tf
        self._seed = seed
        self._context = context.context()
        self._others = isolation.Randomness(seed)
        self.streams = False

    @contextmanager
    def seeded(self) -> Iterator[None]:
        """Seed all generators inside the block, and restore NumPy's error handling afterwards. The
        caller must be inside `surroundings`, which restores the generators of Python and NumPy."""
        own, keras = self._context, _keras()
        before = own._seed, getattr(own, "_rng", None)  # none before a seed was set
        kept = [keras.get_global_attribute(name) for name in (_SEED, _GENERATOR)] if keras else []
        self._others.restart()
        if self.streams:
            self._tf.random.set_seed(self._seed)
        own._seed, own._rng = self._seed, _Watched(self._seed)
        if keras:
            keras.set_global_attribute(_SEED, self._seed)
            keras.set_global_attribute(_GENERATOR, None)
        try:
            with np.errstate():
                yield
        finally:
            self.streams |= self._seeds_taken()
            own._seed, own._rng = before
            for name, value in zip((_SEED, _GENERATOR), kept, strict=False):
                keras.set_global_attribute(name, value)

    def has_drawn(self) -> bool:
        """Whether random numbers were drawn since seeding. Must be called inside `seeded`."""
        keras = _keras()
        made = keras and keras.get_global_attribute(_GENERATOR) is not None
        return bool(made or self._seeds_taken() or self._others.has_drawn())

    def _seeds_taken(self) -> bool:
        rng = self._context._rng
        return isinstance(rng, _Watched) and rng.used


def _keras() -> Any:
    return sys.modules.get("keras.src.backend.common.global_state")


DRAWING = ("Random", "TruncatedNormal", "Multinomial", "Rng")
"""Parts of the names of operations that draw: `StatelessRandomNormalV2`, `RandomShuffle`,
`StatelessTruncatedNormal`, and `RngReadAndSkip`, which advances a generator."""


class Draws:
    """Whether a random draw was seen. `place` is the user's line of the first draw, if known."""

    def __init__(self) -> None:
        self.seen = False
        self.place: Place | None = None


@contextmanager
def watched_draws() -> Iterator[Draws]:
    """Look for random draws in every operation inside the block, and in traced functions."""
    draws, places = Draws(), Places(__name__, around_operations.__module__)

    def handle(name: str, inputs: Sequence[Any], attributes: Sequence[Any], run: Run) -> Any:
        if not draws.seen and draws_in(name):
            draws.seen, draws.place = True, places.running()
        return run(inputs, attributes)

    with around_operations(handle):
        yield draws


def draws_in(name: str) -> bool:
    """Whether an operation or traced function of this name, or a function that it calls, draws
    random numbers."""
    waiting, known = [name], {name}
    while waiting:
        name = waiting.pop()
        if any(part in name for part in DRAWING) and not _is_traced(name):
            return True
        called = set(_called_by(name)) - known if _is_traced(name) else set()
        waiting += called
        known |= called
    return False


def _is_traced(name: str) -> bool:
    return bool(context.context().has_function(name))


def _called_by(name: str) -> Iterator[str]:
    """The operations of a traced function, and the functions among their attributes."""
    for node in context.context().get_function_def(name).node_def:
        yield node.op
        for value in node.attr.values():
            yield from (f.name for f in (value.func, *value.list.func) if f.name)
