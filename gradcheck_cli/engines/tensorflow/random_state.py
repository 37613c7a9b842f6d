"""The random numbers of TensorFlow and Keras: the same before every call, afterwards the user's.

Operations that take a seed of their own leave no trace in the state of TensorFlow: that a layer
draws by them, nothing but the operations tells.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tensorflow.python.eager import context

from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.layer import isolation
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.tensorflow.casts import Run, around_operations

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
        self._tf = tf
        self._seed = seed
        self._context = context.context()
        self._others = isolation.Randomness(seed)
        self.streams = False

    @contextmanager
    def seeded(self) -> Iterator[None]:
        """Who calls this stands in `surroundings`, which puts Python's and NumPy's back."""
        own, keras = self._context, _keras()
        before = own._seed, getattr(own, "_rng", None)  # none before a seed was set
        kept = [keras.get_global_attribute(name) for name in (_SEED, _GENERATOR)] if keras else []
        self._others.again()
        if self.streams:
            self._tf.random.set_seed(self._seed)
        own._seed, own._rng = self._seed, _Watched(self._seed)
        if keras:
            keras.set_global_attribute(_SEED, self._seed)
            keras.set_global_attribute(_GENERATOR, None)
        try:
            yield
        finally:
            self.streams |= self._seeds_taken()
            own._seed, own._rng = before
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


DRAWING = ("Random", "TruncatedNormal", "Multinomial", "Rng")
"""Parts of the names of operations that draw: `StatelessRandomNormalV2`, `RandomShuffle`,
`StatelessTruncatedNormal`, and `RngReadAndSkip`, by which a generator moves on."""


class Draws:
    """What was seen. `place`: the user's line of the first draw, where there is one."""

    def __init__(self) -> None:
        self.seen = False
        self.place: Place | None = None


@contextmanager
def watched_draws() -> Iterator[Draws]:
    """Looks at every operation meanwhile, and into functions that were traced."""
    draws, places = Draws(), Places(__name__, around_operations.__module__)

    def handle(name: str, inputs: Sequence[Any], attributes: Sequence[Any], run: Run) -> Any:
        if not draws.seen and draws_in(name):
            draws.seen, draws.place = True, places.running()
        return run(inputs, attributes)

    with around_operations(handle):
        yield draws


def draws_in(name: str) -> bool:
    """Whether the operation, or the traced function, of this name draws random numbers, or a
    function that it calls."""
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
