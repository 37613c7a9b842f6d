"""Work of the machine's own tools, which does not count against the time limit of a spec."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

tell: Callable[[bool], None] | None = None
"""Whom a worker tells that such work begins (True) and ends (False); None: there is no limit."""


@contextmanager
def off_the_clock() -> Iterator[None]:
    """While a compiler works, or another process's compiler is waited for."""
    if tell is not None:
        tell(True)
    try:
        yield
    finally:
        if tell is not None:
            tell(False)
