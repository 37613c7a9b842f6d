"""Shared by all fuzzers: how inputs are drawn, what a finding is, and the final figures."""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TextIO, TypeVar

import numpy as np

Input = TypeVar("Input")

FINDINGS = Path(".fuzz")
"""Where failing inputs are written, in the folder that the fuzzer was started in."""

BATCH = 20
"""Inputs that are checked together, at most; so much later another process may end."""


@dataclass(frozen=True)
class Finding:
    """Something that must not happen.

    index       the number of the input, which the seed and the fuzzer's name draw again
    says        what happened, in a sentence or in lines
    text        the input as a file, as small as it could be made
    ending      the end of the file's name
    """

    index: int
    says: str
    text: str
    ending: str = ".yaml"


class Fuzzer(AbstractContextManager["Fuzzer"], Protocol):
    """One kind of input. It is entered once, and checks any number of batches.

    `name` is its name on the command line. `counted` has what it did, for the figures.
    """

    name: str
    counted: Counter[str]

    def check(self, seed: int, indices: Sequence[int]) -> Iterator[Finding]:
        """Draw the inputs with these numbers, check them, and yield the findings."""


@dataclass
class Figures:
    """The work of one fuzzer. `seconds` is wall-clock time, and `processor` the time of all its
    processes."""

    name: str
    inputs: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        rate = self.inputs / self.seconds if self.seconds else 0.0
        line = (
            f"{self.name:10} {self.inputs:7} inputs {len(self.findings):5} findings "
            f"{self.seconds:7.1f} s  {self.processor:7.1f} s of processors  {rate:6.1f}/s"
        )
        told = [f"    {count:8} {what}" for what, count in sorted(self.counted.items())]
        return "\n".join([line, *told])

    def add(self, other: Figures) -> None:
        """Add the figures of another process that worked at the same time."""
        self.inputs += other.inputs
        self.seconds = max(self.seconds, other.seconds)
        self.processor += other.processor
        self.findings += other.findings
        self.counted += other.counted


def drawn(seed: int, name: str, index: int) -> np.random.Generator:
    """The generator of one input, which depends only on these three."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), index])


class Processes(AbstractContextManager["Processes"]):
    """Several processes that check inputs at once."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._taken: Any = multiprocessing.Value("q", 0)
        self._pool = ProcessPoolExecutor(jobs, initializer=_begin, initargs=(self._taken,))

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def fuzz(self, make: Callable[[], Fuzzer], seed: int, indices: Sequence[int]) -> Figures:
        """Check the inputs, each batch in the next free process. Prints as `fuzz` does."""
        self._taken.value = 0
        given = make, seed, indices, min(BATCH, math.ceil(len(indices) / self._jobs))
        parts = [self._pool.submit(_fuzz_part, *given) for _ in range(self._jobs)]
        figures = parts[0].result()
        for part in parts[1:]:
            figures.add(part.result())
        return figures


_taken: Any = None
"""How many inputs of the kind are taken, in all processes of a pool."""


def _begin(taken: Any) -> None:
    global _taken
    _taken = taken


def _fuzz_part(make: Callable[[], Fuzzer], seed: int, indices: Sequence[int], size: int) -> Figures:
    return fuzz(make(), seed, _next_batches(indices, size))


def _next_batches(indices: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Batches that no other process takes."""
    while True:
        with _taken.get_lock():
            first = _taken.value
            _taken.value += size
        if first >= len(indices):
            return
        yield indices[first : first + size]


def fuzz(
    fuzzer: Fuzzer, seed: int, parts: Iterable[Sequence[int]], out: TextIO = sys.stdout
) -> Figures:
    """Check the inputs of each part. Each finding is printed at once, with the command that repeats
    it, and its input is written to a file."""
    figures = Figures(fuzzer.name)
    start, used = time.monotonic(), _processor_seconds()
    with fuzzer:
        for chosen in parts:
            for finding in fuzzer.check(seed, chosen):
                figures.findings.append(finding)
                print(_told(fuzzer.name, seed, finding), file=out, flush=True)
            figures.inputs += len(chosen)
    figures.seconds = time.monotonic() - start
    figures.processor = _processor_seconds() - used
    figures.counted = fuzzer.counted
    return figures


def _processor_seconds() -> float:
    """The processor seconds of this process and of all children that it waited for."""
    return sum(os.times()[:4])


def _told(name: str, seed: int, finding: Finding) -> str:
    FINDINGS.mkdir(exist_ok=True)
    path = FINDINGS / f"{name}-{seed}-{finding.index}{finding.ending}"
    path.write_text(finding.text, "utf-8", errors="surrogatepass")
    return (
        f"{name} {finding.index}: {finding.says}\n"
        f"  input   {path}\n"
        f"  repeat  python -m tests.fuzz {name} --seed {seed} --only {finding.index}"
    )


def shrunk(
    input: Input,
    smaller: Callable[[Input], Iterator[Input]],
    fails: Callable[[Input], bool],
    attempts: int = 30,
) -> Input:
    """A smaller input that still fails. The first smaller one that fails is taken, until none does
    or the attempts are used up."""
    while attempts > 0:
        for candidate in smaller(input):
            attempts -= 1
            if fails(candidate):
                input = candidate
                break
            if attempts <= 0:
                return input
        else:
            return input
    return input
