"""Large arrays one after the other take no new pages of the system."""

import sys

import numpy as np
import pytest

from gradcheck_cli.engines.layer.reused_memory import MANY, reused_memory

ENTRIES = 3 * MANY  # 48 MB


def new_pages() -> int:
    """Of the second of two arrays."""
    import resource

    np.empty(ENTRIES).fill(1.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.empty(ENTRIES).fill(1.0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(sys.platform != "linux", reason="memory of other systems is left as it is")
def test_memory_is_used_again_meanwhile() -> None:
    with reused_memory(ENTRIES):
        assert new_pages() < 10
    assert new_pages() > 10
    with reused_memory(MANY - 1):
        assert new_pages() > 10
