import math

from gradcheck_cli.domain.report import Reading
from gradcheck_cli.report.values import (
    count,
    depth,
    nested,
    reading_text,
    shown_readings,
    shown_trainings,
)

from .samples import quadratic, trained


def test_nested_lists_keep_their_shape() -> None:
    assert nested([[1.0, math.nan], [0.5, -math.inf]], "float64", "…") == "[[1, nan], [0.5, -inf]]"
    assert depth([[1.0], [2.0]]) == 2
    assert count([[1.0], [2.0]]) == 2


def test_many_numbers_are_counted() -> None:
    assert nested([1.0] * 9, "float64", "…", limit=6) == "[1, 1, … 9 numbers]"


def test_a_gradient_that_is_not_there_is_none() -> None:
    assert nested(None, "float64", "…") == "none"


def test_names_and_points_are_said() -> None:
    reading = Reading("torch", "float32", "reverse", 1, 0.25, {"a": 1.0, "b": [2.0, 3.0]})
    assert reading_text(reading, "loss", "…", None) == (
        "points[1]: loss = 0.25, dloss/da = 1, dloss/db = [2, 3]"
    )
    assert reading_text(reading, "output", "…", None).startswith("points[1]: value = 0.25, d/da")


def test_the_widest_dtype_stands_for_all() -> None:
    (reading,) = shown_readings(quadratic())
    assert (reading.engine, reading.dtype) == ("reference", "float64")


def test_equal_training_paths_are_told_once() -> None:
    assert len(shown_trainings(trained())) == 1
