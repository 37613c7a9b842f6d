"""Workers of one framework that all tests of fuzzers share: other frameworks are slow to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.running import Runner


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    with Runner(("reference", "torch")) as made:
        yield made
