"""Folders that nobody named."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder_of(name: str) -> Path:
    """The folder where results under `name` are kept for later runs: below $XDG_CACHE_HOME, or the
    usual cache folder of the system."""
    home = Path.home()
    usual = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or usual) / "gradcheck" / name


def working_folder_is_gone() -> bool:
    """Check whether another program has deleted the working folder. No relative path is valid
    then."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
