"""What the plugin costs a run of pytest without specs: both sides are measured and compared."""

import re
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "plugin.py"


def test_runs_with_the_plugin_and_without_it_are_compared() -> None:
    command = [sys.executable, str(BENCHMARK), "--pairs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr  # two pairs say little
    without, loaded = re.findall(r"([\d.]+) s", done.stdout.splitlines()[0])
    assert 0 < float(without) < 60
    assert 0 < float(loaded) < 60
    assert "median of 2" in done.stdout.splitlines()[1]
