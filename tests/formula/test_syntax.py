from __future__ import annotations

import warnings

import pytest

from .writing import helps, mistakes


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s +", "GC904 1:4-5 not valid syntax"),
        ("y = (s", "GC904 1:5-6 not valid syntax: '(' was never closed"),
        ("y = s)", "GC904 1:6-7 not valid syntax: unmatched ')'"),
        ("y = s\n  z = s", "GC904 2:3-4 not valid syntax: unexpected indent"),
        ("s s", "GC904 1:3-4 not valid syntax"),
        ("y = 'a", "GC904 1:5-6 not valid syntax: unterminated string literal"),
        ("s = 012", "GC904 1:5-6 not valid syntax: leading zeros"),
    ],
)
def test_syntax_errors_have_the_place_and_words_of_python(text: str, told: str) -> None:
    (found,) = mistakes(text)
    assert found.startswith(told)


def test_a_choice_says_where() -> None:
    assert helps("s if s") == ["a choice between values is written where(condition, a, b)"]


@pytest.mark.parametrize("character", ["\x00", "\x0c", "\r", "\x1b", "\u2028", "\ud800"])
def test_control_characters_are_no_part_of_a_formula(character: str) -> None:
    assert mistakes(f"s + {character} 1") == [
        f"GC904 1:5-6 the formula contains the control character U+{ord(character):04X}"
    ]


def test_pythons_advice_on_style_is_not_heard() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mistakes("s is 1") == ["GC904 1:1-7 the comparisons are < <= > >= == and !="]


def test_an_endless_number_is_told_in_words() -> None:
    (told,) = mistakes("s * " + "9" * 5000)
    assert told.endswith("not valid syntax: a number has too many digits")
