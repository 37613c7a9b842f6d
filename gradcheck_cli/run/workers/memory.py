"""How much memory a process holds, and the default limit for an engine."""

from __future__ import annotations

import contextlib
import math
import os
from functools import cache
from pathlib import Path

from gradcheck_cli.run.workers import family

USUAL_GB = 16.0  # far above what any check of a layer needs, and less than most machines have
_SHARE = 0.75  # of a smaller machine: the rest belongs to other workers and to whoever works there
_SCARCE = 0.03  # of the memory of the machine: the system's own killer strikes near zero
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@cache
def usual_limit() -> float:
    """The memory that one engine may take by default, in gigabytes: USUAL_GB, or a share of a
    smaller machine."""
    held = [size for size in (_physical(), _memory_limit()) if size]
    return min([USUAL_GB, *(_SHARE * size / 1e9 for size in held)])


def _physical() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * _PAGE
    except (AttributeError, ValueError, OSError):
        return 0


def _memory_limit() -> int:
    """The memory limit of the container in bytes, or 0 if there is none (cgroup v2, then v1)."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            return int(Path("/sys/fs/cgroup", name).read_text())
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return 0


def is_scarce() -> bool:
    """Whether the machine has hardly any memory left. False if that is unknown."""
    found = _of_the_machine()
    return found.get("MemAvailable", 1) < _SCARCE * found.get("MemTotal", 1)


def available() -> float:
    """The bytes that this machine, or the container, has left. Infinity if that is unknown."""
    left = 1024 * _of_the_machine().get("MemAvailable", math.inf)
    if granted := _memory_limit():
        with contextlib.suppress(OSError, ValueError):  # cgroup v1 has another file
            left = min(left, granted - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    return left


def _of_the_machine() -> dict[str, int]:
    """The values of /proc/meminfo in kilobytes, by name. Empty if there is no such file."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return {}
    return {name: int(rest.split()[0]) for name, _, rest in (s.partition(":") for s in lines)}


def held_bytes(pid: int) -> int | None:
    """The bytes that the process and all its descendants hold, or None if that is unknown. Memory
    that a child shares with its parent counts once."""
    if not family.has_proc():
        return None
    children = family.descendants(pid)
    if not children:
        return resident(pid)
    shares = [_share(one) for one in (pid, *children)]
    return sum(shares) if any(shares) else None


def held_at_most(pid: int) -> int:
    """An upper bound of `held_bytes` that is cheap to find, because shared memory counts for each
    process. 0 if that is unknown."""
    processes = (pid, *family.descendants(pid)) if family.has_proc() else ()
    return sum(resident(one) or 0 for one in processes)


def _share(pid: int) -> int:
    """The bytes of a process, with shared pages divided by the number of processes that share
    them."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return resident(pid) or 0


def resident(pid: int) -> int | None:
    """The resident memory of the process in bytes. None if that is unknown, as outside Linux."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return None
