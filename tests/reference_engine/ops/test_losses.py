"""Losses where they are hard: certain classes, labels that are no class, reductions."""

from typing import Any

import numpy as np
import pytest

import reference_engine as engine
from reference_engine import ShapeError, grad

SURE = np.array([[100.0, 0.0, 0.0]])
TAIL = 2 * np.exp(-100.0)  # the probability of all other classes; 1 + TAIL rounds to 1


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: engine.cross_entropy(x, np.array([0])),
        lambda x: engine.soft_cross_entropy(x, np.array([[1.0, 0.0, 0.0]])),
    ],
    ids=["labels", "probabilities"],
)
def test_a_class_that_is_all_but_certain_keeps_its_digits(loss: Any) -> None:
    np.testing.assert_allclose(loss(SURE), TAIL, rtol=1e-15)
    expected = [[-TAIL, TAIL / 2, TAIL / 2]]
    np.testing.assert_allclose(grad(loss)(SURE), expected, rtol=1e-14)


def test_the_wrong_class_that_is_all_but_certain() -> None:
    def loss(x: Any) -> Any:
        return engine.cross_entropy(x, np.array([1]))

    assert loss(SURE) == 100
    np.testing.assert_allclose(grad(loss)(SURE), [[1, -1, TAIL / 2]], rtol=1e-14)


def test_labels_that_are_no_class_give_nan() -> None:
    logits, labels = np.zeros((3, 2)), np.array([0, 2, -1])
    for loss in (engine.cross_entropy, engine.nll):
        terms = loss(logits, labels, reduction="none")
        np.testing.assert_array_equal(np.isnan(terms), [False, True, True])


def test_label_smoothing_mixes_with_the_uniform_distribution() -> None:
    logits, labels = np.random.default_rng(0).uniform(-2, 2, (4, 3)), np.array([0, 2, 1, 1])
    mixed = 0.75 * np.eye(3)[labels] + 0.25 / 3
    smooth = engine.cross_entropy(logits, labels, label_smoothing=0.25)
    assert smooth == pytest.approx(engine.soft_cross_entropy(logits, mixed), rel=1e-15)


def test_huber_has_its_curvature_where_the_difference_is_0() -> None:
    assert grad(grad(lambda x: engine.huber(x, np.array(1.0))))(np.array(1.0)) == 1


@pytest.mark.parametrize("name", ["mse", "l1", "huber", "hinge", "bce_with_logits", "kl_div"])
def test_reductions(name: str) -> None:
    row, rng = engine.op.TABLE[name], np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (2, 3)), rng.uniform(0, 1, 3)
    terms = row(x, y, reduction="none")
    assert terms.shape == (2, 3)
    assert row(x, y) == terms.mean()
    assert row(x, y, reduction="sum") == terms.sum()
    with pytest.raises(ShapeError, match='"mean", "sum" or "none"'):
        row(x, y, reduction="average")


@pytest.mark.parametrize("loss", [engine.cross_entropy, engine.nll])
def test_labels_have_the_shape_of_the_samples(loss: Any) -> None:
    with pytest.raises(ShapeError, match=r"labels must have the shape \(2,\)"):
        loss(np.ones((2, 3)), np.array([0, 1, 2]))
    with pytest.raises(ShapeError, match="axis of classes"):
        loss(np.ones(()), np.array(0))


def test_probabilities_have_the_shape_of_the_logits() -> None:
    with pytest.raises(ShapeError, match="same shape"):
        engine.soft_cross_entropy(np.ones((2, 3)), np.ones(3))
