"""What a rule is called in, here as in a program."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def without_floating_point_warnings() -> Iterator[None]:
    """As in `BoxProgram.run`."""
    with np.errstate(all="ignore"):
        yield
