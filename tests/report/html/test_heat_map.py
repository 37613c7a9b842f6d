"""Maps of errors: a wrong row is a row of the picture, and its words say the same."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.report import Comparison
from gradcheck_cli.report.html.heat_map import heat_map, legend, level


def compared(
    ulps: Any, output: tuple[int, ...] = (), shape: tuple[int, ...] | None = None, **numbers: Any
) -> Comparison:
    errors = np.asarray(ulps, dtype=np.float64)
    shape = errors.shape if shape is None else shape
    flat = errors.reshape(int(np.prod(output)), -1)
    known = {"computed": np.ones(flat.shape), "truth": np.ones(flat.shape), **numbers}
    return Comparison(output, shape, known["computed"], known["truth"], flat)


def classes(svg: str, mark: str) -> int:
    return len(re.findall(f'class="h{mark}"', svg))


@pytest.mark.parametrize(
    ("ulps", "dtype", "expected"),
    [
        (0.0, "float32", "0"),
        (4.9, "float32", "0"),
        (5.0, "float32", "1"),
        (2.0**12, "float32", "5"),
        (2.0**23, "float32", "8"),
        (1e30, "float32", "8"),
        (2.0**23, "float64", "4"),
        (float("nan"), "float32", "x"),
        (float("inf"), "float64", "x"),
    ],
)
def test_equal_levels_are_equal_parts_of_the_digits(ulps: float, dtype: str, expected: str) -> None:
    assert level(ulps, dtype) == expected


def test_a_bad_row_is_a_row() -> None:
    errors = np.zeros((4, 6))
    errors[2] = 2.0**23
    errors[2, 3] *= 2
    found = heat_map("w", compared(errors), "float32")
    assert found is not None
    assert found.words == (
        "6 of 24 entries differ by 5 ulp or more, w[2,3] most: 1.7e7 ulp; row 2 is wrong throughout"
    )
    rows = re.findall(r'class="h8" x="\d+" y="(\d+)"', found.svg)
    assert len(rows) == 6
    assert len(set(rows)) == 1
    assert "axis 0 of w" in found.svg
    assert "axis 1 of w" in found.svg


def test_bad_columns_and_scattered_entries() -> None:
    errors = np.zeros((3, 4))
    errors[:, [0, 3]] = 100
    assert heat_map("w", compared(errors), "float32").words.endswith(
        "columns 0, 3 are wrong throughout"
    )
    errors[1, 1] = 1e6
    errors[2, :] = 1e6
    assert heat_map("w", compared(errors), "float32").words.endswith("ulp")
    errors[1, 1] = 100  # beside what has lost half of its digits, a few ulps are no pattern
    assert heat_map("w", compared(errors), "float32").words.endswith("row 2 is wrong throughout")


def test_all_right_says_how_far() -> None:
    found = heat_map("x", compared([0.5, 0.25]), "float64")
    assert found.words == "all 2 entries are right; the largest error is 0.5 ulp"


def test_no_number_has_a_cross_and_no_truth_has_a_colour_of_its_own() -> None:
    found = heat_map(
        "x",
        compared(
            [np.nan, 0.0, np.nan],
            computed=np.array([[np.nan, 1.0, 1.0]]),
            truth=np.array([[1.0, 1.0, np.nan]]),
        ),
        "float32",
    )
    assert found.words == "1 of 2 entries differ by 5 ulp or more, x[0] most: no number"
    assert (classes(found.svg, "x"), classes(found.svg, "u")) == (1, 1)
    assert found.svg.count('class="cross"') == 1


def test_a_jacobian_has_outputs_in_its_rows() -> None:
    errors = np.zeros((2, 3))
    errors[1, 2] = 1e6
    found = heat_map("x", compared(errors, output=(2,), shape=(3,)), "float32")
    assert "d output[1] / d x[2] most" in found.words
    assert "output entry" in found.svg


def test_parts_of_complex_numbers_are_named() -> None:
    one = compared([[0, 0], [9, 0]], output=(2,), shape=(1, 2))
    found = heat_map("z", replace(one, complex_output=True, complex_input=True), "complex64")
    assert found is not None
    assert "d output.im / d z[0].re" in found.words


def test_a_long_list_is_folded_and_a_wide_matrix_tiled() -> None:
    folded = heat_map("x", compared(np.zeros(100)), "float32")
    assert classes(folded.svg, "0") == 100
    assert "64 entries of x a row" in folded.svg
    errors = np.zeros((2, 1000))
    errors[1, 999] = 1e6
    tiled = heat_map("w", compared(errors), "float32")
    assert classes(tiled.svg, "0") + classes(tiled.svg, "7") <= 128
    assert classes(tiled.svg, level(1e6, "float32")) == 1
    assert "w[1,999]" in tiled.words


def test_nothing_to_see() -> None:
    assert heat_map("x", compared(np.zeros(())), "float32") is None
    unknown = compared([0.0, 0.0], truth=np.full((1, 2), np.nan))
    assert heat_map("x", unknown, "float32") is None


def test_names_are_text() -> None:
    found = heat_map("<b>\x1b", compared([0.0, 1e6]), "float32")
    assert "<b>" not in found.svg
    assert "&lt;b&gt;\\x1b[1]" in found.svg


def test_a_legend_has_every_level() -> None:
    for mark in [*map(str, range(9)), "x", "u"]:
        assert f'class="swatch h{mark}"' in legend("float64")
