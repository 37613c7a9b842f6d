"""Measures the cost of unchanged specs: a run with only cached results, compared with a bare start.

Both sides run in turn, several times. The medians of their processor time, of all processes, are
compared. The exit code is 1 if the target is missed.

    python benchmarks/cache.py [--specs 500]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SPEC = "inputs: {{x: 1.{number:03}}}\nmodel: sin(x) * exp(-x)\n"
REPEATS = 5
TARGET_S = 1.5


def seconds(folder: Path, *paths: str) -> float:
    """Processor seconds of a run. Raises CalledProcessError if it fails."""
    command = (sys.executable, "-m", "gradcheck_cli", "run", *paths, "--engine", "reference")
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder), "GRADCHECK_NO_CACHE": "0"}
    before = os.times()
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--specs", type=int, default=500)
    count = parser.parse_args().specs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "all").mkdir()
        for number in range(count):
            (folder / "all" / f"s{number}.yaml").write_text(SPEC.format(number=number), "utf-8")
        fresh = seconds(folder, "all")
        pairs = [(seconds(folder, "all"), seconds(folder, "all/s0.yaml")) for _ in range(REPEATS)]
    known, one = map(statistics.median, zip(*pairs, strict=True))
    late = known - one > TARGET_S
    print(f"{fresh:8.2f} s  {count} specs, run")
    print(f"{known:8.2f} s  {count} specs, all known")
    print(f"{one:8.2f} s  one spec, known")
    print(
        f"{known - one:8.2f} s  beyond the start; target {TARGET_S} s{'  MISSED' if late else ''}"
    )
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
