"""The screen of a search."""

from dataclasses import replace

from gradcheck_cli.domain.report import SearchReport
from gradcheck_cli.domain.search import Search
from gradcheck_cli.report.search_screen import search_lines
from gradcheck_cli.report.style import Style

from .test_search_map import one_number, result


def test_verdicts_come_before_the_picture_and_results_are_apart() -> None:
    report = SearchReport((one_number(), one_number()))
    lines = [line.plain for line in search_lines(report, Style(width=80))]
    blank = lines.index("")
    assert lines[blank + 1 :] == lines[:blank]
    assert lines[1].startswith("found   gradient-nonfinite")
    assert lines[2].startswith("open ")


def test_control_characters_of_names_are_not_printed() -> None:
    proven = Search("torch", "float32", "undefined", "proven-absent", repeat="gradcheck \x1b[2J")
    named = replace(result(proven, x=(0, 1)), spec="a\x1b[2Jb", notes=("\x07",))
    report = SearchReport((named,))
    assert not any(
        "\x1b" in line.plain or "\x07" in line.plain
        for line in search_lines(report, Style(width=80))
    )


def test_lines_are_not_wider_than_the_screen() -> None:
    lines = [line.plain for line in search_lines(SearchReport((one_number(),)), Style(width=60))]
    verdicts = lines[: next(i for i, line in enumerate(lines) if "#" in line or "█" in line)]
    assert max(map(len, verdicts)) <= 60
    assert verdicts[2].startswith("        ")  # the rest of the first one
