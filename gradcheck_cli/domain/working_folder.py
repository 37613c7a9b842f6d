"""The working folder, which another program may have deleted."""

from __future__ import annotations

import os


def was_deleted() -> bool:
    """Whether it is gone: then no relative path means anything."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
