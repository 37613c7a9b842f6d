"""What runs on a node of a cluster: a spec at a time, by workers that stay for the whole run."""

from __future__ import annotations

import atexit
import pickle
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.wire import encode
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.executor import Examined
from gradcheck_cli.run.local import Local
from gradcheck_cli.run.pool import Pool
from gradcheck_cli.run.shipping import Shipped, unpack
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


def examine(parcel: bytes) -> bytes:
    """The result of a spec that was shipped, as bytes of `domain.wire`. `parcel` is a pickle: it is
    the client that sends it, and nodes run the client's code."""
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
    return encode(_result(sent.spec, Local(options, room.pool)))


def _result(spec: Spec, executor: Local) -> SpecResult:
    try:
        executor.start()
        executor.submit(0, spec)
        while not isinstance(message := executor.next(), Examined):
            pass
    except BaseException:
        executor.kill()
        raise
    return message.result
