"""Report the progress of an examination of a large layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gradcheck_cli.domain.layer import LayerProgress

Hear = Callable[[LayerProgress], None]

_hear: Hear | None = None


@contextmanager
def reporting_to(hear: Hear) -> Iterator[None]:
    """Call `hear` with the progress of this process until the context ends."""
    global _hear
    before, _hear = _hear, hear
    try:
        yield
    finally:
        _hear = before


def tell(what: str, done: int, expected: int) -> None:
    """Report the current question, and the number of forward passes done, of about `expected`."""
    if _hear is not None:
        _hear(LayerProgress(what, done, expected))
