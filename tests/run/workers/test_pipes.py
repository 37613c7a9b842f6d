"""Both ways to wait for a worker's pipes: what is sent arrives, and what comes is named."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from gradcheck_cli.run.workers.pipes import Pipes, Polled, Threaded

ECHO = """
import os
while data := os.read(0, 4096):
    while data:
        data = data[os.write(1, data):]
"""
Start = Callable[[str], tuple[subprocess.Popen[bytes], Pipes]]


@pytest.fixture(params=[Polled, Threaded])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    begun: list[tuple[subprocess.Popen[bytes], Pipes]] = []

    def begin(code: str) -> tuple[subprocess.Popen[bytes], Pipes]:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        begun.append((process, request.param(process)))
        return begun[-1]

    yield begin
    for process, pipes in begun:
        process.kill()
        process.wait()
        pipes.close()


def heard(pipes: Pipes, name: str, length: int | None = None) -> bytes:
    """What comes by this name: so many bytes, or all until its end."""
    data, deadline = b"", time.monotonic() + 30
    while time.monotonic() < deadline:
        for which, piece in pipes.wait(0.2):
            if which == name:
                data += piece
                if not piece and length is None:
                    return data
        if length is not None and len(data) >= length:
            return data
    raise AssertionError(f"after 30 s: {len(data)} bytes")


def test_more_than_a_pipe_holds_goes_out_while_answers_come_in(start: Start) -> None:
    _, pipes = start(ECHO)
    sent = bytes(range(256)) * 4000
    pipes.send(sent)
    assert heard(pipes, "answers", len(sent)) == sent


def test_answers_and_words_are_told_apart_and_each_has_an_end(start: Start) -> None:
    code = "import sys; print('answer'); print('word', file=sys.stderr)"
    for name, words in (("answers", b"answer"), ("words", b"word")):
        _, pipes = start(code)
        assert heard(pipes, name).strip() == words


def test_the_wait_ends_in_time_where_nothing_comes(start: Start) -> None:
    _, pipes = start("import time; time.sleep(60)")
    begun = time.monotonic()
    assert pipes.wait(0.1) == []
    assert time.monotonic() - begun < 10


def test_a_worker_that_no_longer_listens_raises_nothing(start: Start) -> None:
    process, pipes = start("import os; os.close(0); print('closed', flush=True); input")
    process.wait()
    pipes.send(b"x" * 1_000_000)
    assert heard(pipes, "answers").strip() == b"closed"


def test_a_late_read_takes_nothing_from_another_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ""],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    read, late = os.read, threading.Event()

    def reads_late(descriptor: int, length: int) -> bytes:
        late.wait(30)
        return read(descriptor, length)

    monkeypatch.setattr(os, "read", reads_late)
    threads = set(threading.enumerate())
    pipes = Threaded(process)
    process.wait()
    pipes.close()
    others = [os.pipe() for _ in range(3)]  # they get the lowest numbers that are free
    try:
        for here, there in others:
            os.set_blocking(here, False)
            os.write(there, b"an answer")
        late.set()
        for thread in set(threading.enumerate()) - threads:
            thread.join(30)
        assert [read(end, 99) for end, _ in others] == [b"an answer"] * 3
    finally:
        for ends in others:
            for end in ends:
                os.close(end)


def test_the_last_words_are_there_after_the_end(start: Start) -> None:
    process, pipes = start("import sys; sys.stderr.write('last words')")
    process.wait()
    assert pipes.rest() == b"last words"
