"""Results of earlier runs, found by the contents that they depend on.

The key of a file of specs comes from `contents`. Each entry is a file, written under a temporary
name and then renamed. Entries are not trusted when they are read (`domain.wire`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gradcheck_cli.domain.folders import cache_folder_of, working_folder_is_gone
from gradcheck_cli.domain.options import LOCAL, RunOptions
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.wire import Malformed, decode, encode
from gradcheck_cli.run.contents import Contents, lasts, layers_of

KEPT_S = 30 * 24 * 3600.0  # an entry that no run has met for so long is removed
_SUFFIX = ".result"


@dataclass(frozen=True, slots=True)
class Recalled:
    """The results of one file, the engines that took part with their versions, whether layers were
    run, the files of their code, and how many specs of the file belong to other shards."""

    results: tuple[SpecResult, ...]
    engines: Mapping[str, str]
    layers: bool
    code: tuple[str, ...]
    elsewhere: int


class ResultCache:
    """The results of earlier runs with these options, and with this `part` of the specs. `folder`
    is where entries are kept."""

    def __init__(self, options: RunOptions, folder: Path | None = None, part: str = "") -> None:
        self.folder = folder or cache_folder_of("results")
        self._contents = Contents(options, part)
        self._keys: dict[str, str] = {}

    def recall(self, file: str, text: bytes) -> Recalled | None:
        """The results of a file with this text, or None if they are not known."""
        key = self._keys[file] = self._contents.key(file, text)
        path = self.folder / f"{key}{_SUFFIX}"
        try:
            layers, code, engines, results, elsewhere = decode(path.read_bytes())
            files = self._contents.code(layers)
            if self._contents.of_files(files) != code:
                return None
            known = tuple(replace(one, cached=True) for one in results)
            os.utime(path)
        except (OSError, Malformed, TypeError, ValueError):  # none, or none of this version
            return None
        return Recalled(known, engines, bool(layers), tuple(files), elsewhere)

    def keep(
        self,
        specs: Sequence[Spec],
        results: Sequence[SpecResult],
        engines: Mapping[str, str],
        elsewhere: int = 0,
    ) -> None:
        """Keeps the results of all specs of one file that `recall` did not know. `elsewhere` counts
        the specs that belong to other shards. Raises OSError."""
        key = self._keys.get(specs[0].source.path)
        if key is None or not all(map(lasts, specs, results)):
            return
        layers = layers_of(specs)
        used = {check.engine for result in results for check in result.checks}
        versions = {name: version for name, version in engines.items() if name in used}
        plain = tuple(map(_without_pictures, results))
        code = self._contents.of_files(self._contents.code(layers))
        body = encode((layers, code, versions, plain, elsewhere))
        import tempfile  # what is known needs none

        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.folder)
        try:
            with open(handle, "wb") as stream:
                stream.write(body)
            os.replace(name, self.folder / f"{key}{_SUFFIX}")
        except OSError:
            os.unlink(name)
            raise

    def forget_old(self) -> None:
        """Removes entries that no run has used for a month."""
        oldest = time.time() - KEPT_S
        for path in _entries(self.folder):
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)


def usable(options: RunOptions) -> bool:
    """Whether results of such a run may be taken from the cache. They may not if the output of
    frameworks or graphs are requested, on another device, on a remote cluster, whose versions are
    not known here, or in a working folder that was deleted. A cluster on this machine has the same
    results as a local run."""
    device = options.device.resolve(None, "cpu")
    seen = options.show_framework_output or options.illustrated
    elsewhere = options.cluster not in ("", LOCAL)
    return device == "cpu" and not (seen or elsewhere or working_folder_is_gone())


def clear(folder: Path | None = None) -> int:
    """Removes all entries and returns how many there were. Raises OSError."""
    files = [*_entries(folder or cache_folder_of("results"))]
    for path in files:
        path.unlink(missing_ok=True)
    return len(files)


def _entries(folder: Path) -> Iterator[Path]:
    return folder.glob(f"*{_SUFFIX}")


def _without_pictures(result: SpecResult) -> SpecResult:
    """The result without the graphs and curves that only an `illustrated` run shows."""
    readings = tuple(replace(reading, compared={}) for reading in result.readings)
    return replace(result, graphs=(), readings=readings)
