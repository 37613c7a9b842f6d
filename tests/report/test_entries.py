from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.report import Comparison, Indexing, Reading
from gradcheck_cli.report.entries import SHOWN_ROWS, entries_table, entry_label, sparkline
from gradcheck_cli.report.style import Style

from .samples import nan_finding, quadratic, wrong_entry, wrong_sign

FINDING = nan_finding("torch")


def table(findings: object, width: int = 120, verbose: bool = False) -> list[str]:
    style = Style(width=width, verbose=verbose)
    result = replace(quadratic(), output_name="loss")
    return [line.plain for line in entries_table(findings, result, style)]  # type: ignore[arg-type]


def test_labels_tell_output_and_input_apart() -> None:
    assert entry_label(FINDING, (), "y", 0) == "x"
    assert entry_label(FINDING, (0, 1), "y", 0) == "x[0,1]"
    assert entry_label(FINDING, (2, 0, 1), "y", 1) == "dy[2]/dx[0,1]"


def test_labels_of_products_say_what_of() -> None:
    def label(how: Indexing, *index: int) -> str:
        return entry_label(replace(FINDING, indexing=how), index, "y", 2)

    assert label(Indexing(1), 2, 0, 1) == "dy[2]/dx[0,1]"
    assert label(Indexing(1, cotangents=True), 2, 8, 29) == "x[8,29] by cotangent 2"
    assert label(Indexing(0, cotangents=True), 8, 29) == "x[8,29] by a random cotangent"
    assert label(Indexing(2, directions=True), 2, 3, 1) == "dy[2,3] by x, direction 1"
    assert label(Indexing(1, True, True), 3, 1) == "x by cotangent 3, direction 1"


def test_labels_of_complex_numbers_name_the_part() -> None:
    def label(how: Indexing, *index: int) -> str:
        return entry_label(replace(FINDING, indexing=how), index, "y", 2)

    both = Indexing(2, complex_output=True, complex_input=True)
    assert label(both, 1, 0, 2, 1) == "dy[1].re/dx[2].im"
    assert label(Indexing(0, complex_input=True), 0) == "x.re"
    assert label(Indexing(1, complex_output=True), 1, 3) == "dy.im/dx[3]"
    of_products = Indexing(0, cotangents=True, complex_input=True)
    assert label(of_products, 8, 1) == "x[8].im by a random cotangent"


def test_one_engine_gives_the_column_its_name() -> None:
    assert table([FINDING]) == [
        "  entry   torch   truth (confirmed)   finite difference         error",
        "  x       nan     -3.72007598e-44     -3.72007598e-44 ± 4e-53   -",
    ]


def test_equal_rows_of_several_engines_are_one() -> None:
    header, row = table([FINDING, nan_finding("tensorflow")])
    assert "computed" in header
    assert row.split()[:2] == ["x", "nan"]


def test_rows_that_differ_say_whose_they_are() -> None:
    findings = list(wrong_sign().findings)
    findings = [replace(finding, pattern=None) for finding in findings[:2]]
    findings[0] = replace(findings[0], entries=(wrong_entry((0, 0), 0.5),))
    lines = table(findings)
    assert "by" in lines[0].split()
    assert lines[1].split()[:3] == ["W[0,0]", "reference", "0.5"]
    assert lines[2].split()[:2] == ["W[0,0]", "torch"]


def test_further_entries_are_counted() -> None:
    (finding, *_) = wrong_sign().findings
    many = [wrong_entry((row, 0), 0.5 + row) for row in range(8)]
    finding = replace(finding, pattern=None, entries=tuple(many))
    assert table([finding])[-1] == f"  and {8 - SHOWN_ROWS + 3} more entries"
    assert table([finding], verbose=True)[-1] == "  and 3 more entries"


def test_further_entries_of_several_dtypes_are_counted_once() -> None:
    (finding, *_) = wrong_sign().findings
    many = tuple(wrong_entry((row, 0), 0.5 + row) for row in range(8))
    wide = replace(finding, pattern=None, entries=many, more=3)
    narrow = replace(wide, dtype="float32", entries=many[:6], more=4)  # 10 of those 11
    rounded = replace(narrow, entries=tuple(replace(one, computed=0.1) for one in many[:6]))
    for other in (narrow, rounded):
        shown = {line.split()[0] for line in table([wide, other])[1:-1]}
        assert table([wide, other])[-1] == f"  and {11 - len(shown)} more entries"


def test_of_many_entries_the_errors_are_drawn_by_index() -> None:
    (finding, *_) = wrong_sign().findings
    ulps, truth = np.zeros((1, 40)), np.ones((1, 40))
    ulps[0, 30:], truth[0, 35] = 1e16, np.nan
    compared = Comparison((), (40,), truth, truth, ulps)
    reading = Reading("reference", "float64", "reverse", None, 1.0, {}, {"W": compared})
    result = replace(quadratic(), readings=(reading,))
    style = Style(width=120)
    lines = entries_table([replace(finding, more=30)], result, style)
    drawn = " " * 34 + "█" * 5 + " " + "█" * 4
    assert [line.plain for line in lines][-3:] == [
        "  and 32 more entries; their errors by index:",
        drawn,
        drawn,
    ]
    ascii_lines = entries_table([replace(finding, more=30)], result, replace(style, unicode=False))
    assert ascii_lines[-1].plain == "  and 32 more entries"


def test_one_entry_is_enough_where_a_pattern_says_the_same_of_all() -> None:
    (finding, *_) = wrong_sign().findings
    lines = table([finding])
    assert [line.split()[0] for line in lines] == ["entry", "W[0,0]", "and"]
    assert lines[-1] == "  and 5 more entries"


def test_verbose_shows_every_digit_of_the_truth_and_its_bar() -> None:
    assert "-3.7200759760208356e-44 ± 4e-60" in table([FINDING], verbose=True)[1]


def test_a_narrow_screen_has_no_room_for_the_difference() -> None:
    header, row = table([FINDING], width=60)
    assert header.split() == ["entry", "torch", "truth", "(confirmed)", "error"]
    assert row.split() == ["x", "nan", "-3.72007598e-44", "-"]


def test_a_narrower_screen_gets_one_number_a_line() -> None:
    lines = table([FINDING], width=40)
    assert lines[0] == "  x"
    assert lines[1].split() == ["torch", "nan"]
    assert all(len(line) <= 40 for line in lines)


def test_a_finding_of_the_point_has_no_column_for_an_engine() -> None:
    finding = nan_finding("torch")
    object.__setattr__(finding, "engine", None)
    header, row = table([finding])
    assert header.split() == ["entry", "truth", "(confirmed)", "finite", "difference"]
    assert "nan" not in row


def test_without_any_number_there_is_no_table() -> None:
    finding = nan_finding("torch")
    bare = replace(wrong_entry((), 0.0), truth=None, finite_difference=None)
    assert table([replace(finding, engine=None, entries=(bare,))]) == []


def test_heights_are_logarithms_of_the_errors() -> None:
    assert sparkline([0.0, 5.0, 5e2, 5e4], 72) == ("  ▁█", " ▁██")


def test_what_is_no_number_is_as_high_as_there_is() -> None:
    assert sparkline([math.nan, math.inf, 0.0], 72) == ("██ ", "██ ")


def test_a_column_has_the_worst_of_its_entries() -> None:
    errors = [0.0] * 1000
    errors[999] = 1e6
    upper, lower = sparkline(errors, 10)
    assert (upper, lower) == (" " * 9 + "█", " " * 9 + "█")


def test_all_are_right() -> None:
    assert sparkline([0.0, 0.5], 72) == ("  ", "  ")
