"""PyTorch's own operations: of each tenth check of the benchmark, none is accused wrongly."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "opinfo.py"


@pytest.mark.exhaustive
def test_each_tenth_check_agrees_with_torch() -> None:
    command = [sys.executable, str(BENCHMARK), "--quick", "--every", "10"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "disagreements without an explanation: 0" in done.stdout
