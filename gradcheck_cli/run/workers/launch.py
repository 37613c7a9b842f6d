"""Starts worker processes. Imports the standard library only, so that a command can start the first
worker before its own heavy imports."""

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
    """Starts the worker that every run needs; the pool takes it over (`adopt`).

    Where no run follows, the worker ends by itself, as its input closes with this process.
    """
    if target not in _prewarmed:
        _prewarmed[target] = spawn(target)


def prewarm_named(names: Iterable[str]) -> None:
    """Starts workers early for the engines that a command line names: to import their frameworks
    takes longest. A name that is no engine's is left for whoever reports it."""
    for name in names:
        target = REFERENCE if name == "reference" else targets().get(name)
        if target is not None:
            prewarm(target)


def adopt(target: str) -> subprocess.Popen[bytes] | None:
    """The prewarmed worker for `target`, once, if there is one that lives."""
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
    """A worker process for the engine "module:Class"; `where` has the fields of its Placement, if
    that is not the CPU; `folder` is where it works, if that is not here.

    Standard input and output are the channel; everything that the engine prints, through whichever
    of the two streams, comes out of standard error. The worker leads a session of its own: it does
    not see the terminal's Ctrl-C, and it can be killed with all that it started.
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
    """Ours, with a new mark, and with settings for a worker where we have none."""
    environment = dict(os.environ)
    # The worker sees the modules that we see, not those that happen to lie in the working folder.
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(_import_folders()))
    # Specs are small, and several workers share the machine: a thread that waits does not spin.
    environment.setdefault("OPENBLAS_NUM_THREADS", "1")
    environment.setdefault("OMP_WAIT_POLICY", "passive")
    environment.setdefault("PYTHONUNBUFFERED", "1")  # what was printed before a crash must come out
    environment[family.MARK] = f"{os.getpid()}.{time.monotonic_ns()}.{len(_marks)}"
    return environment


def remember(pid: int, environment: Mapping[str, str]) -> None:
    """Notes the mark of a worker that was started with this environment."""
    _marks[pid] = environment[family.MARK]


def mark_of(process: subprocess.Popen[bytes]) -> str:
    """What the environment of a worker and of all that it starts says (`family.MARK`)."""
    return _marks.get(process.pid, "")


def _import_folders() -> list[str]:
    """Without those relative to a working folder that was deleted: nothing is in them."""
    relative = not working_folder_is_gone()
    return [os.path.abspath(path) for path in sys.path if relative or os.path.isabs(path)]


def _working_folder() -> str | None:
    """Where a worker starts: here (None), or at the root where the working folder was deleted, in
    which not every framework can be imported."""
    return os.path.abspath(os.sep) if working_folder_is_gone() else None
