"""One exception type per exit code."""

from __future__ import annotations


class GradcheckError(Exception):
    """Base of every error that is reported to the user in words. `exit_code` is the command's."""

    exit_code = 3


class UsageError(GradcheckError):
    """The command line, the configuration, or the choice of an engine is invalid."""

    exit_code = 2

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.help = help


class Interrupted(GradcheckError):
    """Ctrl-C."""

    exit_code = 130


class Stopped(KeyboardInterrupt):
    """A signal asks the process to end, as Ctrl-C does."""

    def __init__(self, signal: int) -> None:
        super().__init__()
        self.signal = signal


def interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """The KeyboardInterrupt that this exception is, or that it was raised from: compiled code and
    libraries may raise another exception where they were interrupted."""
    met: set[int] = set()
    while error is not None and id(error) not in met:
        if isinstance(error, KeyboardInterrupt):
            return error
        met.add(id(error))
        error = error.__cause__ or error.__context__
    return None
