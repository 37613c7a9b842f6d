"""The random numbers of TensorFlow and Keras: the same before every call, afterwards the user's."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradcheck_cli.engines.layer import isolation

_SEED, _GENERATOR = "global_random_seed", "global_seed_generator"
"""What Keras keeps between calls (keras/src/utils/rng_utils.py, random/seed_generator.py)."""


class _Watched(random.Random):
    """Where TensorFlow takes the seeds of its operations from."""

    used = False

    def randint(self, a: int, b: int) -> int:
        self.used = True
        return super().randint(a, b)


class Randomness:
    """Seeds Python, NumPy, TensorFlow and Keras. `streams`: kernels keep streams of numbers.

    `tf.random.set_seed` also drops every kernel, which makes the next operations slow; that is only
    needed once kernels keep streams.
    """

    def __init__(self, tf: Any, seed: int) -> None:
        from tensorflow.python.eager import context

        self._tf = tf
        self._seed = seed
        self._context = context.context()
        self._others = isolation.Randomness(seed)
        self.streams = False

    @contextmanager
    def seeded(self) -> Iterator[None]:
        """Who calls this stands in `surroundings`, which puts Python's and NumPy's back."""
        context, keras = self._context, _keras()
        before = context._seed, getattr(context, "_rng", None)  # none before a seed was set
        kept = [keras.get_global_attribute(name) for name in (_SEED, _GENERATOR)] if keras else []
        self._others.again()
        if self.streams:
            self._tf.random.set_seed(self._seed)
        context._seed, context._rng = self._seed, _Watched(self._seed)
        if keras:
            keras.set_global_attribute(_SEED, self._seed)
            keras.set_global_attribute(_GENERATOR, None)
        try:
            yield
        finally:
            self.streams |= self._seeds_taken()
            context._seed, context._rng = before
            for name, value in zip((_SEED, _GENERATOR), kept, strict=False):
                keras.set_global_attribute(name, value)

    def drawn(self) -> bool:
        """Whether numbers were drawn since it was seeded; asked inside of `seeded`."""
        keras = _keras()
        made = keras and keras.get_global_attribute(_GENERATOR) is not None
        return bool(made or self._seeds_taken() or self._others.drawn())

    def _seeds_taken(self) -> bool:
        rng = self._context._rng
        return isinstance(rng, _Watched) and rng.used


def _keras() -> Any:
    return sys.modules.get("keras.src.backend.common.global_state")
