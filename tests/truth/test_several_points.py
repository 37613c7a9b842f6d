"""A program at several points at once has the values that it has at each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.truth.batching import batch_of_few
from gradcheck_cli.truth.plain import PlainFunction, plain_function
from gradcheck_cli.truth.several_points import FEW, SeveralPoints
from tests.conftest import program_of

RNG = np.random.default_rng(3)
SHAPES = {"x": (2, 3), "w": (3,), "m": (3, 4), "s": ()}

AT_ONCE = [
    "x * w + s",
    "tanh(matmul(x, m))",
    "softplus(20 * x) / 20",
    "where(x > 0, x, exp(x) - 1)",
    "w * x / sqrt(mean(x * x, axis=-1, keepdims=True))",
    "(x - mean(x, axis=1, keepdims=True)) / sqrt(var(x, axis=(1,), keepdims=True) + 1e-5)",
    "sum(x, axis=0, keepdims=True) * s",
    "sum(x, axis=(0, 1), keepdims=True) + w",
    "s * 2",
    "sum(x) + s",
    "sum(s) * w",
    "sum(x, axis=()) * w",
    "max(x, axis=()) + s",
    "sum(x, keepdims=True) * w",
    "mean(x, axis=0) * w",
    "max(x, axis=1)",
    "where(all(x > -1, axis=0), w, s)",
    "reshape(x, (6,)) + s",
    "squeeze(reshape(x, (2, 1, 3)), axis=1) * w",
    "expand_dims(w, axis=1) * transpose(x)",
    "moveaxis(expand_dims(x, axis=0), 0, 2)",
    "x[0] * w",
    "x[:, None, 1:] + s",
    "softmax(x, axis=-1)",
    "flip(x, axis=0) ** 2",
    "concatenate([transpose(x), m], axis=1)",
    "stack([x[1], w], axis=1)",
    "matmul(x, w)",
    "cumsum(x, axis=0)",
    "norm(x)",
    "norm(x, axis=1)",
    "max(x)",
    "sort(x, axis=0)",
]
ONE_BY_ONE = ["trace(x @ m)"]


def parsed(formula: str, shapes: Mapping[str, tuple[int, ...]]) -> Any:
    named = {name: np.zeros(shape) for name, shape in shapes.items() if name in formula}
    return program_of(formula, named)


def points(count: int) -> list[dict[str, Any]]:
    """Of which `m` is everywhere the same."""
    m = RNG.standard_normal(SHAPES["m"])
    return [
        {**{n: RNG.standard_normal(shape) for n, shape in SHAPES.items()}, "m": m}
        for _ in range(count)
    ]


def needed(program: Any, many: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
    return [{name: one[name] for name in program.inputs} for one in many]


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("formula", [*AT_ONCE, *ONE_BY_ONE])
def test_values_and_their_roundings_are_those_of_each_point(formula: str, count: int) -> None:
    program = parsed(formula, SHAPES)
    many, plain = needed(program, points(count)), plain_function(program, "float64")
    function = SeveralPoints(program, "float64")
    expected = np.stack([plain(point) for point in many])
    found = function.values(many)
    assert found.shape == expected.shape
    np.testing.assert_array_max_ulp(found, expected, 4)
    one, other = np.random.default_rng(7), np.random.default_rng(7)
    wrt = tuple(program.inputs)
    rounded = np.stack([plain.randomly_rounded(point, wrt, one) for point in many])
    same, anew = function.values_and_randomly_rounded(many, many, wrt, other)
    np.testing.assert_array_equal(same, found)
    np.testing.assert_array_max_ulp(anew, rounded, 4)
    assert one.random() == other.random()  # the same numbers were drawn


@pytest.mark.parametrize(
    ("formula", "evaluations"), [*((f, 1) for f in AT_ONCE), *((f, 5) for f in ONE_BY_ONE)]
)
def test_operations_run_once_where_they_allow_it(
    formula: str, evaluations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, ran = parsed(formula, SHAPES), []
    nodes = PlainFunction.nodes

    def counted(self: PlainFunction, *args: Any) -> Any:
        ran.append(self)
        return nodes(self, *args)

    monkeypatch.setattr(PlainFunction, "nodes", counted)
    SeveralPoints(program, "float64").values(needed(program, points(5)))
    assert len(ran) == evaluations


def test_what_is_the_same_at_all_points_is_repeated() -> None:
    program = parsed("x * 2", {"x": (2,)})
    x = np.array([1.0, 3.0])
    found = SeveralPoints(program, "float64").values([{"x": x}, {"x": x}])
    assert found.tolist() == [[2.0, 6.0], [2.0, 6.0]]


def test_large_arrays_are_evaluated_point_by_point() -> None:
    small, large = (parsed("x * 2", {"x": (n,)}) for n in (4, 2 * FEW))
    assert batch_of_few(small, 3, FEW) is not None
    assert batch_of_few(large, 3, FEW) is None
