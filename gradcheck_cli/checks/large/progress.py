"""How far the examination of a large layer is, told to whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gradcheck_cli.domain.layer import LayerProgress

Hear = Callable[[LayerProgress], None]

_hear: Hear | None = None


@contextmanager
def told_to(hear: Hear) -> Iterator[None]:
    """Calls `hear` with the progress of this process until the context ends."""
    global _hear
    before, _hear = _hear, hear
    try:
        yield
    finally:
        _hear = before


def tell(what: str, done: int, expected: int) -> None:
    """Tells which question is asked, and how many forward passes of about so many are done."""
    if _hear is not None:
        _hear(LayerProgress(what, done, expected))
