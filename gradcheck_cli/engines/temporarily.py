"""Replaces attributes and environment variables for a while, to watch or to set up a framework."""

from __future__ import annotations

import os
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


@contextmanager
def default_variable(variable: str, value: str) -> Iterator[None]:
    """Sets an environment variable that a framework reads when it first looks for its devices,
    unless it is set."""
    if variable in os.environ:
        yield
        return
    os.environ[variable] = value
    try:
        yield
    finally:
        del os.environ[variable]
