"""Specs and the code of their layers, on their way to a machine that has not the files.

Files go into a folder whose tree is that of the sender, so paths relative to the working folder
are what they were, in imports and in reports.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.spec import Spec


@dataclass(frozen=True, slots=True)
class Shipped:
    """Specs, the files that their layers reach, and the sender's working folder: all paths are
    relative to the root of the sender's files."""

    specs: tuple[Spec, ...]
    files: Mapping[str, bytes]
    folder: str


def shipped(specs: Sequence[Spec]) -> Shipped:
    """Specs with their code, ready to travel."""
    reached = (file for spec in specs for layer in spec.implementations for file in _files(layer))
    files = {_below_root(file): Path(file).read_bytes() for file in dict.fromkeys(reached)}
    here = _below_root(os.path.realpath(os.curdir))
    return Shipped(tuple(map(_relative, specs)), files, here)


def _below_root(path: str) -> str:
    return os.path.relpath(path, Path(path).anchor)


def _relative(spec: Spec) -> Spec:
    """The spec, with the folders of its layers as seen from the working folder."""
    layers = tuple(
        replace(layer, folder=os.path.relpath(layer.folder or os.curdir))
        for layer in spec.implementations
    )
    return replace(spec, implementations=layers)


def _files(layer: Implementation) -> list[str]:
    from gradcheck_cli.specfile.reached import reached  # formulas do without

    return reached((layer.target, *layer.setup.imports), layer.folder)


def unpack(parcel: Shipped, root: Path) -> Path:
    """Writes the files below `root`, those that are not there yet; the working folder."""
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
