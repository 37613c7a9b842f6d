"""The parent's end of one worker process."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from gradcheck_cli.domain.placement import HOST, Placement
from gradcheck_cli.run.workers import channel, family, memory, output
from gradcheck_cli.run.workers.launch import adopt, mark_of, spawn
from gradcheck_cli.run.workers.pipes import pipes_of

_TAIL = 1 << 14  # bytes of the worker's last words that are kept: faulthandler says a lot
# How often a worker is looked at: its child may hold its pipes open when it is gone, and at some
# gigabytes a second it must not have taken the machine before it is seen.
_POLL_S = 0.1
_FAREWELL_S = 0.5  # for an idle worker to end by itself before it is killed


COMPILING_LIMIT_S = 300.0
"""For a compiler, which has 120 s of its own, and for the one of another process before it."""

NOTABLE = 1e9  # bytes that make a worker a suspect where the machine runs out of memory


class Died(Exception):
    """The worker has ended; the message says how."""


class Spent(Exception):
    """The worker gives no more answers; the message says what the code of a user has changed in
    it."""


class TimedOut(Exception):
    """No message came in time."""


class TookTooMuch(Exception):
    """The worker holds more memory than it may; the message says how much."""


class Process:
    """A worker, its channel, and the end of its printed output.

    All methods must be called from one thread, except `kill`.
    """

    def __init__(
        self, target: str, show_output: bool, placement: Placement = HOST, folder: str | None = None
    ) -> None:
        if folder is not None or placement != HOST:
            where = () if placement == HOST else (placement.device, placement.matmul)
            self._popen = spawn(target, where, folder)
        else:
            self._popen = adopt(target) or spawn(target)
        self._show_output = show_output
        self._shown = output.Shown()
        self._decoder = channel.Decoder()
        self._tail = bytearray()
        self._mark = mark_of(self._popen)
        self._expected = 0  # the number of the next answer
        self._boundary = False
        self._compiled_s = 0.0  # what compilers took since it was asked
        self._over = False  # nothing more comes
        self._held = 0  # bytes of memory when it was last sent something
        self._looked = 0.0
        self._pipes = pipes_of(self._popen)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def last_words(self) -> str:
        """The end of what the worker printed."""
        text = bytes(self._tail).decode("utf-8", "replace").strip()
        return text if len(self._tail) < _TAIL else "... " + text

    def ask(self, questions: Sequence[Any], boundary: bool = False) -> None:
        """Queues the questions; they are sent while `receive` waits. The memory of the worker is
        measured from here on. `boundary`: the questions are about another spec than the previous
        ones."""
        self._boundary = boundary
        self._compiled_s = 0.0
        data = channel.encode(channel.Request(self._expected, questions, boundary))
        self._decoder.largest = channel.LARGEST + len(data)
        self._held = memory.held_bytes(self.pid) or 0
        self._pipes.send(data)

    def answer(
        self,
        deadline: float,
        most: float = math.inf,
        so_far: Callable[[Any], None] = lambda value: None,
    ) -> Any:
        """The answer to the next question. `so_far` receives parts that are already known.
        `deadline` is extended by the time that compilers took. Raises the errors of `receive`, and
        Spent if the questions are about another spec."""
        while True:
            message = self.receive(deadline + self._compiled_s, most)
            if isinstance(message, channel.SoFar):
                so_far(message.value)
                continue
            if message != channel.Compiling(begins=True):
                break
            start = time.monotonic()
            message = self.receive(start + COMPILING_LIMIT_S, most)
            if message != channel.Compiling(begins=False):
                break
            self._compiled_s += time.monotonic() - start
        if isinstance(message, channel.Spent) and self._boundary:
            raise Spent(message.what)
        if not isinstance(message, channel.Answer) or message.number != self._expected:
            raise Died("broke its channel: its answer matches no question")
        self._expected += 1
        return message.value

    def receive(self, deadline: float, most: float = math.inf) -> channel.Message:
        """The next message. `deadline` is a time of time.monotonic, `most` the memory in bytes that
        the worker may hold meanwhile. Raises Died, TimedOut or TookTooMuch."""
        while True:
            try:
                message = self._decoder.take()
            except channel.BrokenChannel as error:
                raise Died(f"broke its channel: {error}") from error
            if message is not None:
                return message
            if self._over:
                raise Died(self._exit_words())
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut
            self._look_at_memory(most)
            ended = self._popen.poll() is not None
            arrived = self._pipes.wait(0 if ended else min(left, _POLL_S))
            for name, data in arrived:
                if name == "words":
                    self._keep(data)
                    continue
                self._decoder.feed(data)
                self._over = not data
            self._over |= ended and not arrived

    def _look_at_memory(self, most: float) -> None:
        now = time.monotonic()
        if now - self._looked < _POLL_S or most == math.inf:
            return
        self._looked = now
        bound = memory.held_at_most(self.pid) - self._held
        if bound <= most and (bound <= NOTABLE or not memory.is_scarce()):
            return
        taken = (memory.held_bytes(self.pid) or 0) - self._held
        if taken > most:
            raise TookTooMuch(f"took more than {most / 1e9:g} GB of memory")
        if taken > NOTABLE and memory.is_scarce():  # before the system chooses whom to kill
            words = f"took {taken / 1e9:.1f} GB of memory, and the machine has almost none left"
            raise TookTooMuch(words)

    def _keep(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-_TAIL:]
        if self._show_output and data:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(self._shown(data))
                sys.stderr.flush()

    def stack(self) -> str:
        """The stack of a busy worker, innermost call first, as the worker prints it on request.
        Empty if it does not answer at once. Its current questions are lost."""
        self._tail.clear()
        if family.WHERE is None:
            return ""
        with contextlib.suppress(OSError):
            os.kill(self.pid, family.WHERE)
        deadline = time.monotonic() + _FAREWELL_S
        while time.monotonic() < deadline:
            words = b"".join(data for name, data in self._pipes.wait(_POLL_S) if name == "words")
            if not words and self._tail:  # that was all
                break
            self._keep(words)
        return self.last_words

    def _exit_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(1.0)  # the channel closes a moment before the process is gone
        self._keep(self._pipes.rest())
        code = self._popen.returncode
        if code is None:
            return "closed its channel"
        if code >= 0:
            return f"exited with code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        memory = ", perhaps for lack of memory" if name == "SIGKILL" else ""
        return f"killed by {name}{memory}"

    def kill(self) -> None:
        """Ends the worker and everything that it started, at once. May be called again."""
        family.end(self._popen, self._mark)

    def close(self) -> None:
        """Asks an idle worker to end, waits for a moment, and kills it if it has not ended."""
        assert self._popen.stdin
        family.end_descendants(self.pid)
        self._mark = ""  # nothing is left that would have to be looked for
        self._popen.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(_FAREWELL_S)
        self.release()

    def release(self) -> None:
        """Kills what is left, and closes the descriptors."""
        self.kill()
        self._pipes.close()
