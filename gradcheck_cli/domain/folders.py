"""Folders that are not named by anybody."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder_of(name: str) -> Path:
    """Where results of what is called `name` are kept for later runs: below $XDG_CACHE_HOME, or
    what stands for it here."""
    home = Path.home()
    usual = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or usual) / "gradcheck" / name


def working_folder_is_gone() -> bool:
    """Whether another program has deleted it: then no relative path means anything."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
