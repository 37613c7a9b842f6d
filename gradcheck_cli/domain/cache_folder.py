"""The folder where results are cached for later runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder_of(name: str) -> Path:
    """The folder of what is called `name`, below $XDG_CACHE_HOME or what stands for it here."""
    home = Path.home()
    usual = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or usual) / "gradcheck" / name
