"""Which files a command line means: files, folders, globs and standard input."""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Iterable
from pathlib import Path

from gradcheck_cli.domain.report import SpecError
from gradcheck_cli.specfile.text import STDIN

ENDINGS = (".yaml", ".yml")


def expand(paths: Iterable[str]) -> tuple[list[str], list[SpecError]]:
    """The spec files that the paths mean, in order and each once; a GC901 for what is not there.

    A folder means every .yaml and .yml file in it at any depth, in the order of names, without
    hidden ones; it may hold none, and `.` does not show in their names. A name with `*`, `?` or
    `[` that is not a file is a pattern (`**` crosses folders), and one that matches nothing is an
    error. "-" is standard input.
    """
    files: dict[str, None] = {}
    errors: list[SpecError] = []
    for path in paths:
        if path == STDIN or Path(path).is_file():
            files[path] = None
        elif Path(path).is_dir():
            files.update(dict.fromkeys(_inside(path)))
        elif Path(path).exists():  # a pipe or a device: read it as it comes
            files[path] = None
        elif glob.has_magic(path):
            matches = [found for match in _matches(path) for found in match]
            files.update(dict.fromkeys(matches))
            if not matches:
                errors.append(SpecError("GC901", path, "the pattern matches no spec"))
        else:
            errors.append(_missing(path))
    return list(files), errors


def _matches(pattern: str) -> Iterable[list[str]]:
    for match in sorted(glob.glob(pattern, recursive=True)):
        yield _inside(match) if Path(match).is_dir() else [match]


def _inside(folder: str) -> list[str]:
    found: list[str] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [
            os.path.normpath(os.path.join(root, name))
            for name in names
            if name.endswith(ENDINGS) and not name.startswith(".")
        ]
    return sorted(found)


def _missing(path: str) -> SpecError:
    parent = Path(path).parent
    message = "there is no such file or folder"
    if not parent.is_dir():
        return SpecError("GC901", path, message, help=f"there is no folder {parent}")
    names = [entry.name for entry in parent.iterdir() if not entry.name.startswith(".")]
    wanted = Path(path).name
    choices = [name for name in names if name.endswith(ENDINGS) or (parent / name).is_dir()]
    same_stem = [name for name in choices if Path(name).stem == wanted]
    near = same_stem or difflib.get_close_matches(wanted, choices, 1, 0.6)
    help = f"did you mean `{parent / near[0]}`?" if near else ""
    return SpecError("GC901", path, message, help=help)
