"""The forward of a layer of TensorFlow becomes a program in the rows of these kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck_cli.engines.layer.lifting import NotLifted
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from tests.checks.making import assert_computes, subject_of
from tests.every import every

X = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.6], [-0.2, 0.9, 1.6]])
IMAGE = np.random.default_rng(0).standard_normal((1, 5, 4, 2))


def attention(x: Any) -> Any:
    return tf.nn.softmax(tf.matmul(x, x, transpose_b=True) / 2.0) @ x


def cell(x: Any) -> Any:
    gate = tf.sigmoid(tf.concat([x, x[::-1]], 1) @ tf.concat([x, x], 0))
    return gate * x + (1 - gate) * tf.tanh(x)


def normalised(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [0])
    return tf.nn.batch_normalization(x, mean, variance, x[0], x[1], 1e-5)


def losses(x: Any) -> Any:
    dense = tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(x[::-1]), x)
    return dense + tf.nn.sparse_softmax_cross_entropy_with_logits([0, 2, 1], x)


def complex_numbers(x: Any) -> Any:
    z = tf.complex(x, x[::-1] * 0.7)
    y = tf.math.real(z**3 / (z + 2j)) + tf.math.imag(tf.exp(z)) + tf.abs(z) * tf.math.angle(z)
    y += tf.math.imag(tf.sqrt(z) + tf.tanh(z) - tf.math.conj(z) * tf.sin(z)) + tf.cast(z, x.dtype)
    y += tf.math.real(tf.where(x > 0.0, z, tf.math.rsqrt(z)) + tf.reduce_sum(z, 0))
    y += tf.math.imag(tf.linalg.matmul(z, z, adjoint_b=True) + tf.math.reciprocal(z))
    return y + tf.math.real(tf.einsum("ij,jk->ki", z, tf.cast(x, z.dtype)) + tf.sigmoid(z))


def transforms(x: Any) -> Any:
    y = tf.signal.irfft(tf.signal.rfft(x) * tf.signal.rfft(x[::-1]), [3])
    y += tf.abs(tf.signal.rfft(x, [5])) + tf.math.imag(tf.signal.fft(tf.complex(x, x * x)))
    y += tf.math.real(tf.signal.ifft2d(tf.complex(x * x, x)))
    return y + tf.signal.irfft2d(tf.signal.rfft2d(x) ** 2, [3, 3])


@tf.custom_gradient
def stated(x: Any) -> Any:
    return tf.exp(-x), lambda g: g


def loops(x: Any) -> Any:
    (x,) = tf.while_loop(lambda y: tf.reduce_sum(y) < 20, lambda y: (y * y + tf.abs(y),), [x])
    x = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.cos(x), lambda: tf.tanh(x))
    return tf.scan(lambda a, b: tf.sin(a) + b, x)


def placed(x: Any) -> Any:
    y = tf.tensor_scatter_nd_update(tf.reverse(x, [1]), [[0, 1]], [x[1, 1] ** 2])
    y = tf.tensor_scatter_nd_add(y, [[0], [0]], x[:2]) * tf.scatter_nd([[2], [0]], x[1:], [3, 3])
    return tf.where(y > 0, y, tf.math.expm1(y)) + tf.gather(x, [1, 0, 1])


def segments(x: Any) -> Any:
    of = [0, 0, 1]
    ordered = tf.math.segment_sum(x, of) + tf.math.segment_mean(x, of) + tf.math.segment_max(x, of)
    return ordered + tf.math.unsorted_segment_sum(x, [1, -1, 0], 2)


def reduced(x: Any) -> Any:
    y = tf.reduce_prod(x, 0) + tf.reduce_logsumexp(x, 0) + tf.math.reduce_std(x, 0)
    return y + tf.math.cumulative_logsumexp(x)[1] + tf.norm(x, axis=1) + tf.reduce_max(x, 1)


def matrices(x: Any) -> Any:
    spd = x @ tf.transpose(x) + tf.eye(3, dtype=x.dtype)
    solved = tf.linalg.solve(x, spd) + tf.linalg.cholesky_solve(tf.linalg.cholesky(spd), x)
    return solved * tf.linalg.slogdet(spd)[1] + tf.linalg.det(x) + tf.linalg.inv(x)


def decomposed(x: Any) -> Any:
    s, u, v = tf.linalg.svd(x)
    (q, r), (w, z) = tf.linalg.qr(x[:, :2]), tf.linalg.eigh(x)
    sizes = tf.linalg.svd(x, compute_uv=False) + tf.linalg.eigvalsh(x) + w
    return s * u + v * sizes + z, q @ r**2, tf.linalg.pinv(x[:2])


def by_weight(x: Any) -> Any:
    """A convolution's derivative by its weight; a column of x is in no window."""
    weight = tf.reshape(x[:, :3], (3, 2, 2, 2))
    found = []
    for strides, padding in (([1, 2, 1, 1], "SAME"), ([1, 1, 3, 1], "VALID")):
        y = tf.nn.conv2d(x, weight, strides, padding)
        found.append(
            tf.raw_ops.Conv2DBackpropFilter(
                input=x, filter_sizes=(3, 2, 2, 2), out_backprop=y, strides=strides, padding=padding
            )
        )
    return tuple(found)


BESSEL = [f"bessel_{name}" for name in ("j0", "j1", "y0", "y1", "k0", "k1", "k0e", "k1e")]
INTEGRALS = ("dawsn", "expint", "fresnel_cos", "fresnel_sin", "spence")


def special_functions(x: Any) -> Any:
    calls = [getattr(tf.math.special, name)(tf.abs(x)) for name in (*BESSEL, *INTEGRALS)]
    return tf.stack(calls)


LAYERS: dict[str, Callable[..., Any]] = {
    "special functions": special_functions,
    "filled": lambda x: tf.fill([3], x[0, 0]) * x[1],
    "ensured": lambda x: tf.ensure_shape(x, x.shape) * x,
    "stitched": lambda x: tf.dynamic_stitch([[2, 0], [1]], [x[:2], x[:1]]) * x,
    "dense": lambda x: tf.tanh(tf.nn.bias_add(x @ x, x[0])),
    **{"attention": attention, "cell": cell, "normalised": normalised, "losses": losses},
    **{"custom gradient": stated, "loops": loops, "placed": placed, "segments": segments},
    **{"reduced": reduced, "matrices": matrices},
    "decomposed": decomposed,
    **{"complex": complex_numbers, "transforms": transforms},
    "products": lambda x: tf.einsum("ij,kj->ik", x, x) + tf.tensordot(x, x, [[1], [0]]),
    "activations": lambda x: tf.nn.gelu(x) + tf.nn.elu(x) + tf.nn.leaky_relu(x) + tf.nn.relu6(x),
    "special": lambda x: tf.math.lgamma(x + 2) + tf.math.polygamma(tf.ones_like(x), x + 2),
    "incomplete": lambda x: (
        tf.math.igamma(x + 3, x + 4) * tf.math.igammac(tf.ones_like(x) * 2.5, x + 4)
        + tf.math.betainc(x + 3, tf.ones_like(x), tf.sigmoid(x))
        + tf.math.zeta(x + 4, x + 3)
    ),
    "largest": lambda x: tf.math.top_k(x, 2)[0] * tf.sort(x)[:, :2],
    "parted": lambda x: tf.dynamic_partition(tf.reverse_sequence(x, [2, 3, 1], 1), [1, 0, 1], 2),
    "drawn": lambda x: tf.nn.dropout(x, 0.5, seed=1),
    "mapped": lambda x: tf.vectorized_map(lambda row: tf.reduce_sum(row * row) * tf.sin(row), x),
    "mapped pairs": lambda x: tf.reduce_sum(
        tf.vectorized_map(lambda p: (p[0] * p[1], tf.exp(p[0])), (x, x[::-1]))[1], axis=0
    ),
}
OF_IMAGES: dict[str, Callable[..., Any]] = {
    "convolution": lambda x: tf.nn.conv2d(x, tf.reshape(x[:, :3], (3, 2, 2, 2)), [2, 1], "SAME"),
    "dilated": lambda x: tf.nn.conv2d(x, tf.reshape(x[:, :2], (2, 2, 1, 4)), 1, "VALID", None, 2),
    "by weight": by_weight,
    "by channel": lambda x: tf.nn.depthwise_conv2d(
        x, tf.reshape(x[:, :2], (2, 2, 2, 2)), [1, 1, 1, 1], "SAME"
    ),
    "volume": lambda x: tf.nn.conv3d(
        x[..., None], tf.reshape(x[:, :2], (2, 2, 2, 1, 2)), [1, 1, 1, 1, 1], "SAME"
    ),
    "pooled": lambda x: (tf.nn.max_pool2d(x, 2, 2, "SAME"), tf.nn.avg_pool2d(x, 3, 2, "SAME")),
    "rearranged": lambda x: tf.nn.space_to_depth(x[:, :4], 2),
    "transposed": lambda x: tf.nn.conv2d_transpose(
        x, tf.reshape(x[:, :3], (3, 2, 2, 2)), (1, 10, 7, 2), 2, "SAME"
    ),
    "transposed volume": lambda x: tf.nn.conv3d_transpose(
        x[..., None], tf.reshape(x[:, :2], (2, 2, 2, 2, 1)), (1, 10, 4, 6, 2), (2, 1, 3), "SAME"
    ),
    "atrous": lambda x: tf.nn.atrous_conv2d(x, tf.reshape(x[:, :2], (2, 2, 2, 2)), 2, "SAME"),
}


def test_the_program_computes_the_layer_here_and_nearby() -> None:
    layers = {name: (layer, X) for name, layer in LAYERS.items()}
    layers |= {name: (layer, IMAGE) for name, layer in OF_IMAGES.items()}

    def check(name: str) -> None:
        layer, x = layers[name]
        subject = subject_of(TensorFlowEngine(), layer, x=x)
        lifted = subject.lift().without_islands()
        for there in (x, x + 1e-3):
            assert_computes(lifted, subject, {"x": there}, rtol=1e-11, atol=1e-13)

    every(layers, check)


def test_an_operation_without_rows_is_refused_by_name() -> None:
    with pytest.raises(NotLifted, match="no formula for `NextAfter`"):
        subject_of(
            TensorFlowEngine(), lambda x: tf.math.nextafter(x, x + 1), x=X
        ).lift().without_islands()


TARGET = np.array([0.3, 0.5, -0.1])


def test_a_captured_array_of_numpy_is_a_constant() -> None:
    def distance(x: Any) -> Any:
        return tf.reduce_sum((x - tf.constant(TARGET, x.dtype)) ** 2, 1)

    subject = subject_of(TensorFlowEngine(), distance, x=X)
    assert_computes(subject.lift(), subject, {"x": X + 1e-3}, rtol=1e-11, atol=1e-13)
    subject.record(np.ones(3))
