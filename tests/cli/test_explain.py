from pathlib import Path

import pytest

from gradcheck_cli.cli.explain import find
from gradcheck_cli.domain.codes import CODES
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.report.pages import page

from .calling import assert_snapshot, call_here

SECTIONS = (
    "What it is",
    "Example",
    "What to write instead",
    "How it is found",
    "Limits",
    "Sources",
)


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_has_a_whole_page(code: str) -> None:
    text = page(CODES[code])
    assert text.startswith(f"# {code} {CODES[code].name}\n")
    for section in SECTIONS:
        assert f"\n## {section}\n" in text
    assert f"**{CODES[code].severity.capitalize()}" in text


def test_a_page_by_name_is_the_page_by_code(tmp_path: Path) -> None:
    by_code = call_here("explain", "gc402", cwd=tmp_path)
    assert by_code.code == 0
    assert by_code.out == page(CODES["GC402"])
    assert call_here("explain", "undefined-derivative", cwd=tmp_path).out == by_code.out


def test_all_pages(tmp_path: Path) -> None:
    text = call_here("explain", "--all", cwd=tmp_path).out
    assert [f"# {code} " in text for code in CODES] == [True] * len(CODES)


def test_without_a_code_they_are_listed(tmp_path: Path) -> None:
    assert_snapshot(call_here("explain", cwd=tmp_path), "explain_list")


def test_in_colour_the_page_is_rendered(tmp_path: Path) -> None:
    text = call_here("explain", "GC201", "--color", "always", cwd=tmp_path).out
    assert "\x1b[" in text
    assert "## What it is" not in text


def test_a_mistyped_code(tmp_path: Path) -> None:
    assert_snapshot(call_here("explain", "nan-gradiant", cwd=tmp_path), "explain_unknown")


def test_a_code_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="no finding code `GC999`"):
        find("GC999")
