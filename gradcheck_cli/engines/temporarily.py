"""Replaces attributes for a while, to watch a framework or a class of the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def temporarily(owner: Any, **attributes: Any) -> Iterator[None]:
    """Inside the block the owner has these attributes. Afterwards its previous ones are
    restored."""
    before = {name: getattr(owner, name) for name in attributes}
    for name, value in attributes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)
