import numpy as np
import pytest

from gradcheck_cli import specfile
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.specfile.points import at_words, specs_at_point

TWO = """\
name: first
inputs: {x: {value: [1, 2], domain: [0, 9]}, n: {value: 3, dtype: int64}}
model: sum(x) * n
---
name: second
inputs: {y: 1}
model: y
"""


def _specs() -> list[Spec]:
    specs, mistakes = specfile.read("here.yaml", TWO)
    assert not mistakes
    return specs


def test_specs_are_moved_and_those_without_the_point_are_left_out() -> None:
    (spec,) = specs_at_point(_specs(), ("x=[8, 0.5]", "n=4"))
    assert spec.name == "first"
    assert [spec.inputs[name].value.tolist() for name in ("x", "n")] == [[8, 0.5], 4]
    assert spec.inputs["n"].value.dtype == np.int64


@pytest.mark.parametrize(
    ("point", "why"),
    [
        ("z=1", "no input `z`"),
        ("x=1", r"has shape \(2,\), not \(\)"),
        ("x=[1, 10]", r"outside the domain \[0, 9\]"),
        ("x=[1", "not an input with its value"),
        ("x", "not an input with its value"),
        ("x=true1", "not an input with its value"),
        ("x=[1e999, 1]", "1e999 is larger than any floating-point number"),
        (f"x=[1, 1{'0' * 400}]", r"10{36}\.\.\. is larger than any floating-point number"),
    ],
)
def test_a_point_that_no_spec_has_is_an_error(point: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        list(specs_at_point(_specs(), (point,)))


@pytest.mark.parametrize(("word", "value"), [("inf", np.inf), ("-inf", -np.inf), ("nan", np.nan)])
def test_infinity_and_nan_are_words(word: str, value: float) -> None:
    (spec,) = specs_at_point(_specs(), (f"y={word}",))
    np.testing.assert_array_equal(spec.inputs["y"].value, value)


def test_the_words_of_a_command_have_all_digits() -> None:
    values = {"x": np.float64(np.float32(0.1)), "w": np.array([1.0, -2.5])}
    assert at_words(values, "float32") == ["--at", "x=0.1", "--at", "w=[1, -2.5]"]
