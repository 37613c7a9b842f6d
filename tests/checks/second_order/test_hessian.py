"""The blocks of a Hessian, by the leaves and along the directions that are checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import Tensor

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.second_order.hessian import Hessian
from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.domain.evaluation import SECOND
from gradcheck_cli.domain.truth import TruthBlock
from gradcheck_cli.truth.layers.second_order import RowGradients
from tests.checks.making import layer_problem, torch_engine

XX, XY = ("x", "x"), ("x", "y")


def product(x: Tensor, y: Tensor) -> Any:
    """Whose Hessian has the blocks 2 y and 2 x."""
    return (x**2 * y).sum()


def bound(**inputs: Any) -> BoundLayer:
    problem = layer_problem(product, inputs)
    subjects = Subjects(torch_engine(), problem)
    narrow = subjects.bound("float64")
    return BoundLayer("torch", problem, narrow, narrow, subjects.bound)


def test_a_small_one_is_whole_in_every_composition() -> None:
    layer = bound(x=[1.0, 2.0], y=[3.0, 4.0])
    for mode in SECOND[:4]:
        hessian = Hessian(layer, frozenset(), mode)
        assert hessian.whole
        blocks = hessian.blocks(layer.narrow)
        assert np.array_equal(blocks[XX], np.diag([6.0, 8.0]))  # type: ignore[arg-type]
        assert np.array_equal(blocks[XY], np.diag([2.0, 4.0]))  # type: ignore[arg-type]
        none = blocks["y", "y"]
        assert none is None or not np.any(none)
        assert not np.any(hessian.filled(blocks)["y", "y"])


def test_a_large_one_is_taken_along_two_directions() -> None:
    layer = bound(x=np.ones(20), y=np.ones(20))
    hessian = Hessian(layer, frozenset(), "reverse-over-reverse")
    assert not hessian.whole
    blocks = hessian.blocks(layer.narrow)
    assert {key: np.shape(block) for key, block in hessian.filled(blocks).items()} == {
        (a, b): (20, 2) for a in "xy" for b in "xy"
    }
    assert hessian.doubtful(hessian.truth()) == {}


def test_a_large_one_is_taken_along_one_pair_of_directions_a_block() -> None:
    layer = bound(x=np.ones(20), y=np.ones(20))
    hessian = Hessian(layer, frozenset(), "forward-over-forward")
    pairs, columns = hessian.blocks(layer.narrow), hessian.of_every_entry(layer.narrow)
    for key in (XX, XY):
        pair, column = pairs[key], columns[key]
        assert pair is not None
        assert column is not None
        np.testing.assert_allclose(pair, hessian.firsts["x"] @ column, rtol=1e-12)
        truth = TruthBlock.of(column, np.full(column.shape, 1e-12))
        along = hessian.along_rows({key: truth})[key]
        np.testing.assert_allclose(along.value, pair, rtol=1e-12)
        assert along.error.shape == (1, 1)


def test_leaves_whose_first_derivative_is_wrong_are_left_out() -> None:
    layer = bound(x=[1.0], y=[3.0])
    assert [leaf.name for leaf in Hessian(layer, {"x"}, "reverse-over-reverse").leaves] == ["y"]
    assert Hessian(layer, {None}, "reverse-over-reverse").leaves == []


def test_a_right_gradient_is_not_doubted() -> None:
    layer = bound(x=[1.0], y=[3.0])
    hessian = Hessian(layer, frozenset(), "reverse-over-reverse")
    doubtful = hessian.doubtful(hessian.truth())
    assert {name: bool(np.any(entries)) for name, entries in doubtful.items()} == {
        "x": False,
        "y": False,
    }


def test_compositions_share_the_gradients_that_are_differenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer = bound(x=[1.0], y=[3.0])
    shared = RowGradients(layer.highest)
    ran = []
    run = layer.highest.run
    monkeypatch.setattr(layer.highest, "run", lambda call: ran.append(call) or run(call))
    counts = []
    for mode in SECOND[:2]:
        hessian = Hessian(layer, frozenset(), mode, shared)
        hessian.truth().blocks(hessian.filled(hessian.blocks(layer.highest)), None)
        counts.append(len(ran))
    assert counts[0] == counts[1] > 0
