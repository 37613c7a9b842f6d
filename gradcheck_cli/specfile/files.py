"""The files that a command line stands for: files, folders, globs and standard input."""

from __future__ import annotations

import difflib
import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.place import STDIN
from gradcheck_cli.domain.report import SpecError
from gradcheck_cli.specfile.text import MAX_BYTES, reason
from gradcheck_cli.specfile.yaml_tree import documents
from gradcheck_cli.specfile.yaml_values import Mapping

ENDINGS = (".yaml", ".yml")
OWN_ENDINGS = (".gradcheck.yaml", ".gradcheck.yml")
"""A file of a folder that is called so is a spec, whatever is in it."""

_KEYS = ("model", "implementations")
_TABLE = r"[ \t]*(\{|(#.*)?\n[ \t]+[\w.-]+[ \t]*:\s)"
_NAMED = re.compile(rf"^(model\s*:(?!{_TABLE})|implementations\s*:)", re.MULTILINE)
"""What tells a spec before it is parsed. A `model` that is a table is somebody else's."""
_PACKAGES = frozenset(("node_modules", "site-packages", "__pycache__"))


class Expanded(NamedTuple):
    """The spec files in order, each once; a GC901 for each path that does not exist or cannot be
    read; and the number of YAML files that were `skipped` because they are not specs."""

    files: list[str]
    errors: list[SpecError]
    skipped: int


def expand(paths: Iterable[str]) -> Expanded:
    """The spec files that the paths stand for.

    A folder stands for the specs in it at any depth, in the order of their names. Hidden folders
    and installed packages are left out. A folder may contain no spec, and `.` does not appear in
    the names. Specs in a folder are the files *.gradcheck.yaml, and YAML files with a formula under
    `model`, or with the key `implementations`, at the left edge. A name with `*`, `?` or `[` that
    is not a file is a pattern (`**` crosses folders); a pattern that matches nothing is an error. A
    file that is named is a spec, whatever its name, unless it is Python code. "-" is standard
    input.
    """
    search = _Search()
    files: dict[PurePath, str] = {}  # by their paths, in which `.` means nothing
    for path in paths:
        if path.endswith(".py") and _kind(path) == "file":
            help = f"`gradcheck layer {path}:NAME --input x=2x3` checks a layer in it"
            message = "this is Python code, not a spec"
            search.errors.append(SpecError(Codes.UNREADABLE_FILE, path, message, help=help))
        elif path == STDIN or _kind(path):
            _add(files, search.specs(path))
        elif glob.has_magic(path):
            matches = [
                spec
                for match in sorted(glob.glob(path, recursive=True))
                for spec in search.specs(match)
            ]
            _add(files, matches)
            if not matches:
                search.errors.append(
                    SpecError(Codes.UNREADABLE_FILE, path, "the pattern matches no spec")
                )
        else:
            search.errors.append(_missing_file(path))
    others = set(map(PurePath, search.others))
    return Expanded(list(files.values()), search.errors, len(others - files.keys()))


def _add(files: dict[PurePath, str], names: Iterable[str]) -> None:
    """Adds those that are not there, however they are written: `a.yaml` is `./a.yaml`."""
    for name in names:
        files.setdefault(PurePath(name), name)


def _kind(path: str) -> str:
    """ "folder", "file", "something" (such as a pipe), or an empty string if the path does not
    exist."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return ""
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "something"


class _Search:
    """Looks for specs. Notes folders that cannot be read, and counts YAML files that are not
    specs."""

    def __init__(self) -> None:
        self.errors: list[SpecError] = []
        self.others: set[str] = set()

    def specs(self, path: str) -> list[str]:
        """The specs of a folder; any other path itself."""
        if path == STDIN or _kind(path) != "folder":
            return [path]
        names = []
        for name in sorted(self._yaml_files(path)):
            if _is_spec(name):
                names.append(name)
            else:
                self.others.add(name)
        return names

    def _yaml_files(self, folder: str) -> Iterator[str]:
        for root, folders, names in os.walk(folder, onerror=self._report_unreadable):
            folders[:] = sorted(name for name in folders if not is_skipped_folder(root, name))
            for name in names:
                if name.endswith(ENDINGS) and not name.startswith("."):
                    yield os.path.normpath(os.path.join(root, name))

    def _report_unreadable(self, error: OSError) -> None:
        message = f"the folder cannot be read: {reason(error)}"
        self.errors.append(SpecError(Codes.UNREADABLE_FILE, str(error.filename), message))


def is_skipped_folder(root: str, name: str) -> bool:
    """Whether a folder is hidden, or contains installed code: a virtual environment or packages."""
    installed = name in _PACKAGES or os.path.lexists(os.path.join(root, name, "pyvenv.cfg"))
    return name.startswith(".") or installed


def _is_spec(path: str) -> bool:
    """Whether a YAML file in a folder is a spec, by its name or by its keys. A file that cannot be
    read counts as a spec, so that the reader reports why. A pipe or a device does not, because
    reading it may never end."""
    if _kind(path) == "something":
        return False
    if path.endswith(OWN_ENDINGS):
        return True
    try:
        with Path(path).open("rb") as stream:
            text = stream.read(MAX_BYTES).decode("utf-8-sig", errors="replace")
    except OSError:
        return True
    if not any(key in text for key in _KEYS):
        return False
    if _NAMED.search(text):
        return True
    roots = (document.root for document in documents(text))
    return any(isinstance(root, Mapping) and _has_key(root) for root in roots)


def _has_key(root: Mapping) -> bool:
    formula, layers = (root.values.get(key) for key in _KEYS)
    return layers is not None or not (formula is None or isinstance(formula, Mapping))


def _missing_file(path: str) -> SpecError:
    parent = Path(path).parent
    try:
        names = [name for name in os.listdir(parent) if not name.startswith(".")]
        os.stat(path)
    except FileNotFoundError:
        if not parent.is_dir():
            message = "there is no such file or folder"
            return SpecError(
                Codes.UNREADABLE_FILE, path, message, help=f"there is no folder {parent}"
            )
    except (OSError, ValueError) as error:
        return SpecError(Codes.UNREADABLE_FILE, path, f"the file cannot be read: {reason(error)}")
    wanted = Path(path).name
    choices = [name for name in names if name.endswith(ENDINGS) or (parent / name).is_dir()]
    same_stem = [name for name in choices if Path(name).stem == wanted]
    near = same_stem or difflib.get_close_matches(wanted, choices, 1, 0.6)
    help = f"did you mean `{parent / near[0]}`?" if near else ""
    return SpecError(Codes.UNREADABLE_FILE, path, "there is no such file or folder", help=help)
