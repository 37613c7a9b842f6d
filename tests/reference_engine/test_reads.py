"""What the code of a derivative says about the arrays it needs."""

from typing import Any

import numpy as np

from reference_engine.op import TABLE
from reference_engine.reads import RESULT, parameters_read, positions_read


def test_parameters_that_the_code_mentions() -> None:
    assert parameters_read(lambda g, y, x: g * y) == {0, 1}
    assert parameters_read(lambda g, y, x: g) == {0}
    assert parameters_read(lambda g, y, x: [g + i for i in range(x)]) == {0, 2}
    assert parameters_read(lambda g, y, x: lambda: x) == {2}


def test_variadic_parameters() -> None:
    read = parameters_read(lambda g, y, *xs: g * xs[0])
    assert all(i in read for i in (RESULT, 0, 1, 7))
    assert parameters_read(lambda g, y, *xs, axis=0: g * y) == {0, 1}


def test_what_is_no_python_function_reads_everything() -> None:
    assert all(i in parameters_read(np.multiply) for i in (RESULT, 0, 1))


def test_positions_count_from_the_first_argument() -> None:
    assert positions_read([lambda g, y, a, b: g * b, lambda g, y, a, b: g * y]) == {RESULT, 1}
    assert positions_read([None, lambda g, y, a: g]) == frozenset()
    assert 5 in positions_read([np.multiply])


def test_rows_say_what_the_tape_must_keep() -> None:
    """Bit i of the key: argument i is differentiated."""

    def kept(name: str, mask: int) -> tuple[bool, tuple[Any, ...]]:
        recording = TABLE[name].recordings[mask]
        unread = {i for i, _ in recording.unread}
        return recording.keeps_result, tuple(i for i in recording.wanted if i not in unread)

    assert kept("exp", 1) == (True, ())
    assert kept("sin", 1) == (False, (0,))
    assert kept("add", 0b11) == (False, ())
    assert kept("multiply", 0b11) == (False, (0, 1))
    assert kept("multiply", 0b01) == (False, ())
    assert kept("matmul", 0b10) == (False, ())
    assert kept("where", 0b110) == (False, ())
    assert kept("sum", 1) == kept("mean", 1) == kept("reshape", 1) == (False, ())
    assert not TABLE["where"].recordings[0b001].active
