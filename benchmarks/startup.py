"""What is claimed about speed, measured: each command beside what it is compared with.

Both sides of a row are run in turn, several times, in this one run, so that a busy machine slows
both; the ratio is that of the medians. Exit code 1 if a target is missed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SPEC = "name: spec_{number}\ninputs: {{x: 1.{number:02}}}\nmodel: sin(x) * exp(-x)\n"
GRADCHECK = (sys.executable, "-m", "gradcheck_cli")
EXAMPLES = Path(__file__).parents[1] / "specs" / "examples"
EVERY = "reference,torch,tensorflow,jax,jax-jit,eigen,symbolic"
CORE = "import numpy, click, rich.console, pydantic, ruamel.yaml, flint"


@dataclass(frozen=True, slots=True)
class Row:
    """A claim: `command` costs at most `target` times `baseline` (None: shown, not claimed). Exit
    codes above 1 are faults."""

    claim: str
    command: tuple[str, ...]
    baseline: tuple[str, ...]
    target: float | None
    repeats: int


def rows(folder: Path) -> list[Row]:
    one, hundred = folder / "one", folder / "hundred"
    for place, count in ((one, 1), (hundred, 100)):
        place.mkdir()
        for number in range(count):
            (place / f"spec_{number:03}.yaml").write_text(SPEC.format(number=number), "utf-8")
    run = (*GRADCHECK, "run")
    return [
        Row(
            "--help, to importing click and rich.console",
            (*GRADCHECK, "--help"),
            (sys.executable, "-c", "import click, rich.console"),
            2.0,
            9,
        ),
        Row(
            "one spec on the reference engine, to importing the core dependencies",
            (*run, str(one), "--engine", "reference"),
            (sys.executable, "-c", CORE),
            2.5,
            7,
        ),
        Row(
            "one spec on three engines, to importing tensorflow",
            (*run, str(one), "--engine", "reference,torch,tensorflow"),
            (sys.executable, "-c", "import tensorflow"),
            1.4,
            5,
        ),
        Row(
            "one spec on JAX, to importing jax",
            (*run, str(one), "--engine", "jax"),
            (sys.executable, "-c", "import jax"),
            1.5,
            5,
        ),
        Row(
            "every example on seven engines, to importing tensorflow (wanted: 1.3)",
            (*run, str(EXAMPLES), "--engine", EVERY, "--exit-zero"),
            (sys.executable, "-c", "import tensorflow"),
            None,
            3,
        ),
        Row(
            "every example on seven engines, to the slowest of them alone",
            (*run, str(EXAMPLES), "--engine", EVERY, "--exit-zero"),
            (*run, str(EXAMPLES), "--engine", "tensorflow", "--exit-zero"),
            None,
            3,
        ),
        Row(
            "100 specs on the reference engine, to one",
            (*run, str(hundred), "--engine", "reference"),
            (*run, str(one), "--engine", "reference"),
            None,
            5,
        ),
        Row(
            "100 specs on three engines, to one",
            (*run, str(hundred), "--engine", "reference,torch,tensorflow"),
            (*run, str(one), "--engine", "reference,torch,tensorflow"),
            2.0,
            3,
        ),
    ]


def seconds(command: Sequence[str], folder: Path) -> float:
    """Wall-clock seconds of one call. Raises CalledProcessError where it did not work."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    return time.perf_counter() - start


def measured(row: Row, folder: Path) -> tuple[float, float]:
    """Median seconds of command and baseline; the first call of each fills the caches and is
    dropped."""
    taken: tuple[list[float], list[float]] = ([], [])
    for repeat in range(row.repeats + 1):
        for times, command in zip(taken, (row.command, row.baseline), strict=True):
            spent = seconds(command, folder)
            if repeat:
                times.append(spent)
    return statistics.median(taken[0]), statistics.median(taken[1])


def main() -> int:
    missed = 0
    print(f"{os.cpu_count()} cores, which the workers of all engines share")
    print(f"{'command':>9} {'baseline':>9} {'ratio':>6} {'target':>7}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for row in rows(folder):
            mine, other = measured(row, folder)
            late = row.target is not None and mine / other > row.target
            missed += late
            target = "-" if row.target is None else f"{row.target:.2f}"
            print(
                f"{mine:8.3f}s {other:8.3f}s {mine / other:6.2f} {target:>7}  "
                f"{'MISSED  ' if late else ''}{row.claim}",
                flush=True,
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
