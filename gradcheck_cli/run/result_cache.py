"""Results of earlier runs, by the content of what they depend on.

A file of specs is found again by its text, the settings, the versions of what is installed, and the
code that its layers reach by import statements (`specfile.reached`). What code reads while it runs,
a data file or the clock, is not seen. An entry is one file, written under another name and then put
in its place; it is read without trust (`wire`).
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path

import gradcheck_cli
from gradcheck_cli.domain.cache_folder import cache_folder_of
from gradcheck_cli.domain.codes import ENGINE_FAILED, Codes
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import UNUSABLE, SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.wire import Malformed, decode, encode
from gradcheck_cli.version import VERSION

KEPT_S = 30 * 24 * 3600.0  # an entry that no run has met for so long is removed
_SUFFIX = ".result"
_ABOUT_THE_RUN = ("jobs", "fail_fast", "fail_on", "show_framework_output")
"""Options that change no result."""
_PASSING = (*ENGINE_FAILED, Codes.NONDETERMINISTIC)
"""Findings that another run may not have."""
_VARIABLES = (
    *("CUDA_", "GRADCHECK_PLAIN", "JAX_", "KERAS_", "MKL_", "NVIDIA_", "OMP_", "OPENBLAS_"),
    *("PATH", "PYTHON", "PYTORCH_", "TF_", "TORCH", "XLA_"),
)
"""How variables begin that frameworks and Python obey."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """The results of one file, the engines that took part with their versions, whether layers were
    run for them, and the files of their code."""

    results: tuple[SpecResult, ...]
    engines: Mapping[str, str]
    layers: bool
    code: tuple[str, ...]


class ResultCache:
    """What is known of earlier runs with these options. `folder`: where entries are kept."""

    def __init__(self, options: RunOptions, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder_of("results")
        self._options = options
        self._hashes: dict[str, bytes] = {}
        self._keys: dict[str, str] = {}

    def recall(self, file: str, text: bytes) -> Recalled | None:
        """The results of a file with this text; None where they are not known."""
        key = self._keys[file] = self._key(file, text)
        path = self.folder / f"{key}{_SUFFIX}"
        try:
            layers, code, engines, results = decode(path.read_bytes())
            files = self._files(layers)
            if self._content(files) != code:
                return None
            known = tuple(replace(one, cached=True) for one in results)
            os.utime(path)
        except (OSError, Malformed, TypeError, ValueError):  # none, or none of this version
            return None
        return Recalled(known, engines, bool(layers), tuple(files))

    def keep(
        self, specs: Sequence[Spec], results: Sequence[SpecResult], engines: Mapping[str, str]
    ) -> None:
        """Keeps the results of all specs of one file that `recall` did not know. Raises OSError."""
        key = self._keys.get(specs[0].source.path)
        if key is None or not all(map(_lasts, specs, results)):
            return
        layers = tuple(
            (layer.folder, layer.target, *layer.setup.imports)
            for spec in specs
            for layer in spec.implementations
        )
        used = {check.engine for result in results for check in result.checks}
        versions = {name: version for name, version in engines.items() if name in used}
        plain = tuple(map(_without_pictures, results))
        body = encode((layers, self._content(self._files(layers)), versions, plain))
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
        """Removes what no run has met for a month."""
        oldest = time.time() - KEPT_S
        for path in _entries(self.folder):
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)

    def _key(self, file: str, text: bytes) -> str:
        found = hashlib.sha256(self._setting)
        found.update(repr((file, len(text))).encode())
        found.update(text)
        return found.hexdigest()

    @cached_property
    def _setting(self) -> bytes:
        """All that a result depends on beside its spec and its code."""
        options = [
            (field.name, getattr(self._options, field.name))
            for field in fields(self._options)
            if field.name not in _ABOUT_THE_RUN
        ]
        variables = sorted(v for v in os.environ.items() if v[0].startswith(_VARIABLES))
        place = (os.getcwd(), sys.path, sys.version, _machine())
        return repr((VERSION, _own_code(), _installed(), place, variables, options)).encode()

    def _content(self, files: Iterable[str]) -> str:
        """Changes with any of the files."""
        found = hashlib.sha256()
        for file in files:
            if file not in self._hashes:
                self._hashes[file] = hashlib.sha256(Path(file).read_bytes()).digest()
            found.update(repr(file).encode() + self._hashes[file])
        return found.hexdigest()

    @staticmethod
    def _files(layers: Sequence[Sequence[str]]) -> list[str]:
        """The files that layers reach; each has the folder of its paths, and its targets."""
        if not layers:
            return []
        from gradcheck_cli.specfile.reached import reached

        found = (file for folder, *targets in layers for file in reached(targets, folder))
        return list(dict.fromkeys(found))


def usable(options: RunOptions) -> bool:
    """Whether results of such a run may be recalled: not where frameworks are to be seen at work,
    where graphs are wanted, or on a device, of which nothing is known here."""
    device = options.device.resolve(None, "cpu")
    return device == "cpu" and not (options.show_framework_output or options.illustrated)


def clear(folder: Path | None = None) -> int:
    """Removes all entries; how many there were. Raises OSError."""
    found = [*_entries(folder or cache_folder_of("results"))]
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


def _entries(folder: Path) -> Iterator[Path]:
    return folder.glob(f"*{_SUFFIX}")


def _lasts(spec: Spec, result: SpecResult) -> bool:
    """Whether another run would find the same."""
    found = (*result.findings, *result.suppressed)
    failed = result.status == "error" or any(finding.code in _PASSING for finding in found)
    of_the_run = any(UNUSABLE in note for note in result.notes)
    return spec.device in (None, "cpu") and not failed and not of_the_run


def _without_pictures(result: SpecResult) -> SpecResult:
    """Without what only a run that is `illustrated` shows."""
    readings = tuple(replace(reading, compared={}) for reading in result.readings)
    return replace(result, graphs=(), readings=readings)


def _installed() -> list[str]:
    """The distributions on the path, with their versions: how their folders are called."""
    names: set[str] = set()
    for folder in sys.path:
        try:
            names.update(name for name in os.listdir(folder or ".") if name.endswith("-info"))
        except OSError:  # an archive, or a folder that is not there
            continue
    return sorted(names)


def _machine() -> tuple[str, ...]:
    """The system and the processor: kernels are chosen for it, and their last digits differ."""
    system = os.uname() if hasattr(os, "uname") else None
    found = (sys.platform, system.machine if system else "")
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            model = next((line for line in stream if line.startswith("model name")), "")
    except OSError:  # another system than Linux
        model = ""
    return (*found, model)


def _own_code() -> list[tuple[str, int, int]]:
    """Our own files, their sizes and times, in a checkout, which changes without its version."""
    root = Path(gradcheck_cli.__file__).parents[1]
    if root.name.endswith("-packages"):  # installed
        return []
    found = []
    for package in ("gradcheck_cli", "reference_engine"):
        for folder, _, names in os.walk(root / package):
            for name in names:
                if name.endswith((".py", ".hpp")):
                    status = os.stat(os.path.join(folder, name))
                    found.append((name, status.st_mtime_ns, status.st_size))
    return sorted(found)
