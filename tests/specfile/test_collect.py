from __future__ import annotations

import pytest

from gradcheck_cli.specfile.collect import dotted, meant, nearest, visible


def test_paths_are_written_as_in_python() -> None:
    assert dotted(("points", 1, "x", "value", 0, 2)) == "points[1].x.value[0][2]"
    assert dotted(()) == ""


@pytest.mark.parametrize(
    ("word", "choice"),
    [("modle", "model"), ("dytpes", "dtypes"), ("Model", "model"), ("zzz", None), (3, None)],
)
def test_the_nearest_word(word: object, choice: str | None) -> None:
    assert nearest(word, ["name", "modes", "model", "dtypes"]) == choice


def test_no_guess_is_no_text() -> None:
    assert meant("zzz", ["model"]) == ""
    assert meant("modle", ["model"]) == "did you mean `model`?"


def test_control_characters_are_spelt_out() -> None:
    assert visible("a\x1b[31m\u202eb é") == "a\\x1b[31m\\x202eb é"
