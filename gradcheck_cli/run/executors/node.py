"""A node of a cluster. It receives batches of specs with the code of their layers (`shipped`), and
keeps its workers for the whole run."""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.executor import Examined
from gradcheck_cli.run.executors.local import Local
from gradcheck_cli.run.workers.pool import Pool
from gradcheck_cli.version import VERSION


class _Room:
    """Where a thread of the node works for one run: a folder for the code, and workers that start
    in it."""

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
    """The folder of the node, or None outside of a node. Dask removes it, even if the node was
    killed."""
    from distributed import get_worker

    try:
        return str(get_worker().local_directory)
    except ValueError:
        return None


class _Mine(threading.local):
    room: _Room | None = None


_mine = _Mine()


def installed_versions() -> tuple[str, Mapping[str, str]]:
    """The version of gradcheck, and the installed engines with their versions."""
    there = {name: found.version for name, found in engines().items() if found.installed}
    return VERSION, {name: version for name, version in there.items() if version is not None}


def examine(parcel: bytes) -> tuple[float, list[SpecResult]]:
    """The seconds that the shipped specs took, and their results in order. `parcel` is a pickle:
    the client sends it, and nodes run the client's code anyway."""
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
    results: dict[int, SpecResult] = {}
    try:
        executor.start()
        for number, spec in enumerate(specs):
            executor.submit(number, spec)
        while len(results) < len(specs):
            if isinstance(message := executor.next(), Examined):
                results[message.number] = message.result
    except BaseException:
        executor.kill()
        raise
    return [results[number] for number in range(len(specs))]


@dataclass(frozen=True, slots=True)
class Shipped:
    """Specs, the files that their layers reach, and the working folder of the sender, for a machine
    without these files. All paths are relative to the root of the sender's files, so that imports
    and reports show relative paths unchanged."""

    specs: tuple[Spec, ...]
    files: Mapping[str, bytes]
    folder: str


def shipped(specs: Sequence[Spec]) -> Shipped:
    """The specs with their code, ready to travel."""
    reached = (file for spec in specs for layer in spec.implementations for file in _files(layer))
    files = {_below_root(file): Path(file).read_bytes() for file in dict.fromkeys(reached)}
    here = _below_root(os.path.realpath(os.curdir))
    return Shipped(tuple(map(_relative, specs)), files, here)


def _below_root(path: str) -> str:
    return os.path.relpath(path, Path(path).anchor)


def _relative(spec: Spec) -> Spec:
    """The spec with the folders of its layers relative to the working folder."""
    layers = tuple(
        replace(layer, folder=os.path.relpath(layer.folder or os.curdir))
        for layer in spec.implementations
    )
    return replace(spec, implementations=layers)


def _files(layer: Implementation) -> list[str]:
    from gradcheck_cli.specfile.project_files import imported_files  # formulas do without

    return imported_files((layer.target, *layer.setup.imports), layer.folder)


def unpack(parcel: Shipped, root: Path) -> Path:
    """Writes the files that are missing below `root`, and returns the working folder."""
    for name, content in parcel.files.items():
        path = root / name
        if path.exists() and path.read_bytes() == content:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        unfinished.write_bytes(content)
        os.replace(unfinished, path)  # another node of the machine may read it
    folder = root / parcel.folder
    folder.mkdir(parents=True, exist_ok=True)
    return folder
