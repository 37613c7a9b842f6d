"""The cache key of a result: a hash of its spec, the settings, the versions, and the code of its
layers.

The code of a layer is every file that it reaches by import statements (`specfile.project_files`).
What the code reads while it runs, such as a data file or the clock, is not part of the key.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path

import gradcheck_cli
from gradcheck_cli.domain.codes import ENGINE_FAILED, Codes
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.report import UNUSABLE, SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.version import VERSION

_ABOUT_THE_RUN = ("jobs", "fail_fast", "fail_on", "show_framework_output", "resume", "cluster")
"""Options that change no result."""
_PASSING = (*ENGINE_FAILED, Codes.NONDETERMINISTIC)
"""Findings that another run may not have."""
_VARIABLES = (
    *("CUDA_", "GRADCHECK_PLAIN", "JAX_", "KERAS_", "MKL_", "NVIDIA_", "OMP_", "OPENBLAS_"),
    *("PATH", "PYTHON", "PYTORCH_", "TF_", "TORCH", "XLA_"),
)
"""How variables begin that frameworks and Python obey."""


class Contents:
    """Computes the keys of a run with these options, or of one `part` of that run."""

    def __init__(self, options: RunOptions, part: str = "") -> None:
        self._options = options
        self._part = part
        self._hashes: dict[str, bytes] = {}
        self._of_layers: dict[tuple[tuple[str, ...], ...], str] = {}

    def key(self, file: str, text: bytes) -> str:
        digest = hashlib.sha256(self._other_dependencies)
        digest.update(repr((file, len(text))).encode())
        digest.update(text)
        return digest.hexdigest()

    @cached_property
    def _other_dependencies(self) -> bytes:
        """Everything except the spec and its code that a result depends on."""
        options = [
            (field.name, getattr(self._options, field.name))
            for field in fields(self._options)
            if field.name not in _ABOUT_THE_RUN
        ]
        variables = sorted(v for v in os.environ.items() if v[0].startswith(_VARIABLES))
        place = (os.getcwd(), sys.path, sys.version, _machine())
        return repr(
            (VERSION, _own_code(), _installed(), place, variables, options, self._part)
        ).encode()

    def of_files(self, files: Iterable[str]) -> str:
        """A hash that changes if any of the files changes."""
        digest = hashlib.sha256()
        for file in files:
            if file not in self._hashes:
                self._hashes[file] = hashlib.sha256(Path(file).read_bytes()).digest()
            digest.update(repr(file).encode() + self._hashes[file])
        return digest.hexdigest()

    @staticmethod
    def code(layers: Sequence[Sequence[str]]) -> list[str]:
        """The files that the layers reach. Each entry of `layers` is a folder, followed by the
        targets in it."""
        if not layers:
            return []
        from gradcheck_cli.specfile.project_files import imported_files

        found = (file for folder, *targets in layers for file in imported_files(targets, folder))
        return list(dict.fromkeys(found))

    def of_layers(self, spec: Spec) -> str:
        """A hash that changes if any code changes that the layers of the spec reach."""
        layers = layers_of([spec])
        if layers not in self._of_layers:
            self._of_layers[layers] = self.of_files(self.code(layers))
        return self._of_layers[layers]


def layers_of(specs: Sequence[Spec]) -> tuple[tuple[str, ...], ...]:
    """For each layer: the folder that its paths are relative to, its target, and its other
    imports."""
    return tuple(
        (layer.folder, layer.target, *layer.setup.imports)
        for spec in specs
        for layer in spec.implementations
    )


def lasts(spec: Spec, result: SpecResult) -> bool:
    """Whether another run would find the same, so that the result may be kept."""
    found = (*result.findings, *result.suppressed)
    failed = result.status == "error" or any(finding.code in _PASSING for finding in found)
    of_the_run = any(UNUSABLE in note for note in result.notes)
    return spec.device in (None, "cpu") and not failed and not of_the_run


def _installed() -> list[str]:
    """The installed distributions with their versions, as the names of their metadata folders."""
    names: set[str] = set()
    for folder in sys.path:
        try:
            names.update(name for name in os.listdir(folder or ".") if name.endswith("-info"))
        except OSError:  # an archive, or a folder that is not there
            continue
    return sorted(names)


def _machine() -> tuple[str, ...]:
    """The system and the processor. Frameworks choose kernels by processor, and results differ in
    the last digits."""
    system = os.uname() if hasattr(os, "uname") else None
    found = (sys.platform, system.machine if system else "")
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            model = next((line for line in stream if line.startswith("model name")), "")
    except OSError:  # another system than Linux
        model = ""
    return (*found, model)


def _own_code() -> list[tuple[str, int, int]]:
    """Path, size and time of each file of gradcheck in a checkout, where code changes without a new
    version."""
    root = Path(gradcheck_cli.__file__).parents[1]
    if root.name.endswith("-packages"):  # installed
        return []
    files = []
    for package in ("gradcheck_cli", "reference_engine"):
        for folder, _, names in os.walk(root / package):
            for name in names:
                if name.endswith((".py", ".hpp")):
                    status = os.stat(os.path.join(folder, name))
                    files.append((name, status.st_mtime_ns, status.st_size))
    return sorted(files)
