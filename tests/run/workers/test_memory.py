import mmap
import os

import numpy as np

from gradcheck_cli.run.workers import memory


def test_a_process_holds_what_it_wrote_to() -> None:
    area = mmap.mmap(-1, 40_000_000)  # pages of its own: an array may get memory that was freed
    before = memory.resident(os.getpid())
    assert before is not None
    np.frombuffer(area, np.uint8)[:] = 1
    after = memory.resident(os.getpid())
    assert after is not None
    assert after - before > 0.9 * len(area)


def test_nobody_holds_nothing() -> None:
    assert memory.resident(2**22 + 1) is None  # beyond the largest number of a process


def test_the_usual_limit_leaves_something_to_the_machine() -> None:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    assert 0 < memory.usual_limit() <= min(memory.USUAL_GB, 0.75 * machine)


def test_this_machine_has_memory_left() -> None:
    assert not memory.is_scarce()
    assert memory.available() > 1e8
