"""What all fuzzers share: how inputs are drawn, what a finding is, and the figures at the end."""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
    """What one fuzzer did."""

    name: str
    inputs: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        rate = self.inputs / self.seconds if self.seconds else 0.0
        line = (
            f"{self.name:10} {self.inputs:7} inputs {len(self.findings):5} findings "
            f"{self.seconds:7.1f} s  {rate:6.1f}/s"
        )
        told = [f"    {count:8} {what}" for what, count in sorted(self.counted.items())]
        return "\n".join([line, *told])


def drawn(seed: int, name: str, index: int) -> np.random.Generator:
    """The generator of one input: the same for the same three, whatever else is drawn."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), index])


def fuzz(
    fuzzer: Fuzzer, seed: int, indices: Sequence[int], out: TextIO, batch: int = 40
) -> Figures:
    """Checks the inputs in batches; each finding is printed when it comes, with the command that
    repeats it, and its input is written to a file."""
    figures = Figures(fuzzer.name)
    start = time.monotonic()
    with fuzzer:
        for first in range(0, len(indices), batch):
            chosen = indices[first : first + batch]
            for finding in fuzzer.check(seed, chosen):
                figures.findings.append(finding)
                print(_told(fuzzer.name, seed, finding), file=out, flush=True)
            figures.inputs += len(chosen)
    figures.seconds = time.monotonic() - start
    figures.counted = fuzzer.counted
    return figures


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
