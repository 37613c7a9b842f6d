"""Time that compilers use, which does not count against the time limit of a spec."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

tell: Callable[[bool], None] | None = None
"""Whom a worker tells that such work begins (True) and ends (False); None: there is no limit."""

NO_COMPILER = "no compiler"
"""The first stage of every compiler."""

spent_s = 0.0
"""How long such work has taken in this process."""


@contextmanager
def off_the_clock() -> Iterator[None]:
    """Stops the clock while a compiler works, or while this process waits for another one's
    compiler."""
    global spent_s
    started = time.perf_counter()
    if tell is not None:
        tell(True)
    try:
        yield
    finally:
        spent_s += time.perf_counter() - started
        if tell is not None:
            tell(False)
