"""Workers that all tests of fuzzers share, of one framework: the others are slow to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.running import Runner


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    with Runner(("reference", "torch")) as made:
        yield made
