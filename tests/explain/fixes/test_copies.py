"""Functions of gradcheck's tables in a script: with all that they call, and none of gradcheck."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.engines.tensorflow import ops
from gradcheck_cli.explain.fixes.code import code_of
from gradcheck_cli.explain.fixes.copies import Copies
from gradcheck_cli.explain.fixes.dialects import CannotSay
from tests.conftest import program_of

IMAGES = np.arange(16.0).reshape(1, 1, 4, 4).tolist()


@pytest.mark.parametrize(
    ("formula", "values"),
    [
        ("max_pool2d(x, kernel_size=2)", {"x": IMAGES}),
        ("avg_pool2d(x, kernel_size=2, padding=1)", {"x": IMAGES}),
        ("huber(x, y, delta=0.5)", {"x": [1.0, 2.0], "y": [0.5, 4.0]}),
        ("cummax(x)", {"x": [1.0, 3.0, 2.0]}),
        ("x * eye(2)", {"x": [[1.0, 2.0], [3.0, 4.0]]}),
        ("x[::-1]", {"x": [1.0, 2.0]}),
    ],
)
def test_a_script_has_every_operation_of_a_framework(formula: str, values: Any) -> None:
    found = code_of(program_of(formula, values), deep=True)
    assert {"torch", "tensorflow", "jax"} <= found.keys()
    assert all("gradcheck" not in source for source in found.values())


def test_a_fix_that_is_read_has_no_chain_of_copies() -> None:
    program = program_of("max_pool2d(x, kernel_size=2)", {"x": IMAGES})
    assert "tensorflow" not in code_of(program)


def test_a_copy_has_a_name_that_nothing_else_has() -> None:
    copies = Copies(ops.TABLE, "tf", {"moveaxis"}, deep=True)
    text = copies.call("moveaxis", ["moveaxis"], {"source": "0", "destination": "1"})
    assert text == "moveaxis_2(tf, moveaxis, source=0, destination=1)"
    assert copies.call("moveaxis", ["x"], {}).startswith("moveaxis_2(")
    assert [*copies.definitions] == ["_normal", "moved_axes", "moveaxis_2"]


def test_functions_of_one_factory_are_told_apart() -> None:
    copies = Copies(ops.TABLE, "tf", (), deep=True)
    assert copies.call("cummax", ["x"], {}) == "cummax(tf, x)"
    assert copies.call("cummin", ["x"], {}) == "cummin(tf, x)"


def test_what_a_framework_lacks_has_no_copy() -> None:
    with pytest.raises(CannotSay):
        Copies(ops.TABLE, "tf", (), deep=True).call("erfcx", ["x"], {})
