"""Moved numbers are written down as a reader would write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.trace.moves import taken
from gradcheck_cli.engines.trace.symbols import ProgramWriter

X = np.arange(24.0).reshape(2, 3, 4)
MOVES: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "nothing": (lambda x: x, []),
    "reshape": (lambda x: x.reshape(6, 4), ["reshape"]),
    "axes": (lambda x: x.transpose(2, 0, 1), ["transpose"]),
    "slice": (lambda x: x[:, 1:, ::2], ["getitem"]),
    "one of an axis": (lambda x: x[1, :, 2], ["getitem"]),
    "one, kept as an axis": (lambda x: x[1:2, 0, :3:2], ["getitem"]),
    "one, of a new shape": (lambda x: x[1, 0].reshape(2, 2), ["getitem", "reshape"]),
    "broadcast": (lambda x: np.broadcast_to(x, (5, 2, 3, 4)), ["broadcast_to"]),
    "backwards": (lambda x: x[::-1], ["reshape", "input", "take", "reshape"]),
    "joined": (lambda x: np.concatenate([x, x], 1), ["reshape", "input", "take", "reshape"]),
}


@pytest.mark.parametrize("name", MOVES)
def test_numbers_of_one_array(name: str) -> None:
    move, ops = MOVES[name]
    writer = ProgramWriter(Span(1, 1, 1, 1))
    x = writer.input("x", X)
    found = taken([np.zeros(1), x], move(np.arange(1, 25).reshape(X.shape)))
    np.testing.assert_array_equal(found.value, move(X))
    assert [node.op for node in writer.program(found).nodes[1:]] == ops


@pytest.mark.parametrize(
    ("move", "op"),
    [
        (lambda x, y: np.concatenate([x, y], -1), "concatenate"),
        (lambda x, y: np.stack([x, y], 1), "stack"),
        (lambda x, y: np.concatenate([x[:1], y[1:]]), "reshape"),
    ],
)
def test_numbers_of_two_arrays(move: Callable[..., Any], op: str) -> None:
    writer = ProgramWriter(Span(1, 1, 1, 1))
    x, y = writer.input("x", X), writer.input("y", -X)
    places = np.arange(1, 49).reshape(2, *X.shape)
    found = taken([np.zeros(1), x, y], move(*places))
    np.testing.assert_array_equal(found.value, move(X, -X))
    assert writer.program(found).nodes[-1].op == op


def test_nothing_is_taken() -> None:
    writer = ProgramWriter(Span(1, 1, 1, 1))
    found = taken([np.zeros(1), writer.input("x", X)], np.zeros((0, 2)))
    assert found.shape == (0, 2)
