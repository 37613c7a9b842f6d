"""What is written to one array stands in the others that lie in its memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.numpy.recorder import making, overwritten, shared_places


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (np.s_[1], np.s_[:]),
        (np.s_[:, ::2], np.s_[1:, ::-1]),
        (np.s_[::2, 1:], np.s_[2]),
        (np.s_[0, :2], np.s_[1:]),
    ],
)
def test_what_is_written_through_one_view_is_put_into_another(part: Array, other: Array) -> None:
    array = np.arange(12.0).reshape(3, 4)
    seen, written = array[other], array[part]
    before = seen.copy()
    written += 100
    after = overwritten(before, *shared_places(seen, written), written.copy())
    np.testing.assert_array_equal(after, seen)


def test_who_looks_at_arrays_that_others_look_at_is_given_their_names() -> None:
    seen: list[str] = []

    def made(make: Any, args: Any, keywords: Any) -> Any:
        seen.append(make.__name__)
        return make(*args, **keywords)

    with making(made), making(made):
        assert np.zeros(2, dtype="f4").tolist() == [0, 0]
        assert np.array([1.0]).tolist() == [1]
    assert seen == ["zeros", "zeros", "array", "array"]
