"""The cost of a check in forwards and memory, of a layer that is small enough for a test."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.every import first

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "large_layer.py"


@pytest.mark.parametrize("kind", first(1, ["module", "tanh", "relu", "jax", "tensorflow"]))
def test_time_and_memory_are_told_in_units_of_the_layer(kind: str) -> None:
    command = [sys.executable, str(BENCHMARK), "2e4", kind, "--batch", "8"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    heading, seconds, memory = done.stdout.splitlines()
    assert heading.startswith(f"{kind}, ")
    assert heading.endswith(" parameters, a batch of 8: passed")
    assert float(seconds.rsplit(": ", 1)[1]) > 1
    assert memory.endswith(" times")
