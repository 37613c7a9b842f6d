"""Benchmarks that take a size run in small, so that they go on running. Their times are not looked
at."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.every import first

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize(
    ("command", "shown"),
    first(
        4,
        [
            ("many_layers.py 20", "TorchEngine: started 1 times"),
            ("truth.py", "120000 operations:"),
            ("eigen.py", "eigen: a second run takes"),
            ("lifted_layer.py elementwise 1e4", "passes; 100 are allowed"),
            ("cache.py --specs 3", "beyond the start; target"),
            ("second_order.py --count 1", "median"),
            ("explanations.py reference", "GC203 overflow"),
            ("layers.py", "1 million parameters"),
            ("autodiff.py", "recorded arrays"),
        ],
    ),
)
def test_a_benchmark_runs(command: str, shown: str) -> None:
    script, *arguments = command.split()
    done = subprocess.run(
        [sys.executable, str(FOLDER / script), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr  # 1: a target was missed
    assert "Traceback" not in done.stderr, done.stderr
    assert shown in done.stdout
