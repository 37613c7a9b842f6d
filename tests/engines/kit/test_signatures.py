"""Lowerings that change nothing but how the call is written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gradcheck_cli.engines.kit.signatures import (
    arange_args,
    contracted,
    leading,
    listed,
    running,
    shaped,
)


def seen(*arguments: Any, **keywords: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return arguments, keywords


FRAMEWORK = SimpleNamespace(math=SimpleNamespace(f=seen))


def test_a_shape_is_a_tuple_behind_the_arrays() -> None:
    assert shaped("math.f")(FRAMEWORK, shape=3, dtype="d") == (((3,),), {"dtype": "d"})
    assert shaped("math.f", "reps")(FRAMEWORK, "x", reps=(2, 1)) == (("x", (2, 1)), {})


def test_a_range_has_all_three_of_its_numbers() -> None:
    arange = arange_args("math.f")
    assert arange(FRAMEWORK, 4, None, 1, "d") == ((0, 4, 1), {"dtype": "d"})
    assert arange(FRAMEWORK, 4, 1, 1, "d") == ((4, 4, 1), {"dtype": "d"})


def test_arrays_are_one_argument() -> None:
    assert listed("math.f", "dim")(FRAMEWORK, "x", "y", axis=1) == ((("x", "y"),), {"dim": 1})


def test_a_keyword_stands_before_the_arrays() -> None:
    assert leading("math.f", "n")(FRAMEWORK, "x", n=2) == ((2, "x"), {})


def test_without_an_axis_it_is_the_first() -> None:
    assert running("math.f", "dim")(FRAMEWORK, "x", axis=None) == (("x",), {"dim": 0})
    assert running("math.f")(FRAMEWORK, "x", axis=-1) == (("x",), {"axis": -1})


def test_a_part_of_several_results_is_taken() -> None:
    framework = SimpleNamespace(f=lambda x, axis: SimpleNamespace(values=(x, axis)))
    assert running("f", part="values")(framework, "x", axis=1) == ("x", 1)


def test_the_axes_of_a_product_are_a_number_or_two_lists() -> None:
    assert contracted("math.f", "dims")(FRAMEWORK, "x", "y", axes=2) == (("x", "y"), {"dims": 2})
    found = contracted("math.f")(FRAMEWORK, "x", "y", axes=(1, (0,)))
    assert found == (("x", "y"), {"axes": [[1], [0]]})
