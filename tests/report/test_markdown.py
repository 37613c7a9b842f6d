from __future__ import annotations

from gradcheck_cli.report.markdown import LONGEST, code

from . import samples
from .writing import written


def test_each_problem_is_folded_away_below_the_summary() -> None:
    lines = written("markdown", samples.everything()).splitlines()
    assert lines[:3] == [
        "### gradcheck",
        "",
        "5 specs: 3 passed, 2 failed; 1 mistake in spec files; GC101 wrong-gradient 3, "
        "GC201 nan-gradient 2, GC401 kink 3; 3.21 s",
    ]
    assert sum(line.startswith("<details><summary><b>") for line in lines) == 4


def test_a_comment_is_no_longer_than_a_service_takes() -> None:
    text = written("markdown", samples.many(500))
    assert len(text) < LONGEST + 100
    shown = text.count("<details>")
    assert text.endswith(f"\n…and {500 - shown} more, which do not fit here.\n")


def test_code_in_a_table_keeps_backticks_and_bars() -> None:
    assert code("a") == "`a`"
    assert code("a`|``b") == "``` a`\\|``b ```"
