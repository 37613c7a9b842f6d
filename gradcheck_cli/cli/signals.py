"""The signals that end a command: Ctrl-C, SIGTERM (from `timeout`, CI and containers) and SIGHUP
(from a terminal that closes). This module is imported before all others, and imports nothing
heavy."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NoReturn

from gradcheck_cli.domain.errors import Stopped

ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
SIGNALLED = 128  # and the number of the signal is the exit code, as shells have it
INTERRUPTED = "error: interrupted"

Handler = Callable[[int, FrameType | None], None]


def install(handler: Handler) -> dict[int, Any]:
    """Send the signals to `handler`. Returns the previous handlers for `restore`. Outside the main
    thread nothing is changed, and the result is empty."""
    before: dict[int, Any] = {}
    if threading.current_thread() is not threading.main_thread():
        return before
    for name in ENDING:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is None:
            continue
        if name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN:
            continue  # started with `nohup`
        before[number] = signal.signal(number, handler)
    return before


def restore(before: Mapping[int, Any]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)


def leave(number: int, frame: FrameType | None) -> NoReturn:
    """End the process with a message, before anything has begun or after everything is done. An
    exception would interrupt an import, or the end of the interpreter, and show Python's
    traceback."""
    try:
        if sys.stderr is not None:
            os.write(2, f"{INTERRUPTED}\n".encode())
    finally:
        os._exit(SIGNALLED + number)


def stop(number: int, frame: FrameType | None) -> NoReturn:
    """Raise Stopped."""
    raise Stopped(number)
