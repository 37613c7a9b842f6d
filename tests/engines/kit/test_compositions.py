"""Compositions over the rows of an engine: their values, and that the engine has those rows."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.engines.jax import ops as jax_ops
from gradcheck_cli.engines.kit import compositions
from gradcheck_cli.engines.kit.lowerings import Composed, Limited, Loss, Missing
from gradcheck_cli.engines.tensorflow import ops as tensorflow_ops
from gradcheck_cli.engines.torch import ops as torch_ops
from reference_engine.op import TABLE

XP = types.SimpleNamespace(**TABLE)
X = np.array([[0.25, 0.5], [1.5, 0.75]])
Y = np.array([[0.5, 0.125], [0.25, 1.0]])


def composed(lowering: Any) -> Callable[..., Any] | None:
    while isinstance(lowering, Limited | Loss):
        lowering = lowering.call if isinstance(lowering, Limited) else lowering.terms
    return lowering.function if isinstance(lowering, Composed) else None


@pytest.mark.parametrize("table", [torch_ops.TABLE, tensorflow_ops.TABLE, jax_ops.TABLE])
def test_an_engine_has_the_rows_that_its_compositions_call(table: Any) -> None:
    called = {
        name
        for function in map(composed, table.values())
        if function is not None
        for name in re.findall(r"\bxp\.(\w+)", inspect.getsource(function))
    }
    assert called
    assert not [name for name in called if isinstance(table.get(name, Missing("")), Missing)]


@pytest.mark.parametrize(
    ("name", "arrays", "keywords"),
    [
        ("cbrt", (X - 0.5,), {}),
        ("log1mexp", (X,), {}),
        ("bce", (X / 2, Y), {"reduction": "none"}),
        ("hinge", (X, Y), {"reduction": "none"}),
        ("huber", (3 * X, Y), {"delta": 0.5, "reduction": "none"}),
        ("kl_div", (X, Y), {"reduction": "none"}),
        ("l1", (X, Y), {"reduction": "none"}),
        ("soft_cross_entropy", (X, Y), {"label_smoothing": 0.25, "reduction": "none"}),
        ("cosine_similarity", (X, Y[0]), {"axis": -1, "eps": 1e-8}),
    ],
)
def test_a_composition_has_the_value_of_the_row(
    name: str, arrays: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    stated = {key: value for key, value in keywords.items() if key != "reduction"}
    found = getattr(compositions, name)(XP, *arrays, **stated)
    np.testing.assert_allclose(found, TABLE[name](*arrays, **keywords), rtol=1e-14)


def test_the_excess_of_a_triplet_is_negative_where_the_negative_is_far_enough() -> None:
    points = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]]), np.array([[0.0, 9.0]])
    found = compositions.triplet_excess(XP, *points, margin=1.0, ord=2, eps=0.0)
    np.testing.assert_allclose(found, [1 + 5 - 9])


def test_classes_of_more_than_two_axes_go_last() -> None:
    assert compositions.classes_last(XP, np.zeros((2, 3, 4))).shape == (2, 4, 3)
    assert compositions.classes_last(XP, np.zeros((2, 3))).shape == (2, 3)
