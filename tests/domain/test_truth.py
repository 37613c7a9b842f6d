"""Numbers of some entries of a block are others; all other numbers stay."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.truth import PointKind, TruthBlock

BLOCK = TruthBlock.of(
    np.array([[1.0, 2.0]]), np.array([[0.1, 0.2]]), confirmed=np.array([[True, True]])
)


def test_numbers_and_arrays_replace_those_of_entries() -> None:
    there = np.array([[False, True]])
    found = BLOCK.at(there, value=np.array([[8.0, 9.0]]), kind=PointKind.KINK, confirmed=False)
    assert found.value.tolist() == [[1.0, 9.0]]
    assert found.kind.tolist() == [[PointKind.SMOOTH, PointKind.KINK]]
    assert found.confirmed.tolist() == [[True, False]]
    assert found.confirmed.dtype == np.bool_
    assert found.error is BLOCK.error
    assert BLOCK.value.tolist() == [[1.0, 2.0]]


def test_nothing_is_known_of_undecided_entries() -> None:
    found = BLOCK.undecided_at(np.array([[True, False]]))
    assert found.kind.tolist() == [[PointKind.UNDECIDED, PointKind.SMOOTH]]
    assert found.error.tolist() == [[np.inf, 0.2]]
    assert found.confirmed.tolist() == [[False, True]]
