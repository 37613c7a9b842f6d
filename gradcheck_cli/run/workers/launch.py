"""Starts worker processes. Imports the standard library only, so that a command can start the first
worker before its own slow imports."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

from gradcheck_cli.domain.folders import working_folder_is_gone
from gradcheck_cli.engines.entry_points import REFERENCE, targets
from gradcheck_cli.run.workers import family

_prewarmed: dict[str, subprocess.Popen[bytes]] = {}
_marks: dict[int, str] = {}  # of workers, by their number


def prewarm(target: str = REFERENCE) -> None:
    """Starts the worker that every run needs. The pool takes it over (`adopt`).

    If no run follows, the worker ends by itself when this process closes its input.
    """
    if target not in _prewarmed:
        _prewarmed[target] = spawn(target)


def prewarm_named(names: Iterable[str]) -> None:
    """Starts workers early for the engines that a command line names, because importing a framework
    takes longest. A name that is not an engine is ignored here and reported later."""
    for name in names:
        target = REFERENCE if name == "reference" else targets().get(name)
        if target is not None:
            prewarm(target)


def adopt(target: str) -> subprocess.Popen[bytes] | None:
    """The prewarmed worker for `target`, if there is one and it lives. It can be taken once."""
    process = _prewarmed.pop(target, None)
    return process if process is not None and process.poll() is None else None


def end_prewarmed() -> None:
    """Ends the workers that no run took over."""
    while _prewarmed:
        _, process = _prewarmed.popitem()
        process.kill()
        process.wait()


def spawn(
    target: str, where: Sequence[str] = (), folder: str | None = None
) -> subprocess.Popen[bytes]:
    """A worker process for the engine "module:Class". `where` has the fields of its Placement,
    unless that is the CPU; `folder` is its working folder, unless that is the current one.

    Standard input and output are the channel. Everything that the engine prints, to either stream,
    goes to standard error. The worker leads a session of its own: it does not see Ctrl-C in the
    terminal, and it can be killed together with all processes that it started.
    """
    environment = environment_of_worker()
    process = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "gradcheck_cli.run.workers.worker",
            target,
            str(os.getpid()),
            *where,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=folder or _working_folder(),
        env=environment,
        start_new_session=True,
    )
    remember(process.pid, environment)
    return process


def environment_of_worker() -> dict[str, str]:
    """The environment of this process with a new mark, and defaults for workers of variables that
    are not set."""
    environment = dict(os.environ)
    # The worker sees the modules that we see, not those that happen to lie in the working folder.
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(_import_folders()))
    # Specs are small, and several workers share the machine: a thread that waits does not spin.
    environment.setdefault("OPENBLAS_NUM_THREADS", "1")
    environment.setdefault("OMP_WAIT_POLICY", "passive")
    environment.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # PyTorch: new memory in large pages
    environment.setdefault("PYTHONUNBUFFERED", "1")  # what was printed before a crash must come out
    environment[family.MARK] = f"{os.getpid()}.{time.monotonic_ns()}.{len(_marks)}"
    return environment


def remember(pid: int, environment: Mapping[str, str]) -> None:
    """Notes the mark of a worker that was started with this environment."""
    _marks[pid] = environment[family.MARK]


def mark_of(process: subprocess.Popen[bytes]) -> str:
    """The mark (`family.MARK`) in the environment of a worker and of all processes that it
    starts."""
    return _marks.get(process.pid, "")


def _import_folders() -> list[str]:
    """The import path, without relative folders if the working folder was deleted."""
    relative = not working_folder_is_gone()
    return [os.path.abspath(path) for path in sys.path if relative or os.path.isabs(path)]


def _working_folder() -> str | None:
    """The folder in which a worker starts: None for the current one, or the root if the current one
    was deleted, because not every framework can be imported in a deleted folder."""
    return os.path.abspath(os.sep) if working_folder_is_gone() else None
