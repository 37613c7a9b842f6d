"""A worker and all processes that it started: they are found, counted and ended together.

On Linux no process leaves the family of a worker: the worker adopts the orphans of its children
(after a double fork or in a new session). If a worker dies first, a mark in the environment still
identifies its processes. (Jenkins finds the processes that a build left behind in the same way:
hudson.util.ProcessTree.) On other systems `ps` lists parents, or `taskkill` ends the tree.

Imports the standard library only, because a worker begins with this module.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

MARK = "GRADCHECK_FAMILY"
"""The variable of the environment that a worker hands on to all that it starts."""

WHERE: int | None = getattr(signal, "SIGUSR1", None)
"""The signal at which a worker prints its stack; Windows has none."""

PROC = Path("/proc")
_OURS = str(Path(__file__).resolve().parents[2])
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_BEGINS_S = 0.05  # a process that begins a program has no environment for a moment
_inside: set[int] = set()  # threads in which a layer is examined
_ROUNDS = 100  # of looking for more: a process that is about to be killed may start another


def join(parent: int) -> None:
    """Called by a worker: it will die with its parent, and adopts the orphans among its
    descendants."""
    if sys.platform == "linux":
        import ctypes

        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if sys.platform != "win32" and os.getppid() != parent:  # it died before we asked
        os._exit(1)


def end_on_return(frame: FrameType | None) -> None:
    """Called in a child that was forked in `frame`: the child ends when it returns to gradcheck.

    Otherwise a layer that forks at every call would double the number of processes at every call.
    """
    while frame is not None and not frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    if frame is not None:
        frame.f_trace = _end
        sys.settrace(_ignore)  # without any trace function those of frames are not called


@contextmanager
def children_end() -> Iterator[None]:
    """Inside the block, a child that this thread forks ends when it returns to gradcheck. For
    layers that are examined in the process of their user."""
    _guard()
    _inside.add(threading.get_ident())
    try:
        yield
    finally:
        _inside.discard(threading.get_ident())


@cache
def _guard() -> None:
    def end() -> None:
        if threading.get_ident() in _inside:
            end_on_return(sys._getframe(1))

    if hasattr(os, "register_at_fork"):  # what is registered stays
        os.register_at_fork(after_in_child=end)


def _end(*_: Any) -> Any:
    os._exit(0)


def _ignore(*_: Any) -> None:
    return None


def has_proc() -> bool:
    """Whether /proc shows processes. A container or sandbox may leave it empty or closed."""
    return os.access(PROC / "self" / "stat", os.R_OK)


def descendants(pid: int) -> list[int]:
    """The children of a process, their children, and so on."""
    pids: list[int] = []
    left = [pid]
    table: dict[int, list[int]] | None = None
    while left:
        parent = left.pop()
        children = _children(parent)
        if children is None:
            table = _by_parent() if table is None else table
            children = table.get(parent, [])
        pids += children
        left += children
    return pids


def _children(pid: int) -> list[int] | None:
    """The children of a process according to the kernel, or None if it does not list them."""
    try:
        threads = os.listdir(PROC / str(pid) / "task")
    except OSError:
        return [] if has_proc() else None
    pids: list[int] = []
    for thread in threads:
        try:
            pids += map(int, (PROC / str(pid) / "task" / thread / "children").read_text().split())
        except FileNotFoundError:
            if (PROC / str(pid) / "task" / thread).exists():  # a kernel that keeps no such list
                return None
        except OSError:
            continue
    return pids


def _by_parent() -> dict[int, list[int]]:
    """The processes of this machine by their parents."""
    children: dict[int, list[int]] = {}
    numbers = _numbers()
    for pid, parent in _from_proc(numbers) if numbers else _from_ps():
        children.setdefault(parent, []).append(pid)
    return children


def _from_proc(numbers: list[int]) -> Iterator[tuple[int, int]]:
    for pid in numbers:
        with contextlib.suppress(OSError, IndexError):  # it is gone
            yield pid, int((PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[1])


def _from_ps() -> Iterator[tuple[int, int]]:
    import subprocess  # no worker needs it on Linux, and it takes time to import

    with contextlib.suppress(OSError):  # there is no `ps`
        done = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False
        )
        for line in done.stdout.splitlines():
            pid, parent = line.split()
            yield int(pid), int(parent)


def _numbers() -> list[int]:
    """The processes that /proc lists; empty if it is absent or closed to us."""
    try:
        return [int(name) for name in os.listdir(PROC) if name.isdigit()]
    except OSError:
        return []


def _marked_processes(mark: str) -> list[int]:
    """The processes that had the mark in their environment when they started."""
    wanted = f"{MARK}={mark}\0".encode()
    pids = []
    for pid in _numbers():
        with contextlib.suppress(OSError):  # another user's, or gone
            if wanted in (PROC / str(pid) / "environ").read_bytes():
                pids.append(pid)
    return pids


def end(worker: subprocess.Popen[bytes], mark: str = "") -> None:
    """Ends a worker and all processes that it started, at once. May be called again. If the
    worker has died before, the mark identifies its processes; this reads the environment of
    every process."""
    if sys.platform == "win32":
        import subprocess

        if worker.poll() is None:
            subprocess.run(["taskkill", "/T", "/F", "/PID", str(worker.pid)], capture_output=True)
        worker.wait()
        return
    died = worker.poll() is not None
    if not died:
        _signal(worker.pid, signal.SIGSTOP)  # it starts nothing more
        end_descendants(worker.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    if mark and (died or worker.returncode != -signal.SIGKILL):
        _end_all(lambda: _marked_processes(mark))
        time.sleep(_BEGINS_S)
        _end_all(lambda: _marked_processes(mark))


def end_descendants(pid: int) -> None:
    """Ends the processes that a living worker has started."""
    _end_all(lambda: descendants(pid))


def _end_all(look: Callable[[], list[int]]) -> None:
    for _ in range(_ROUNDS):
        alive = [pid for pid in look() if not _is_dead(pid)]
        if not alive:
            return
        for pid in alive:
            _signal(pid, signal.SIGKILL)


def _is_dead(pid: int) -> bool:
    """Whether the process has ended, and its parent has not collected its exit status yet."""
    try:
        return (PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return has_proc()


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
