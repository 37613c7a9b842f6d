"""One exception type per exit code, and a warning."""

from __future__ import annotations

import sys
from os.path import dirname, join

from gradcheck_cli.domain.place import cell_of


class GradcheckError(Exception):
    """Base class of errors that are reported to the user in words. `exit_code` is the command's."""

    exit_code = 3


class Brief(Exception):
    """An error in the user's call or layer, which IPython shows without gradcheck's own frames."""

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows: those that led to the call, the message and its notes."""
        notes = getattr(self, "__notes__", ())
        return [*user_frames(self), f"{type(self).__name__}: {self}", *notes]


class UsageError(Brief, GradcheckError):
    """The command line, the configuration, or the choice of an engine is invalid."""

    exit_code = 2

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.help = help
        if help:
            self.add_note(f"help: {help}")  # Python shows notes below the message


class NoGradientError(UsageError, ValueError):
    """No input of a call is differentiated. It is a ValueError because torch's callers expect
    one."""


class IgnoredArgumentWarning(UserWarning):
    """A drop-in ignores an argument that only the framework's own check has a use for."""


class Interrupted(GradcheckError):
    """The user pressed Ctrl-C."""

    exit_code = 130


class Stopped(KeyboardInterrupt):
    """A signal asks the process to end, like Ctrl-C."""

    def __init__(self, signal: int) -> None:
        super().__init__()
        self.signal = signal


def interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """The KeyboardInterrupt that this exception is or was raised from; None without one. Compiled
    code and libraries may raise another exception when they are interrupted."""
    met: set[int] = set()
    while error is not None and id(error) not in met:
        if isinstance(error, KeyboardInterrupt):
            return error
        met.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def user_frames(error: BaseException) -> list[str]:
    """The lines of a traceback, without gradcheck's own frames and IPython's."""
    import traceback  # it takes longer to import than this package

    folders = [dirname(dirname(__file__))]
    if shell := getattr(sys.modules.get("IPython"), "__file__", None):
        folders.append(dirname(shell))
    hidden = tuple(join(folder, "") for folder in folders)
    frames = traceback.extract_tb(error.__traceback__)
    shown = [frame for frame in frames if not frame.filename.startswith(hidden)]
    lines = [line.rstrip("\n") for line in traceback.format_list(shown)]
    names = [(f'File "{frame.filename}"', cell_of(frame.filename)) for frame in shown]
    return [
        line.replace(file, cell) if cell else line
        for line, (file, cell) in zip(lines, names, strict=True)
    ]
