"""Times of commands, for the benchmarks that compare some."""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Command = Sequence[str]


def processor_seconds(
    command: Command, folder: Path, variables: Mapping[str, str], stderr: int | None = None
) -> float:
    """User and system time of a command and of all processes that it waited for, run in this folder
    and environment. Raises CalledProcessError if it fails."""
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=folder, env=dict(variables), stdout=nothing, stderr=stderr
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return used.ru_utime + used.ru_stime


def medians(
    commands: Sequence[Command], seconds: Callable[[Command], float], repeats: int
) -> list[float]:
    """The median time of each command. They run in turn, so that a busy machine slows all; the
    first call of each fills the caches and is dropped, unless there is no other."""
    taken: list[list[float]] = [[] for _ in commands]
    for _ in range(repeats + 1):
        for times, command in zip(taken, commands, strict=True):
            times.append(seconds(command))
    return [statistics.median(times[1:] or times) for times in taken]
