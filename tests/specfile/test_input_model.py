"""Text that stands for a number where a number is expected."""

from __future__ import annotations

import pytest

from gradcheck_cli.specfile.input_model import number_in


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("inf", float("inf")),
        ("1+2j", 1 + 2j),
        ("-1.5e-3-.5j", -1.5e-3 - 0.5j),
        ("2j", 2j),
        ("1.j", 1j),
        ("j", None),
        ("1+j", None),
        ("1 + 2j", None),
        ("1+2i", None),
        ("1", None),
        ("no", None),
    ],
)
def test_words_and_complex_numbers(text: str, number: complex | None) -> None:
    assert number_in(text) == number
