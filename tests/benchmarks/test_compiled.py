"""The benchmark of compiled checks measures both sides of each of its rows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.exhaustive
def test_both_sides_of_each_row_are_measured() -> None:
    command = [sys.executable, ROOT / "benchmarks" / "compiled.py", "jax-jit"]
    command += ["--repeats", "1", "--more", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode in (0, 1), done.stderr  # times of one run each say little
    _, *lines = done.stdout.splitlines()
    found = [
        re.match(r" *([\d.]+)s +([\d.]+)s +([\d.]+)  jax-jit, (\w+), ", line) for line in lines
    ]
    assert [row and row[4] for row in found] == ["formula", "formula", "layer", "layer"]
    assert all(row and float(row[2]) > 0 for row in found)
