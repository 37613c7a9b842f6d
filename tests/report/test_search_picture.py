import numpy as np

from gradcheck_cli.domain.search import Region, Search, Witness
from gradcheck_cli.report.search_picture import picture_lines
from gradcheck_cli.report.style import Style

from .test_search_map import PLACE, one_number, result, two_numbers


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
