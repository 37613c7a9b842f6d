import math

from gradcheck_cli.report.sparkline import sparkline


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
