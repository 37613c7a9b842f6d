"""Products of enclosures use one thread of NumPy's BLAS."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from gradcheck_cli.truth.certified import one_thread
from tests.truth.certified.test_enclosed_products import VALUES, products

COUNTED = """
from gradcheck_cli.truth.certified import one_thread
count, set_count = one_thread._of_library()
print(count())
with one_thread.one_thread():
    print(count())
try:
    with one_thread.one_thread():
        raise ValueError
except ValueError:
    print(count())
"""


def test_the_library_has_as_many_threads_as_before_afterwards() -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    printed = subprocess.check_output([sys.executable, "-c", COUNTED], env=environment, text=True)
    if printed.split()[0] == "1":
        pytest.skip("NumPy brings no OpenBLAS with two threads here")
    assert printed.split() == ["2", "1", "2"]


def test_every_product_asks_for_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = [4]
    library = (lambda: threads[-1]), threads.append
    monkeypatch.setattr(one_thread, "_of_library", lambda: library)
    found, tangents = products("tanh(x)"), {"x": VALUES["x"]}
    row = np.ones(VALUES["x"].size)
    for call in (
        lambda: found.pulled(row),
        lambda: found.pushed(tangents),
        lambda: found.bent(row, tangents),
    ):
        threads[:] = [4]
        call()
        assert threads == [4, 1, 4]
