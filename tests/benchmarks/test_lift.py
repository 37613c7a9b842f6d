"""PyTorch's own operations in rows of the op table: each twentieth sample of the benchmark."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "lift.py"


@pytest.mark.exhaustive
def test_most_of_each_twentieth_sample_is_stated_in_rows() -> None:
    command = [sys.executable, str(BENCHMARK), "--every", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
