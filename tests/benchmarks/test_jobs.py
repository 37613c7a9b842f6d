"""One worker and two: equal results, of a few formulas."""

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "jobs.py"


def test_two_workers_find_what_one_finds() -> None:
    command = [sys.executable, str(BENCHMARK), "10", "formulas"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "with 2:" in done.stdout
