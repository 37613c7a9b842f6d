"""Scripts that run a pair of NumPy functions: every convention of a backward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.report.repro.layer_code import NoScript
from gradcheck_cli.report.repro.numpy_code import all_outputs, one_output, pair_code

PAIRS = """
import numpy as np

HALF = 0.5


def cached_forward(x, w):
    return HALF * x @ w, (x, w)


def cached_backward(y_bar, cache):
    x, w = cache
    return HALF * y_bar @ w.T, HALF * x.T @ y_bar


def alone_forward(x):
    return np.exp(x), np.exp(x)


def alone_backward(y_bar, saved):
    return y_bar * saved


def plain_forward(x):
    return x**2


def plain_backward(y_bar, given):
    return 2 * y_bar * given


def named_forward(rows, x, power=2):
    return np.sum(x[rows] ** power)


def named_backward(y_bar, x, rows, power=2):
    x_bar = np.zeros_like(x)
    x_bar[rows] = y_bar * power * x[rows] ** (power - 1)
    return {"dx": x_bar}


def placed_forward(rows, x):
    return x[rows]


def placed_backward(y_bar, places, values):
    x_bar = np.zeros_like(values)
    np.add.at(x_bar, places, y_bar)
    return None, x_bar


def output_forward(x):
    y = np.exp(x)
    return y, y


def output_backward(y_bar, out):
    return y_bar * out


class Kept:
    def backward(self, y_bar):
        return y_bar * self.slope


class Scaled(Kept):
    def __init__(self, scale):
        self.scale = scale

    def forward(self, x):
        self.slope = self.scale
        return self.scale * x


class Static:
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def backward(y_bar, x):
        return 3 * y_bar * x**2
"""


def layer(folder: Path, target: str, *args: Any, **kwargs: Any) -> Implementation:
    (folder / "pairs.py").write_text(PAIRS)
    return Implementation(
        "numpy", f"pairs.py:{target}", str(folder), Span(1, 1, 1, 2), args, kwargs
    )


@pytest.mark.parametrize(
    ("target", "inputs", "name", "output", "index", "expected"),
    [
        ("cached", {"x": [[1.0, 2.0]], "w": [[3.0], [4.0]]}, "w", (0, 0), (1, 0), 1.0),
        ("alone", {"x": [0.0, 0.0]}, "x", (1,), (1,), 1.0),
        ("plain", {"x": [1.0, 3.0]}, "x", (1,), (1,), 6.0),
        ("named", {"x": [1.0, 3.0], "rows": [1]}, "x", (), (1,), 6.0),
        ("placed", {"rows": [1], "x": [1.0, 3.0]}, "x", (0,), (1,), 1.0),
        ("output", {"x": [0.0]}, "x", (0,), (0,), 1.0),
        ("Static", {"x": 2.0}, "x", (), (), 12.0),
    ],
)
def test_an_entry_of_a_gradient_by_every_convention(
    target: str,
    inputs: dict[str, Any],
    name: str,
    output: tuple[int, ...],
    index: tuple[int, ...],
    expected: float,
    tmp_path: Path,
) -> None:
    assert computed(layer(tmp_path, target), inputs, name, output, index) == expected


def test_what_the_spec_adds_reaches_the_pair(tmp_path: Path) -> None:
    inputs = {"x": [1.0, 2.0], "rows": [1]}
    assert computed(layer(tmp_path, "named", power=3), inputs, "x", (), (1,)) == 12.0
    assert computed(layer(tmp_path, "Scaled", 7.0), {"x": [1.0]}, "x", (0,), (0,)) == 7.0


def test_a_product_with_random_numbers_lists_them(tmp_path: Path) -> None:
    pair, x = layer(tmp_path, "Static"), [1.0, -0.5, 2.0]
    bar = all_outputs([0.25, 1e-3, -7.0], is_complex=False)
    assert computed(pair, {"x": x}, "x", (), (2,), bar) == 3 * -7.0 * 4.0
    bar = all_outputs([0.25, 1e-3, -7.0, 2.0], is_complex=True)
    found: dict[str, Any] = {"np": np, "y": np.zeros(2, complex)}
    exec(bar, found)
    assert found["y_bar"].tolist() == [0.25 + 1e-3j, -7.0 + 2.0j]


def computed(
    pair: Implementation,
    inputs: dict[str, Any],
    name: str,
    output: tuple[int, ...],
    index: tuple[int, ...],
    bar: str = "",
) -> float:
    code = pair_code(pair, list(inputs))
    arrays = {key: np.array(value) for key, value in inputs.items()}
    floating = [key for key, array in arrays.items() if array.dtype.kind == "f"]
    found: dict[str, Any] = {"inputs": arrays, "np": np}
    run = code.run(name, bar or one_output(output), index, floating)
    exec("\n".join((code.source, code.made, run)), found)
    number: float = found["computed"]
    return number


@pytest.mark.parametrize(("target", "why"), [("Kept", "as a pair"), ("gone", "does not define")])
def test_what_is_no_pair(target: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(NoScript, match=why):
        pair_code(layer(tmp_path, target), ["x"])


def test_a_parameter_of_its_object_is_no_input(tmp_path: Path) -> None:
    with pytest.raises(NoScript, match="is no input"):
        pair_code(layer(tmp_path, "Static"), ["x"]).run("w", one_output(()), (), ["x"])
