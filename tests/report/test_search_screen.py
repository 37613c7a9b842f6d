"""The screen of a search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.report import SearchReport
from gradcheck_cli.domain.search import Region, Search, Witness
from gradcheck_cli.report.search_screen import picture_lines, search_lines
from gradcheck_cli.report.style import Style

from .test_search_map import PLACE, one_number, result, two_numbers


def test_verdicts_come_before_the_picture_and_results_are_apart() -> None:
    report = SearchReport((one_number(), one_number()))
    lines = [line.plain for line in search_lines(report, Style(width=80))]
    blank = lines.index("")
    assert lines[blank + 1 :] == lines[:blank]
    assert lines[1].startswith("found   gradient-nonfinite")
    assert lines[2].startswith("open ")


def test_a_spec_that_is_not_searched_is_named_above_the_reason() -> None:
    report = SearchReport((replace(result(x=(0, 1)), spec="sq", notes=("no input has a domain",)),))
    lines = [line.plain for line in search_lines(report, Style(width=80))]
    assert lines == ["sq", "note    no input has a domain"]


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


def _screen(seen: object, width: int = 60, **style: bool) -> list[str]:
    lines = picture_lines(seen, PLACE, Style(width=width, **style))  # type: ignore[arg-type]
    return [line.plain for line in lines]


def test_one_number_has_a_bar_for_each_kind() -> None:
    bar, still_open, axis, legend, zoom = _screen(one_number(), width=60)
    assert bar == "        gradient-nonfinite ·····▒··················████████"
    assert "?" in still_open
    assert (axis.split(), legend.split()[0]) == (["0", "x", "8"], "█")
    assert zoom == "zoom    x = 1.25: gradient-nonfinite, thinner than a cell"


def test_narrow_windows_and_plain_characters() -> None:
    lines = _screen(one_number(), width=20, unicode=False)
    assert "".join(lines).isascii()
    assert lines[0].endswith("##")


def test_two_numbers_have_a_grid() -> None:
    plain = _screen(two_numbers())
    coloured = _screen(two_numbers(), color=True)
    assert (plain[0].split()[0], plain[11].split()[0]) == ("4", "0")
    assert plain[0].count("▒") == 26
    assert plain[-3].count("▒") == 0
    assert coloured[0].count("▀") == 51
    assert "yellow fails somewhere" in coloured[-1]


def test_more_numbers_have_a_table() -> None:
    sides = np.array([0.0, 1.0, 2.0]), np.array([3.0, 4.0, 5.5])
    witness = Witness({"x": sides[0]}, "x[0]", 0.0, 1.0)
    region = Region(({"x": sides},))
    seen = result(Search(*PLACE, "undefined", "found", witness, region), x=(0, 9))
    head, *rows = _screen(seen)
    assert head == "within  undefined"
    assert [row.split() for row in rows][2] == ["x[2]", "2", "..", "5.5"]


def test_nothing_is_drawn_where_no_place_is_known() -> None:
    assert _screen(result(Search(*PLACE, "undefined", "proven-absent"), x=(0, 1))) == []
