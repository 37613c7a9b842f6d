"""How many processors a run may use."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path


@cache
def cores() -> int:
    """The processors that this process may run on, and no more than its container is granted."""
    mine = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        mine = len(os.sched_getaffinity(0))
    return max(1, math.ceil(min(mine, _granted())))


def _granted(file: Path = Path("/sys/fs/cgroup/cpu.max")) -> float:
    """Processors of the container (cgroup v2): "QUOTA PERIOD", or "max PERIOD" for any number."""
    try:
        quota, period = file.read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):
        return math.inf
