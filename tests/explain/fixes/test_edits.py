"""Small edits of what a hand-written derivative returns."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from gradcheck_cli.engines.layer.source_lines import read_function
from gradcheck_cli.explain.fixes.edits import Notation, Returned, edits, returned_value

NAMES = {"g": (2, 3), "x": (2, 3), "y": (2, 3)}


def backward(g: Any, x: Any, y: Any) -> Any:
    slope = 2 * y
    return g * slope, g.mean(0)


def product(g: Any, x: Any, y: Any) -> Any:
    return g @ x


def masked(g: Any, x: Any, y: Any) -> Any:
    return g * (x >= 0)


def renamed(g: Any, x: Any, y: Any) -> Any:
    g = g * x
    return g


def of(function: Any, index: int | None) -> Returned:
    read = read_function(function)
    assert read is not None
    found = returned_value(read, () if index is None else (index,))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("function", "index", "after"),
    [
        (backward, 0, "-(g * slope)"),
        (backward, 0, "g * slope + x"),
        (backward, 0, "2 * y - x"),
        (backward, 0, "g * slope * x"),
        (backward, 0, "g * slope * (1 - y)"),
        (backward, 0, "2 * x"),  # in the line of `slope`
        (backward, 0, "2 * y ** 2"),
        (backward, 0, "(g - y * (g * y).sum(-1, keepdims=True)) * slope"),
        (backward, 1, "g.sum(0)"),
        (masked, None, "g * (x > 0)"),
        (masked, None, "g * (x <= 0)"),
        (product, None, "g @ x.T"),
        (product, None, "x @ g"),
    ],
)
def test_an_edit_is_one_change(function: Any, index: int | None, after: str) -> None:
    found = edits(of(function, index), NAMES, Notation(), sized=False)
    assert after in [edit.after for edit in found]


def test_an_edit_of_an_assignment_says_what_is_returned_then() -> None:
    found = edits(of(backward, 0), NAMES, Notation(), sized=False)
    (edit,) = [edit for edit in found if edit.after == "2 * x"]
    assert ast.unparse(edit.whole) == "g * (2 * x)"
    assert edit.place.text == "2 * y"


def test_a_name_that_is_assigned_again_has_no_definition() -> None:
    assert of(renamed, None).definitions == {}


def test_every_edit_is_an_expression_and_they_are_in_order() -> None:
    found = edits(of(backward, 0), NAMES, Notation(), sized=True)
    for edit in found:
        ast.parse(ast.unparse(edit.whole), mode="eval")
    sized = ["g.size" in edit.after or "shape" in edit.after for edit in found]
    assert sized == sorted(sized, reverse=True)
    plain = [edit.after for edit in found if "shape" not in edit.after and "size" not in edit.after]
    assert plain.index("-(g * slope)") < plain.index("2 * x") < plain.index("2 * g * slope")


def power(g: Any, x: Any, y: Any, n: int) -> Any:
    return g * n * x**n


def test_another_power_comes_before_a_division_that_fails_at_zero() -> None:
    found = [edit.after for edit in edits(of(power, None), NAMES, Notation(), sized=False)]
    assert found.index("g * n * x ** (n - 1)") < found.index("g * n * x ** n / x")
    assert "g * n * x ** (n + 1)" in found


def averaged(g: Any, x: Any, y: Any) -> Any:
    return g * x / x.shape[0]


def test_a_size_becomes_another_size_and_its_array_is_left_alone() -> None:
    found = [edit.after for edit in edits(of(averaged, None), NAMES, Notation(), sized=True)]
    assert "g * x / g.shape[1]" in found
    assert not any(f"{array}.shape[0]" in after for after in found for array in ("x.T", "x ** 2"))


def test_numbers_of_entries_are_written_once_each() -> None:
    assert Notation().sizes(NAMES) == ["g.size", "g.shape[0]", "g.shape[1]"]
    assert Notation(count="{}.numel()").sizes({"x": (1, 3)}) == ["x.numel()"]
