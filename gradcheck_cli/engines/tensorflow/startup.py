"""A replacement in TensorFlow that speeds up its start: imports that no derivative needs wait until
something asks for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gradcheck_cli.engines.kit.startup import StandIn, replaces

# The share of a run's processor time that it saves, by benchmarks/replacements.py.
IMPORTS = "tensorflow-imports"  # 21 % of one formula, 19 % of 30

# TensorFlow works without these: its converter for phones (tensorflow/lite) does without JAX,
# `tf.keras` imports Keras at its first use anyway, and the old Keras in TensorFlow does without
# SciPy's sparse arrays.
_TRIED = ("jax", "keras.src", "scipy")
_AGAIN = (  # the whole API, twice; the converter for phones
    "tensorflow._api.v2.compat.v1",
    "tensorflow._api.v2.compat.v2",
    "tensorflow._api.v2.lite",
)
_FOREIGN = ("h5py", "requests")  # for files and cloud machines


@contextmanager
def only_tensorflow() -> Iterator[None]:
    """Import TensorFlow inside the block without other frameworks, its old API, and modules that do
    not compute. Together these take a third of the time of the import."""
    if not replaces(IMPORTS):
        yield
        return
    first = "tensorflow" not in sys.modules
    hidden = [name for name in _TRIED if name not in sys.modules]
    later = [StandIn(n) for n in (*_AGAIN, *_FOREIGN) if first and n not in sys.modules]
    sys.modules.update((module.__name__, module) for module in later)
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type] # None: "not to be imported"
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
        for module in later:
            if module.__name__ in _FOREIGN or "tensorflow" not in sys.modules:
                module.leave()
