"""Measures the cost of gradcheck's pytest plugin in a run without specs: the processor time of
adjacent pairs of runs with the plugin and without it. The exit code is 1 above LIMIT.

    python benchmarks/plugin.py [--pairs N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

LIMIT = 0.05  # seconds: too short to notice
TESTS = "def test_{number}():\n    assert {number} + 1 > {number}\n\n\n"
RUN = """
import sys, time, pytest
assert pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]) == 0
print(time.process_time())
"""


def seconds(folder: Path, options: Sequence[str]) -> float:
    """The processor seconds of a whole process, with no plugin but this one."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *options],
        cwd=folder,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=25)
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tests = "".join(TESTS.format(number=number) for number in range(20))
        (folder / "test_plain.py").write_text(tests)
        loaded = ("-p", "gradcheck_cli.testing.plugin")
        for options in ((), loaded):  # compiles the imports
            seconds(folder, options)
        taken = [(seconds(folder, ()), seconds(folder, loaded)) for _ in range(pairs)]
    without, with_it = (statistics.median(side) for side in zip(*taken, strict=True))
    costs = [loaded - plain for plain, loaded in taken]
    low, middle, high = statistics.quantiles(costs, n=4)
    print(f"pytest, 20 tests and no spec  {without:.3f} s, with the plugin {with_it:.3f} s")
    print(f"the plugin, median of {pairs}  {middle:.4f} s, half of them {low:.4f} to {high:.4f} s")
    return int(middle > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
