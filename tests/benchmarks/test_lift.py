"""PyTorch's own operations in rows of the op table: each eightieth sample of the benchmark."""

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "lift.py"


def test_most_of_each_eightieth_sample_is_stated_in_rows() -> None:
    command = [sys.executable, str(BENCHMARK), "--every", "80"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
