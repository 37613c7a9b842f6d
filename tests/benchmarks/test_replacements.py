"""The benchmark of what is replaced in frameworks runs, and says what a part gains."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.exhaustive
def test_the_gain_of_a_part_is_printed() -> None:
    command = [sys.executable, ROOT / "benchmarks" / "replacements.py"]
    command += ["--only", "torch-compiler", "--count", "2", "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode in (0, 1), done.stderr  # times of one run each say little
    _, *lines = done.stdout.splitlines()
    for line, what in zip(lines, ("one formula", "2 formulas", "a training path"), strict=True):
        shown = rf"torch-compiler +{what} +[\d.]+s +[\d.]+s +-?[\d.]+%"
        assert re.fullmatch(shown, line)
