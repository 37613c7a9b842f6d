"""Writes reports to standard output, or to files, which appear when they are complete."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal, TextIO

from gradcheck_cli.cli.streams import write_reason
from gradcheck_cli.domain.errors import UsageError

STANDARD = "-"
_OF_PROCESSES = ("/dev/", "/proc/")
"""Folders whose names refer to files that a process has open. These must not be replaced."""


class Output:
    """The destination of a report. `file` is "-" for standard output.

    A file is written under another name in the same folder, and `keep` moves it to its place in one
    step, so a run that is killed leaves the previous file. Anything else (a pipe, a terminal,
    /dev/stdout) is written directly, and so is the end of a file that others write to as well
    (`append`). Raises UsageError if writing is impossible.
    """

    def __init__(self, file: str, *, append: bool = False) -> None:
        self.name = "standard output" if file == STANDARD else file
        self.path: Path | None = None
        self.replaces = False
        self._unfinished = ""
        try:
            if file != STANDARD:
                self.path = Path(os.path.realpath(file))
            self.stream = self._open(file, append)
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            raise self.failed(error) from error

    def _open(self, file: str, append: bool) -> TextIO:
        if self.path is None:
            return sys.stdout
        direct = file.startswith(_OF_PROCESSES)
        try:
            mode = os.stat(file if direct else self.path).st_mode
        except FileNotFoundError:
            umask = os.umask(0)
            os.umask(umask)
            mode = stat.S_IFREG | 0o666 & ~umask
        if append or direct or not stat.S_ISREG(mode):
            how: Literal["a", "w"] = "a" if append else "w"
            return open(file, how, encoding="utf-8", errors="backslashreplace")
        self.replaces = True
        name = self.path.name[:100]  # the length of a file name is limited
        import tempfile  # not needed without reports

        handle, self._unfinished = tempfile.mkstemp(".unfinished", f".{name}.", self.path.parent)
        os.chmod(self._unfinished, stat.S_IMODE(mode))
        return open(handle, "w", encoding="utf-8", errors="backslashreplace")

    def failed(self, error: OSError | ValueError) -> UsageError:
        """The error for an output that fails."""
        reason = write_reason(error) if isinstance(error, OSError) else str(error)
        return UsageError(f"cannot write to {self.name}: {reason}")

    def put(self, text: str) -> None:
        """Write a whole file at once. Raises UsageError."""
        try:
            self.stream.write(text)
        except OSError as error:
            raise self.failed(error) from error
        self.keep()

    def keep(self) -> None:
        """Complete the report and move it to its place. Raises UsageError."""
        try:
            if self.path is None:
                self.stream.flush()
                return
            self.stream.close()
            if self.replaces:
                os.replace(self._unfinished, self.path)
                self._unfinished = ""
        except OSError as error:
            raise self.failed(error) from error

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove a report that was not kept."""
        if self.path is not None:
            with suppress(OSError):  # the content is discarded anyway
                self.stream.close()
        if self._unfinished:
            os.unlink(self._unfinished)


def new_file(file: str, text: str) -> None:
    """Write a file that does not exist yet, and create its folders. Raises UsageError."""
    if os.path.lexists(file):
        raise UsageError(f"{file} already exists", "name another file, or remove this one")
    make_folder(os.path.dirname(file) or os.curdir)
    with Output(file) as output:
        output.put(text)


def make_folder(folder: str) -> None:
    """Create a folder and its parents if they do not exist. Raises UsageError."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {write_reason(error)}") from error


def check_targets(outputs: Iterable[Output], inputs: Iterable[str]) -> None:
    """Raise UsageError if a report would overwrite an input or another report."""
    replacing = [output for output in outputs if output.replaces]
    taken = {os.path.realpath(file): "is an input of this run" for file in inputs if replacing}
    for output in replacing:
        place = str(output.path)
        if place in taken:
            raise UsageError(f"{output.name} {taken[place]}: the report would overwrite it")
        taken[place] = "is another report of this run"
