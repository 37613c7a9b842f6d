"""Memory that was freed goes back to the system, whatever the C library would keep."""

import subprocess
import sys
from pathlib import Path

import pytest

from gradcheck_cli.checks.large import free_memory
from gradcheck_cli.checks.large.free_memory import return_free_memory

SCRIPT = """
import os
import numpy as np
from gradcheck_cli.checks.large.free_memory import return_free_memory


def resident_mb():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


np.ones(4_000_000)  # from now on, the C library keeps arrays up to this size
arrays = [np.ones(2**17) for _ in range(100)]
last = np.ones(2**17)
full = resident_mb()
del arrays
return_free_memory()
print(full - resident_mb())
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_arrays_below_one_that_lives_are_returned() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) > 90  # of 105 MB


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_memory.ctypes, "CDLL", lambda _: object())
    free_memory._malloc_trim.cache_clear()
    return_free_memory()
    free_memory._malloc_trim.cache_clear()
