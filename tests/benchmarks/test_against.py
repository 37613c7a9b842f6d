"""The comparison of two checkouts: one with itself takes as many evaluations."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_checkout_takes_as_many_evaluations_as_itself() -> None:
    command = [sys.executable, ROOT / "benchmarks" / "startup.py", "--against", ROOT]
    command += ["--only", "reference", "--count", "3", "--repeats", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode in (0, 1), done.stderr  # times of the first run of each say little
    _, *lines = done.stdout.splitlines()
    found = [re.split(r"\s+", line.strip()) for line in lines]
    assert [words[-2:] for words in found] == [
        ["formula,", "reference"],
        ["formulas,", "reference"],
    ]
    for here, there, ratio, mine, other, passes, *_ in found:
        assert float(here[:-1]) > 0
        assert 0.2 < float(ratio) < 5
        assert there.endswith("s")
        assert mine == other
        assert int(mine) > 0
        assert float(passes) == 1.0
