"""How long `check` takes beside PyTorch's own: the table is made, and all its layers pass."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SAME, DEFAULT = 9.0, 15.0
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "small_layers.py"


@pytest.mark.exhaustive
def test_every_layer_has_its_two_ratios() -> None:
    command = [sys.executable, str(BENCHMARK), "--repeats", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    shown = ran.stdout
    number = r" +([\d.]+)"
    rows = re.findall(rf"^(\S.*?){5 * number} +\d+ +\d+ +\d+$", shown, re.M)
    assert len(rows) == 5
    for _, torch, same, times, default, more in rows:
        assert float(same) / float(torch) == pytest.approx(float(times), rel=0.1)
        assert float(default) / float(torch) == pytest.approx(float(more), rel=0.1)
    same_times, default_times = (max(float(row[place]) for row in rows) for place in (3, 5))
    rots = same_times > SAME or default_times > DEFAULT
    assert (ran.returncode, "times torch's" in ran.stderr) == (int(rots), rots)
