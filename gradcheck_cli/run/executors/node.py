"""What runs on a node of a cluster: batches of specs, by workers that stay for the whole run."""

from __future__ import annotations

import atexit
import pickle
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.executor import Examined
from gradcheck_cli.run.executors.local import Local
from gradcheck_cli.run.executors.shipping import Shipped, unpack
from gradcheck_cli.run.workers.pool import Pool
from gradcheck_cli.version import VERSION


class _Room:
    """Where a thread of the node works for one run: a folder for code, and workers that start
    there."""

    def __init__(self, name: str, folder: str) -> None:
        self.name = name
        self.root = Path(tempfile.mkdtemp(prefix="gradcheck-", dir=_scratch()))
        self.pool = Pool(1, folder=str(self.root / folder))
        atexit.register(self.leave)

    def leave(self) -> None:
        atexit.unregister(self.leave)
        self.pool.kill()
        shutil.rmtree(self.root, ignore_errors=True)


def _scratch() -> str | None:
    """The folder of the node, which Dask removes, also where the node was killed; None elsewhere
    than on a node."""
    from distributed import get_worker

    try:
        return str(get_worker().local_directory)
    except ValueError:
        return None


class _Mine(threading.local):
    room: _Room | None = None


_mine = _Mine()


def engines_here() -> tuple[str, Mapping[str, str]]:
    """The version of gradcheck, and the engines that are installed with theirs."""
    there = {name: found.version for name, found in engines().items() if found.installed}
    return VERSION, {name: version for name, version in there.items() if version is not None}


def examine(parcel: bytes) -> tuple[float, list[SpecResult]]:
    """The seconds that specs took which were shipped, and their results in order. `parcel` is a
    pickle: it is the client that sends it, and nodes run the client's code."""
    start = time.monotonic()
    name: str
    options: RunOptions
    sent: Shipped
    name, options, sent = pickle.loads(parcel)
    room = _mine.room
    if room is None or room.name != name:
        if room is not None:
            room.leave()
        room = _mine.room = _Room(name, sent.folder)
    unpack(sent, room.root)
    results = _results(sent.specs, Local(options, room.pool))
    return time.monotonic() - start, results


def _results(specs: Sequence[Spec], executor: Local) -> list[SpecResult]:
    found: dict[int, SpecResult] = {}
    try:
        executor.start()
        for number, spec in enumerate(specs):
            executor.submit(number, spec)
        while len(found) < len(specs):
            if isinstance(message := executor.next(), Examined):
                found[message.number] = message.result
    except BaseException:
        executor.kill()
        raise
    return [found[number] for number in range(len(specs))]
