"""Workers of runs in tests, forked from processes that have imported what a worker needs.

Nearly all the cost of a short run is imports in each of its workers. Here, one process for each
engine imports them once for all tests, and every worker is a fork of it. Only imports happened
before the fork, and the worker is a child of the tests, as `launch.spawn` would make it.
`launch.spawn` still starts workers on devices, workers whose environment a test has changed, and
all workers outside Linux.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from unittest import mock

from gradcheck_cli.engines import entry_points
from gradcheck_cli.engines.kit.startup import SWITCH
from gradcheck_cli.run.workers import launch, process

# Packages that workers import nearly completely. None of them imports a framework.
ROOMS = ("domain", "truth", "explain", "judge", "checks", "engines.kit", "engines.layer")
# This call starts threads, which a fork would not have. A worker makes it when it begins.
PYTORCH, SET_THREADS = "gradcheck_cli.engines.torch.", "torch.set_num_threads"
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
# Variables that no framework reads, besides gradcheck's, and variables that frameworks set when
# they are imported into a process of tests.
_NEUTRAL = {"PYTEST_CURRENT_TEST", "XDG_CACHE_HOME", "COLUMNS", "TERM", "NO_COLOR", "FORCE_COLOR"}
_NEUTRAL |= {"TF2_BEHAVIOR", "TF_CPP_MIN_LOG_LEVEL", "HDF5_PLUGIN_PATH", "TORCHINDUCTOR_CACHE_DIR"}
_NEUTRAL |= {"TPU_ML_PLATFORM", "TPU_ML_PLATFORM_VERSION", "TPU_SKIP_MDS_QUERY"}
_NEUTRAL |= {"ENABLE_RUNTIME_UPTIME_TELEMETRY", "KERAS_BACKEND"}
_NEUTRAL |= {"CHILD_PID_FILE", "IMPORTS_FILE", "IMPORT_S", "RUNAWAY"}  # of tests/run/conftest.py
# Variables that engines set when they load, as in a worker.
_OWN = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
_lock = threading.Lock()
origins: set[int] = set()
"""Children of this process from which workers are forked. They stay when workers end."""
_spawn = launch.spawn


@contextmanager
def forked_workers() -> Iterator[None]:
    """Give runs of this process forked workers inside the block."""
    with (
        mock.patch.object(process, "spawn", _forked_or_spawned),
        mock.patch.object(launch, "spawn", _forked_or_spawned),
    ):
        yield


def _forked_or_spawned(
    target: str, where: Sequence[str] = (), folder: str | None = None
) -> subprocess.Popen[bytes]:
    """Like `launch.spawn`. Engines of tests need the same imports as the reference engine."""
    shipped = target.startswith("gradcheck_cli.")
    usual = not shipped or (not where and _variables() == _VARIABLES)
    folder = folder or os.curdir
    if sys.platform == "linux" and usual and os.path.isdir(folder):
        with _lock:
            origin = _origin(target if shipped else entry_points.REFERENCE)
            if origin is not None:
                return origin.fork(target, where, os.path.abspath(folder))
    return _spawn(target, where, None if folder == os.curdir else folder)


def _variables() -> dict[str, str]:
    """The environment variables that a framework might read."""
    return {
        name: value
        for name, value in os.environ.items()
        if name == SWITCH
        or not (name in _NEUTRAL or name.startswith("GRADCHECK_") or _OWN.get(name) == value)
    }


class _Forked(subprocess.Popen[bytes]):
    """A child that was not started by a `Popen`."""

    def __init__(self, pid: int, pipes: Sequence[int]) -> None:
        self.args, self.pid, self.returncode = "forked", pid, None
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(end, mode, 0) for end, mode in zip(pipes, ("wb", "rb", "rb"), strict=True)
        )
        self._child_created = True
        self._waitpid_lock = threading.Lock()


class _Origin:
    """The process from which the workers of an engine are forked. It ends when its pipe closes."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def fork(self, target: str, where: Sequence[str], folder: str) -> _Forked:
        environment = launch.environment_of_worker()
        parent = str(os.getpid())
        request = json.dumps([[target, parent, *where], folder, sys.path, environment]).encode()
        (stdin, ours_in), (ours_out, stdout), (ours_err, stderr) = (os.pipe() for _ in range(3))
        theirs = (stdin, stdout, stderr)
        _adopting(True)
        try:
            socket.send_fds(self._line, [len(request).to_bytes(4, "big")], theirs)
            self._line.sendall(request)
            pid = int.from_bytes(self._line.recv(4, socket.MSG_WAITALL), "big")
        finally:
            _adopting(False)
            for end in theirs:
                os.close(end)
        launch.remember(pid, environment)
        return _Forked(pid, (ours_in, ours_out, ours_err))


def _adopting(on: bool) -> None:
    """Set whether this process becomes the parent of processes whose parent has ended."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on))


@cache
def _origin(target: str) -> _Origin | None:
    """The process for an engine, or None if its imports have started threads, after which it cannot
    be forked."""
    ours, theirs = socket.socketpair()
    started = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, target, str(theirs.fileno())],
        env=launch.environment_of_worker(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        cwd=os.sep,
    )
    theirs.close()
    origins.add(started.pid)
    return _Origin(ours) if ours.recv(1) == b"!" else None


def main() -> None:
    target, line = sys.argv[1], socket.socket(fileno=int(sys.argv[2]))
    _import_all(target)
    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit(f"{target} cannot be forked: it has threads")
    gc.freeze()
    line.sendall(b"!")
    while True:
        head, pipes, _, _ = socket.recv_fds(line, 4, 3)
        if not head:
            return
        request = json.loads(line.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
        told, tell = os.pipe()
        middle = os.fork()  # when it ends, the requester becomes the worker's parent
        if not middle:
            if os.fork():
                os._exit(0)
            os.setsid()
            os.write(tell, os.getpid().to_bytes(4, "big"))
            for end in (line.fileno(), told, tell):
                os.close(end)
            _work(pipes, *request)
        os.waitpid(middle, 0)
        line.sendall(os.read(told, 4))
        os.close(told)
        os.close(tell)
        for pipe in pipes:
            os.close(pipe)


def _import_all(target: str) -> None:
    """Import the framework, set up by the engine as in a worker, and the code that examines."""
    from gradcheck_cli.engines.base import make

    gc.disable()
    with mock.patch(SET_THREADS) if target.startswith(PYTORCH) else nullcontext():
        make(target).load()
    for room in ROOMS:
        package = importlib.import_module(f"gradcheck_cli.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    importlib.import_module("gradcheck_cli.run.workers.worker")
    importlib.import_module("gradcheck_cli.run.workers.state")
    gc.enable()


def _work(
    pipes: Sequence[int],
    arguments: Sequence[str],
    folder: str,
    path: Sequence[str],
    environment: dict[str, str],
) -> None:
    """Become a worker, like the program `gradcheck_cli.run.workers.worker`."""
    until = time.monotonic() + 10.0  # it may have ended meanwhile
    while os.getppid() != int(arguments[1]):
        if time.monotonic() > until:
            os._exit(1)
        time.sleep(0.0005)
    os.chdir(folder)
    sys.path[:] = dict.fromkeys([*filter(os.path.isabs, path), *sys.path])
    for function in (entry_points.claims, entry_points.targets):
        function.cache_clear()  # a test may have put engines on the path
    os.environ.clear()
    os.environ.update(environment)
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    sys.argv[1:] = arguments
    from gradcheck_cli.run.workers import worker

    worker.main()


_VARIABLES = _variables()

if __name__ == "__main__":
    main()
