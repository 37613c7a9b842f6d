"""JAX's configuration, which the whole process shares. A layer's module may change it for itself
(`jax.config.update("jax_debug_nans", True)`), but other specs run in the same process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import numpy as np


@contextmanager
def settings_restored() -> Iterator[None]:
    """Restore JAX's configuration, and NumPy's error handling, at the end of the block."""
    before = dict(jax.config.values)
    try:
        with np.errstate():
            yield
    finally:
        now = jax.config.values
        if now != before:
            for name, value in before.items():
                if now[name] != value:
                    jax.config.update(name, value)
