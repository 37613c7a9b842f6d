import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.search.regions.reasons import Reasons
from tests.search.searched import spec_of


def between(model: str, right: float, failing: float, gradient: str = "") -> str:
    """The reason in float32; `gradient` is a formula, too."""
    program, *rest = (spec_of("{x: 1.0}", text).program for text in (model, gradient) if text)
    reasons = Reasons(program, GradientProgram(*rest), FORMATS["float32"])
    return reasons.what_changes({"x": np.array(right)}, {"x": np.array(failing)})


def test_the_first_operation_that_changes_is_named() -> None:
    assert between("log(1 + exp(x))", 88.0, 89.0) == "exp(x) overflows"
    assert between("1 / exp(x)", 80.0, 90.0) == "exp(x) overflows"
    assert between("exp(-x)", 80.0, 90.0) == "exp(-x) underflows"
    assert between("log(x - 3)", 4.0, 3.0) == "x - 3 is 0"
    assert between("sqrt(x)", 4.0, -3.0) == "sqrt(x) has no value"


def test_else_that_of_the_gradient() -> None:
    assert between("x", 1.0, 1e30, "x * x") == "multiply of the gradient overflows"


def test_where_nothing_changes_there_is_none() -> None:
    assert between("x + 1", 1.0, 2.0) == ""
