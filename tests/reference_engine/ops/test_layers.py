"""Layers where they are hard: extreme numbers, masks without a key, indices without a row."""

from typing import Any

import numpy as np
import pytest

import reference_engine as engine
from reference_engine import ShapeError, grad, jvp

ONE, NONE = np.ones(3), np.zeros(3)


def test_layer_norm_of_a_large_mean_keeps_the_digits_of_the_deviations() -> None:
    """Deviations of 1 on a mean of 2^20: E[x^2] - E[x]^2 has no digit of float32 left."""
    x = (2.0**20 + np.array([-1.0, 0.5, 0.25, 2.0])).astype(np.float32)
    one, none = np.ones(4, np.float32), np.zeros(4, np.float32)
    w = np.array([1.0, 0.0, -1.0, 0.5], np.float32)

    def loss(x: Any, w: Any) -> Any:
        return engine.sum(engine.layer_norm(x, w, w * 0))

    wide = engine.layer_norm(x.astype(float), one.astype(float), none.astype(float))
    np.testing.assert_allclose(engine.layer_norm(x, one, none), wide, rtol=1e-6)
    slope = grad(loss)(x.astype(float), w.astype(float))
    np.testing.assert_allclose(grad(loss)(x, w), slope, rtol=1e-5)  # terms cancel once


@pytest.mark.parametrize("scale", [1e200, 1e-3, 1.0, 2.0**600])
def test_normalisation_does_not_depend_on_the_scale(scale: float) -> None:
    x = np.array([[1.0, -2.0, 4.0]])
    for layer in (
        lambda x: engine.layer_norm(x, ONE, NONE, eps=0.0),
        lambda x: engine.rms_norm(x, ONE, eps=0.0),
        lambda x: engine.group_norm(x[..., None], ONE, NONE, num_groups=1, eps=0.0),
        lambda x: engine.batch_norm(engine.reshape(x, shape=(3, 1)), ONE[:1], NONE[:1], eps=0.0),
        lambda x: engine.normalize(x),
    ):
        np.testing.assert_allclose(layer(x * scale), layer(x), rtol=1e-15)
        slope = jvp(layer, (x * scale,), (np.array([[scale, 0.0, 0.0]]),))[1]
        expected = jvp(layer, (x,), (np.array([[1.0, 0.0, 0.0]]),))[1]
        np.testing.assert_allclose(slope, expected, rtol=1e-14)


def test_batch_norm_of_one_number_a_channel_is_its_bias() -> None:
    x, bias = np.array([[3.0, 4.0]]), np.array([5.0, 6.0])
    np.testing.assert_array_equal(engine.batch_norm(x, np.ones(2), bias), [[5, 6]])
    slope = grad(lambda x: engine.sum(engine.batch_norm(x, np.ones(2), bias)))(x)
    np.testing.assert_array_equal(slope, [[0, 0]])


def test_a_query_that_sees_nothing_leaves_the_others_alone() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.uniform(-1, 1, (2, 2)) for _ in range(3))
    mask = np.array([[True, False], [False, False]])
    y = engine.masked_attention(q, k, v, mask)
    np.testing.assert_array_equal(y, [v[0], [0, 0]])
    q_bar, k_bar, v_bar = grad(
        lambda *xs: engine.sum(engine.masked_attention(*xs, mask)), (0, 1, 2)
    )(q, k, v)
    np.testing.assert_array_equal(q_bar, np.zeros((2, 2)))
    np.testing.assert_array_equal(k_bar, np.zeros((2, 2)))
    np.testing.assert_array_equal(v_bar, [[1, 1], [0, 0]])


def test_causal_attention_does_not_look_ahead() -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.uniform(-1, 1, (3, 2)) for _ in range(3))

    def first(v: Any) -> Any:
        return engine.sum(engine.scaled_dot_product_attention(q, k, v, is_causal=True)[:2])

    v_bar = grad(first)(v)
    assert v_bar[:2].all()
    assert not v_bar[2].any()


def test_dropout_selects() -> None:
    x = np.array([np.inf, 1.0])
    np.testing.assert_array_equal(engine.dropout(x, np.array([False, True])), [0, 2])


def test_an_index_without_a_row_gives_nan() -> None:
    weight = np.array([[1.0, 2.0], [3.0, 4.0]])
    found = engine.embedding(np.array([1, 2, -1]), weight)
    np.testing.assert_array_equal(found, [[3, 4], [np.nan] * 2, [np.nan] * 2])
    slope = grad(lambda w: engine.sum(engine.embedding(np.array([1, 1, 0]), w)))(weight)
    np.testing.assert_array_equal(slope, [[1, 1], [2, 2]])


UNFIT: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("layer_norm", (np.ones((2, 3)), np.ones(2), np.ones(2)), {}, "last axes"),
    ("layer_norm", (np.ones((2, 3)), np.ones(3), np.ones(2)), {}, "last axes"),
    ("rms_norm", (np.ones(3), np.ones(())), {}, "last axes"),
    ("batch_norm", (np.ones((2, 3)), np.ones(2), np.ones(3)), {}, r"must be \(N, C"),
    ("group_norm", (np.ones((2, 3)), ONE, ONE), {"num_groups": 2}, "2 groups"),
    ("linear", (ONE, ONE, ONE), {}, "matrix"),
    ("embedding", (np.array([0]), ONE), {}, "matrix"),
    ("max_pool2d", (np.ones((2, 3, 4)),), {"kernel_size": 2}, r"\(N, C, H, W\)"),
    ("avg_pool2d", (np.ones((1, 1, 4, 4)),), {"kernel_size": 2, "padding": 2}, "half"),
]


@pytest.mark.parametrize(("name", "arrays", "keywords", "reason"), UNFIT)
def test_what_does_not_fit_is_refused(
    name: str, arrays: tuple[Any, ...], keywords: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ShapeError, match=reason):
        getattr(engine, name)(*arrays, **keywords)
