from __future__ import annotations

import math

import pytest

from .writing import mistakes, output, program


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4", 14),
        ("7 // 2 - 7 % 4", 0),
        ("1 / 3", 1 / 3),
        ("2 ** -1", 0.5),
        ("-(-2)", 2),
        ("+2", 2),
        ("-inf", -math.inf),
        ("10 ** 300", 1e300),
    ],
)
def test_arithmetic_of_constants(text: str, value: float) -> None:
    assert [n.value for n in program(f"s * ({text})").nodes if n.op == "constant"] == [value]


def test_comparisons_of_constants_are_known_before_the_run() -> None:
    node = output("where((k > 2) & ~(k == 4), s, 0 * s)", k=3)
    assert node.op == "where"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "division by zero in a constant"),
        ("5 % 0", "division by zero in a constant"),
        ("0 ** -1", "division by zero in a constant"),
        ("9 ** 9 ** 9", "the constant is larger than any number"),
        ("10.0 ** 400", "the constant is larger than any number"),
        ("2**1023 + (2**1023 - 1)", "the constant is larger than any number"),
        ("(-8) ** 0.5", "the constant is a complex number"),
        ("1 & 2", "& and | combine comparisons, not numbers"),
        ("~1", "~ negates comparisons, not numbers"),
        ("-None", "this is not arithmetic on numbers"),
        ("(1, 2) + 3", "this is not arithmetic on numbers"),
        ("None < 1", "only numbers can be compared"),
    ],
)
def test_constants_that_are_no_numbers(text: str, message: str) -> None:
    (told,) = mistakes(f"s * ({text})")
    assert told.endswith(message)
