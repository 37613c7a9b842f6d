from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.checks.making import torch_engine


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Use one thread: threads of small operations wait for each other when tests run in
    parallel."""
    torch_engine()
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
