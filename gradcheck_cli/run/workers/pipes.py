"""The three pipes of a worker, served together so that none of them blocks the others."""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import subprocess
import sys
import threading
import time
from typing import IO, Literal, Protocol

_PIECE = 1 << 16
_AHEAD = 64  # pieces that are read before anybody takes them
_LAST_S = 1.0  # for the last words of a worker; a process that it started may hold the pipe open

Name = Literal["answers", "words"]
"""Standard output, which is the channel, and standard error."""


class Pipes(Protocol):
    def send(self, data: bytes) -> None:
        """Queues bytes for the worker. They are sent during `wait`."""

    def wait(self, seconds: float) -> list[tuple[Name, bytes]]:
        """The bytes that have arrived from each pipe, after at most this time. No bytes: that pipe
        is closed."""

    def rest(self) -> bytes:
        """The remaining bytes of standard error after the worker has ended."""

    def close(self) -> None: ...


def pipes_of(process: subprocess.Popen[bytes]) -> Pipes:
    """The pipes of a worker. On Windows each pipe has a thread, because Windows cannot wait for
    pipes."""
    return Threaded(process) if sys.platform == "win32" else Polled(process)


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # `spawn` makes all three
    return stream


class Polled:
    """One thread waits for all pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._streams = (_stream(process.stdin), _stream(process.stdout), _stream(process.stderr))
        self._stdin, self._stdout, self._stderr = (stream.fileno() for stream in self._streams)
        self._unsent = memoryview(b"")
        self._selector = selectors.DefaultSelector()
        for descriptor in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(descriptor, False)
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._selector.register(self._stderr, selectors.EVENT_READ)

    def send(self, data: bytes) -> None:
        self._unsent = memoryview(data)
        if self._stdin not in self._selector.get_map():  # else what was sent before is not out yet
            self._selector.register(self._stdin, selectors.EVENT_WRITE)

    def wait(self, seconds: float) -> list[tuple[Name, bytes]]:
        arrived: list[tuple[Name, bytes]] = []
        for key, _ in self._selector.select(seconds):
            if key.fd == self._stdin:
                self._write()
                continue
            with contextlib.suppress(BlockingIOError):
                data = os.read(key.fd, _PIECE)
                if not data:
                    self._selector.unregister(key.fd)
                arrived.append(("answers" if key.fd == self._stdout else "words", data))
        return arrived

    def _write(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._stdin, self._unsent) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent = memoryview(b"")  # the end of the other pipe tells the rest
        if not self._unsent:
            self._selector.unregister(self._stdin)

    def rest(self) -> bytes:
        parts = []
        with contextlib.suppress(OSError):
            while data := os.read(self._stderr, _PIECE):
                parts.append(data)
        return b"".join(parts)

    def close(self) -> None:
        self._selector.close()
        for stream in self._streams:
            stream.close()


class Threaded:
    """A thread for each pipe. A reading thread pauses until its bytes are taken.

    Each thread closes its own pipe, and only when it ends. If another thread closed it, the number
    of the descriptor could belong to the pipe of another worker before a pending read uses it.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._found: queue.Queue[tuple[Name, bytes]] = queue.Queue(_AHEAD)
        self._unsent: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._closed = False
        self._ended: set[Name] = set()
        stdin, stdout, stderr = map(_stream, (process.stdin, process.stdout, process.stderr))
        for target in (
            lambda: self._write(stdin),
            lambda: self._forward_stream("answers", stdout),
            lambda: self._forward_stream("words", stderr),
        ):
            threading.Thread(target=target, name="pipe of a worker", daemon=True).start()

    def _forward_stream(self, name: Name, stream: IO[bytes]) -> None:
        data = b"more"
        with stream:
            while data and not self._closed:
                try:
                    data = os.read(stream.fileno(), _PIECE)
                except OSError:
                    data = b""
                while not self._closed:
                    with contextlib.suppress(queue.Full):
                        self._found.put((name, data), timeout=0.1)
                        break

    def _write(self, stream: IO[bytes]) -> None:
        with stream:
            while (data := self._unsent.get()) is not None:
                left = memoryview(data)
                try:
                    while left:
                        left = left[os.write(stream.fileno(), left) :]
                except OSError:  # the end of the other pipe tells the rest
                    return

    def send(self, data: bytes) -> None:
        self._unsent.put(data)

    def wait(self, seconds: float) -> list[tuple[Name, bytes]]:
        arrived = []
        with contextlib.suppress(queue.Empty):
            arrived.append(self._found.get(timeout=max(seconds, 0.001)))
            while True:
                arrived.append(self._found.get_nowait())
        self._ended.update(name for name, data in arrived if not data)
        return arrived

    def rest(self) -> bytes:
        arrived, until = [], time.monotonic() + _LAST_S
        while "words" not in self._ended and (left := until - time.monotonic()) > 0:
            arrived += self.wait(left)
        return b"".join(data for name, data in arrived if name == "words")

    def close(self) -> None:
        """Ends the threads, each after its worker has ended."""
        self._closed = True
        self._unsent.put(None)
