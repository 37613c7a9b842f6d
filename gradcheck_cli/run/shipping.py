"""The code of a spec's layers, on its way to a machine that has not its files.

Files go into a folder whose tree is that of the sender, so paths relative to the working folder
are what they were, in imports and in reports.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.spec import Spec


@dataclass(frozen=True, slots=True)
class Shipped:
    """A spec, the files that its layers reach, and the sender's working folder: all paths are
    relative to a folder above them."""

    spec: Spec
    files: Mapping[str, bytes]
    folder: str


def shipped(spec: Spec) -> Shipped:
    """A spec with its code, ready to travel."""
    here = os.path.realpath(os.curdir)
    found = dict.fromkeys(file for layer in spec.implementations for file in _files(layer))
    above = os.path.commonpath([here, *(os.path.dirname(file) for file in found)])
    files = {os.path.relpath(file, above): Path(file).read_bytes() for file in found}
    layers = tuple(
        replace(layer, folder=os.path.relpath(layer.folder or os.curdir))
        for layer in spec.implementations
    )
    return Shipped(replace(spec, implementations=layers), files, os.path.relpath(here, above))


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
