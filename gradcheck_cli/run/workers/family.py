"""A worker and the processes that come from it: found, counted and ended together.

On Linux nothing that a worker starts leaves its family: the worker adopts what its children leave
behind (a session of one's own, a double fork). Where a worker dies first, its mark in the
environment still tells who came from it. (Jenkins finds what a build left behind by such a mark:
hudson.util.ProcessTree.) Elsewhere parents are requested with `ps`, or `taskkill` ends the tree.

Imports the standard library only: a worker begins with it.
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
    """Called by a worker: it dies with its parent, and adopts the orphans among its descendants."""
    if sys.platform == "linux":
        import ctypes

        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if sys.platform != "win32" and os.getppid() != parent:  # it died before we asked
        os._exit(1)


def end_on_return(frame: FrameType | None) -> None:
    """Called in a child that was forked in `frame`: the child ends when it comes back to gradcheck.

    A layer that forks at every call would double the processes at every call.
    """
    while frame is not None and not frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    if frame is not None:
        frame.f_trace = _end
        sys.settrace(_ignore)  # without any trace function those of frames are not called


@contextmanager
def children_end() -> Iterator[None]:
    """A child that this thread forks meanwhile ends when it comes back to gradcheck, where layers
    are examined in the process of their user."""
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


def descendants(pid: int) -> list[int]:
    """The children of a process, their children, and so on."""
    found: list[int] = []
    left = [pid]
    table: dict[int, list[int]] | None = None
    while left:
        parent = left.pop()
        children = _children(parent)
        if children is None:
            table = _by_parent() if table is None else table
            children = table.get(parent, [])
        found += children
        left += children
    return found


def _children(pid: int) -> list[int] | None:
    """As the kernel has them; None where it does not say."""
    try:
        threads = os.listdir(PROC / str(pid) / "task")
    except OSError:
        return None if not PROC.exists() else []
    found: list[int] = []
    for thread in threads:
        try:
            found += map(int, (PROC / str(pid) / "task" / thread / "children").read_text().split())
        except FileNotFoundError:
            if (PROC / str(pid) / "task" / thread).exists():  # a kernel that keeps no such list
                return None
        except OSError:
            continue
    return found


def _by_parent() -> dict[int, list[int]]:
    """The processes of this machine by their parents."""
    found: dict[int, list[int]] = {}
    for pid, parent in _from_proc() if PROC.exists() else _from_ps():
        found.setdefault(parent, []).append(pid)
    return found


def _from_proc() -> Iterator[tuple[int, int]]:
    for pid in _numbers():
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
    return [int(name) for name in os.listdir(PROC) if name.isdigit()]


def _marked(mark: str) -> list[int]:
    """The processes whose environment, as they began with it, has the mark."""
    wanted = f"{MARK}={mark}\0".encode()
    found = []
    for pid in _numbers() if PROC.exists() else []:
        with contextlib.suppress(OSError):  # another user's, or gone
            if wanted in (PROC / str(pid) / "environ").read_bytes():
                found.append(pid)
    return found


def end(worker: subprocess.Popen[bytes], mark: str = "") -> None:
    """Ends a worker and all that came from it, at once. May be called again. What a worker that
    died has left behind is found by its mark, which takes a look at every process."""
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
        _end_all(lambda: _marked(mark))
        time.sleep(_BEGINS_S)
        _end_all(lambda: _marked(mark))


def end_descendants(pid: int) -> None:
    """Ends what a worker that lives has started."""
    _end_all(lambda: descendants(pid))


def _end_all(look: Callable[[], list[int]]) -> None:
    for _ in range(_ROUNDS):
        found = [pid for pid in look() if not _is_dead(pid)]
        if not found:
            return
        for pid in found:
            _signal(pid, signal.SIGKILL)


def _is_dead(pid: int) -> bool:
    """Whether it only waits for its parent to hear of its end."""
    try:
        return (PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return PROC.exists()


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
