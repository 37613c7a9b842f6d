import math

from gradcheck_cli.domain.report import Reading
from gradcheck_cli.report.values import (
    depth,
    nested,
    reading_text,
)


def test_nested_lists_keep_their_shape() -> None:
    assert nested([[1.0, math.nan], [0.5, -math.inf]], "float64") == "[[1, nan], [0.5, -inf]]"
    assert depth([[1.0], [2.0]]) == 2


def test_a_gradient_that_is_not_there_is_none() -> None:
    assert nested(None, "float64") == "none"


def test_names_and_points_are_said() -> None:
    reading = Reading("torch", "float32", "reverse", 1, 0.25, {"a": 1.0, "b": [2.0, 3.0]})
    assert reading_text(reading, "loss") == (
        "points[1]: loss = 0.25, dloss/da = 1, dloss/db = [2, 3]"
    )
    assert reading_text(reading, "output").startswith("points[1]: value = 0.25, d/da")
