"""The benchmark of compiled checks measures both sides of each of its rows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_both_sides_of_each_row_are_measured() -> None:
    command = [sys.executable, ROOT / "benchmarks" / "compiled.py", "jax-jit"]
    command += ["--repeats", "0", "--more", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode in (0, 1), done.stderr  # times of the first run of each say little
    _, *lines = done.stdout.splitlines()
    found = [
        re.match(r" *(\S+)s +(\S+)s +(\S+)  jax-jit, (\w+), (with the start|one more)", line)
        for line in lines
    ]
    assert [row and row[4] for row in found] == ["formula", "formula", "layer", "layer"]
    starts = [row for row in found if row and row[5] == "with the start"]
    assert len(starts) == 2
    assert all(float(row[1]) > 0 and float(row[2]) > 0 for row in starts)
    # "one more" is a difference of two runs, which noise can make negative.
