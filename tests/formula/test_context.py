from __future__ import annotations

import time

import pytest

from .writing import mistakes, ops

TOO_LONG = "the formula unrolls to more than 100000 operations"
TOO_DEEP = "nested"


@pytest.mark.parametrize(
    "text",
    [
        "t = s\nfor i in range(10 ** 30):\n    t = t * s\nt",
        "t = s\n"
        + "".join(f"{'    ' * d}for i{d} in range(99):\n" for d in range(9))
        + f"{'    ' * 9}t = t * s\nt",
        # Twenty-five functions that call each other twice: 2^25 additions, with no node among them.
        "def f0(a):\n    return a + 1\n"
        + "".join(f"def f{i}(a):\n    return f{i - 1}(a) + f{i - 1}(a)\n" for i in range(1, 25))
        + "s * f24(1)",
        # The same with stated gradients, each lowered once and run 2^15 times.
        "def r(u, a):\n    return u\ndef f0(a):\n    return a + 1\n"
        + "".join(
            f"@custom_gradient(r)\ndef f{i}(a):\n    return f{i - 1}(a) + f{i - 1}(a)\n"
            for i in range(1, 16)
        )
        + "f15(s)",
    ],
    ids=["endless loop", "nested loops", "doubling constants", "doubling custom gradients"],
)
def test_a_formula_cannot_grow_without_limit(text: str) -> None:
    start = time.process_time()
    assert any(told.endswith(TOO_LONG) for told in mistakes(text))
    assert time.process_time() - start < 20  # seconds of the processor where it would be hours


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500 + "s" + ")" * 500,
        "-" * 500 + "s",
        "-" * 50_000 + "s",
        "sin(" * 120 + "s" + ")" * 120,
        "**".join(["s"] * 500),
        "+".join(["s"] * 40_000),
        "def f0(a):\n    return a\n"
        + "".join(f"def f{i}(a):\n    return f{i - 1}(a)\n" for i in range(1, 300))
        + "f299(s)",
    ],
    ids=["brackets", "minus", "many minus", "calls", "powers", "sum", "functions"],
)
def test_a_deep_formula_is_told_in_words(text: str) -> None:
    (told,) = mistakes(text)
    assert told.startswith("GC904")
    assert TOO_DEEP in told


def test_what_a_person_nests_is_not_too_deep() -> None:
    assert ops("sin(" * 60 + "s" + ")" * 60) == ["sin"] * 60


def test_a_long_formula_is_refused() -> None:
    assert mistakes("s" + " " * 100_000 + "+ 1") == [
        "GC904 1:1-2 the formula has more than 100000 characters"
    ]
