"""Which rows a kernel is written in."""

from __future__ import annotations

import pytest

from gradcheck_cli.engines.registry import engines
from gradcheck_cli.engines.trace.exact_kernels import row
from gradcheck_cli.engines.trace.kernel_rows import ARITHMETIC, MOVES, rows_of, stated_in_rows

MODULES = [
    found.engine.capabilities.kernels
    for found in engines().values()
    if found.engine is not None and found.engine.capabilities.kernels
]


def _half(x: object) -> object:
    """Not the row `exp`."""
    return row("tanh")(x)


def test_rows_of_a_kernel_and_of_what_it_calls() -> None:
    def kernel(x: object) -> object:
        return [row("cosh")(_half(one)) for one in [x]]

    assert rows_of(row("expm1")) == {"expm1"}
    assert rows_of(lambda x: kernel(x)) == {"cosh"}
    assert rows_of(_half) == {"tanh"}


def test_kernels_of_pytorch() -> None:
    found = stated_in_rows("gradcheck_cli.engines.torch.kernels")
    assert found["erfc"] == "erfc"
    assert found["view"] == MOVES
    assert found["frexp"] == ARITHMETIC
    assert {"conv1d", "conv2d", "conv_transpose2d"} <= set(found["convolution"].split(", "))
    assert "tanh_backward" not in found


@pytest.mark.parametrize("module", MODULES)
def test_every_framework_has_most_rows_of_one_array(module: str) -> None:
    rows = {one for text in stated_in_rows(module).values() for one in text.split(", ")}
    assert {"exp", "log", "tanh", "sin", "sqrt", "where", "max", "sum"} <= rows
