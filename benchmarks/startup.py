"""Measures the claims about speed: each command is compared with others.

All sides of a row run in turn, several times, in one run, so that a busy machine slows all. The
ratio is that of the medians. The exit code is 1 if a target is missed.

    python benchmarks/startup.py [--against CHECKOUT [--only WORD] [--count N] [--repeats N]]

With `--against`, ordinary runs are compared with those of another checkout (`against`).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from against import MANY, REPEATS, compare
from timing import medians

SPEC = "name: spec_{number}\ninputs: {{x: 1.{number:02}}}\nmodel: sin(x) * exp(-x)\n"
GRADCHECK = (sys.executable, "-m", "gradcheck_cli")
EXAMPLES = Path(__file__).parents[1] / "specs" / "examples"
EVERY = "reference,torch,tensorflow,jax,jax-jit,eigen,symbolic"
CORE = "numpy, click, rich.console, pydantic, ruamel.yaml, flint"


@dataclass(frozen=True, slots=True)
class Baseline:
    """`command`, and how many times its cost gradcheck may take (None: shown, without a claim)."""

    what: str
    command: tuple[str, ...]
    target: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """A command, and the commands with which its time is compared. Exit codes above 1 are
    errors."""

    what: str
    command: tuple[str, ...]
    baselines: tuple[Baseline, ...]
    repeats: int


def importing(modules: str, target: float | None) -> Baseline:
    return Baseline(f"importing {modules}", (sys.executable, "-c", f"import {modules}"), target)


def rows(folder: Path) -> list[Row]:
    one, hundred = folder / "one", folder / "hundred"
    for place, count in ((one, 1), (hundred, 100)):
        place.mkdir()
        for number in range(count):
            (place / f"spec_{number:03}.yaml").write_text(SPEC.format(number=number), "utf-8")

    def run(specs: Path, engines: str) -> tuple[str, ...]:
        return (*GRADCHECK, "run", str(specs), "--engine", engines, "--exit-zero")

    three = "reference,torch,tensorflow"
    return [
        Row("--help", (*GRADCHECK, "--help"), (importing("click, rich.console", 2.0),), 9),
        Row("one spec, reference", run(one, "reference"), (importing(CORE, 2.5),), 7),
        Row("one spec, three engines", run(one, three), (importing("tensorflow", 1.4),), 5),
        Row("one spec, JAX", run(one, "jax"), (importing("jax", 1.5),), 5),
        Row(
            "every example, seven engines",
            run(EXAMPLES, EVERY),
            (
                importing("tensorflow", None),
                Baseline("one spec, TensorFlow", run(one, "tensorflow"), None),
                Baseline("every example, TensorFlow", run(EXAMPLES, "tensorflow"), None),
            ),
            3,
        ),
        Row(
            "100 specs, reference",
            run(hundred, "reference"),
            (Baseline("one spec", run(one, "reference"), None),),
            5,
        ),
        Row(
            "100 specs, three engines",
            run(hundred, three),
            (Baseline("one spec", run(one, three), 2.0),),
            3,
        ),
    ]


def seconds(command: Sequence[str], folder: Path) -> float:
    """Wall-clock seconds of one call. Raises CalledProcessError if it fails."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "GRADCHECK_NO_CACHE": "1"}
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    return time.perf_counter() - start


def measured(row: Row, folder: Path) -> list[float]:
    """Median seconds of the command and its baselines. The first call of each fills the caches and
    is dropped."""
    commands = [row.command, *(baseline.command for baseline in row.baselines)]
    return medians(commands, lambda command: seconds(command, folder), row.repeats)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    parser.add_argument("--only", default="", metavar="WORD", help="of the lines that have it")
    parser.add_argument("--count", type=int, default=MANY, help="formulas and layers of a run")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    if options.against is not None:
        return compare(options.against, options.only, options.count, options.repeats)
    return claims()


def claims() -> int:
    """Print every row. Returns 1 if a target is missed, and 0 otherwise."""
    missed = 0
    print(f"{os.cpu_count()} cores, which the workers of all engines share")
    print(f"{'command':>9} {'baseline':>9} {'ratio':>6} {'target':>7}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for row in rows(folder):
            mine, *others = measured(row, folder)
            for baseline, other in zip(row.baselines, others, strict=True):
                late = baseline.target is not None and mine / other > baseline.target
                missed += late
                target = "-" if baseline.target is None else f"{baseline.target:.2f}"
                print(
                    f"{mine:8.3f}s {other:8.3f}s {mine / other:6.2f} {target:>7}  "
                    f"{'MISSED  ' if late else ''}{row.what}, to {baseline.what}",
                    flush=True,
                )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
