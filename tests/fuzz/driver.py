"""What all fuzzers share: how inputs are drawn, what a finding is, and the figures at the end."""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TextIO, TypeVar

import numpy as np

Input = TypeVar("Input")

FINDINGS = Path(".fuzz")
"""Where failing inputs are written, in the folder that the fuzzer was started in."""


@dataclass(frozen=True)
class Finding:
    """Something that must not happen.

    index       the number of the input: with the seed and the fuzzer's name it is drawn again
    says        what happened, in a sentence or in lines
    text        the input as a file, as small as it could be made
    ending      of the file's name
    """

    index: int
    says: str
    text: str
    ending: str = ".yaml"


class Fuzzer(AbstractContextManager["Fuzzer"], Protocol):
    """One kind of inputs. It is entered once and checks any number of batches.

    `name` is what the command line calls it, `counted` what it did, for the figures.
    """

    name: str
    counted: Counter[str]

    def check(self, seed: int, indices: Sequence[int]) -> Iterator[Finding]:
        """Draws the inputs with these numbers, checks them, and yields what is wrong."""


@dataclass
class Figures:
    """What one fuzzer did. `seconds` have passed; `processor` are those of all its processes."""

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
        """Of another process that worked at the same time."""
        self.inputs += other.inputs
        self.seconds = max(self.seconds, other.seconds)
        self.processor += other.processor
        self.findings += other.findings
        self.counted += other.counted


def drawn(seed: int, name: str, index: int) -> np.random.Generator:
    """The generator of one input: the same for the same three, whatever else is drawn."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), index])


def fuzz_at_once(
    make: Callable[[], Fuzzer], seed: int, indices: Sequence[int], jobs: int
) -> Figures:
    """Checks the inputs in so many processes, each in its turn; prints as `fuzz` does."""
    if min(jobs, len(indices)) <= 1:
        return _fuzz_part(make, seed, indices)
    with ProcessPoolExecutor(jobs) as processes:
        parts = [
            processes.submit(_fuzz_part, make, seed, indices[first::jobs]) for first in range(jobs)
        ]
        figures = parts[0].result()
        for part in parts[1:]:
            figures.add(part.result())
    return figures


def _fuzz_part(make: Callable[[], Fuzzer], seed: int, indices: Sequence[int]) -> Figures:
    return fuzz(make(), seed, indices, sys.stdout)


def fuzz(
    fuzzer: Fuzzer, seed: int, indices: Sequence[int], out: TextIO, batch: int = 40
) -> Figures:
    """Checks the inputs in batches; each finding is printed when it comes, with the command that
    repeats it, and its input is written to a file."""
    figures = Figures(fuzzer.name)
    start, used = time.monotonic(), _processor_seconds()
    with fuzzer:
        for first in range(0, len(indices), batch):
            chosen = indices[first : first + batch]
            for finding in fuzzer.check(seed, chosen):
                figures.findings.append(finding)
                print(_told(fuzzer.name, seed, finding), file=out, flush=True)
            figures.inputs += len(chosen)
    figures.seconds = time.monotonic() - start
    figures.processor = _processor_seconds() - used
    figures.counted = fuzzer.counted
    return figures


def _processor_seconds() -> float:
    """Of this process and of all that it waited for."""
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
    """A smaller input that still fails: the first that does is taken, until none does or the
    attempts are used up."""
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
