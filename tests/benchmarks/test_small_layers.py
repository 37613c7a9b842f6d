"""How long `check` takes beside a framework's own: the table is made, and all its layers pass."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.every import first

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "small_layers.py"


@pytest.mark.parametrize(
    ("framework", "most"), first(1, [("torch", (8.0, 14.0)), ("jax", (15.0, 40.0))])
)
def test_every_layer_has_its_two_ratios(framework: str, most: tuple[float, float]) -> None:
    command = [sys.executable, str(BENCHMARK), "--framework", framework, "--repeats", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    shown = ran.stdout
    number = r" +([\d.]+)"
    rows = re.findall(rf"^(\S.*?){5 * number} +\d+ +\d+ +\d+$", shown, re.M)
    assert len(rows) == 5
    for _, theirs, same, times, default, more in rows:
        assert float(same) / float(theirs) == pytest.approx(float(times), rel=0.1)
        assert float(default) / float(theirs) == pytest.approx(float(more), rel=0.1)
    same_times, default_times = (max(float(row[place]) for row in rows) for place in (3, 5))
    rots = same_times > most[0] or default_times > most[1]
    assert (ran.returncode, f"times {framework}'s" in ran.stderr) == (int(rots), rots)
