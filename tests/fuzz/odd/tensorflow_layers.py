"""Layers of TensorFlow, right in an odd way or wrong in one place: `tests.fuzz.oddities`."""

import contextlib
from collections import namedtuple

import keras
import numpy as np
import tensorflow as tf


def _rule(backward, forward=tf.sin):
    @tf.custom_gradient
    def rule(x):
        return forward(x), lambda g: backward(x, g)

    return rule


def right_rule(x):
    """Right: a custom gradient."""
    return _rule(lambda x, g: g * tf.cos(x))(x)


def wrong_sign(x):
    """GC101: the sign."""
    return _rule(lambda x, g: -g * tf.cos(x))(x)


def wrong_in_one_entry(x):
    """GC101: one entry."""

    def backward(x, g):
        halved = tf.concat([tf.ones_like(x[1:]), tf.constant([0.5], x.dtype)], 0)
        return g * tf.cos(x) * halved

    return _rule(backward)(x)


def wrong_in_float32(x):
    """GC101: float32 only."""
    return _rule(lambda x, g: g * tf.cos(x) * (1.5 if x.dtype == tf.float32 else 1))(x)


def wrong_in_float64(x):
    """GC101: float64 only."""
    return _rule(lambda x, g: g * tf.cos(x) * (1.5 if x.dtype == tf.float64 else 1))(x)


def uses_the_output(x):
    """GC101: the output in place of the input."""
    return _rule(lambda x, g: g * tf.cos(tf.sin(x)))(x)


def returns_none_for_an_input(x, w):
    """GC102: None for the weight."""

    @tf.custom_gradient
    def rule(x, w):
        return x * w, lambda g: (g * w, None)

    return rule(x, w)


def swaps_the_gradients(x, w):
    """GC101: in the wrong order."""

    @tf.custom_gradient
    def rule(x, w):
        return x * w, lambda g: (g * x, g * w)

    return rule(x, w)


def clips_the_gradient(x):
    """GC607: clipped."""
    return _rule(lambda x, g: tf.clip_by_value(g * tf.cos(x), -0.01, 0.01))(x)


def forgets_the_upstream(x):
    """GC101 GC607: the upstream gradient is not read."""
    return tf.reduce_sum(2 * _rule(lambda x, g: tf.cos(x))(x))


def stops_a_factor(x):
    """GC101 GC102: stop_gradient on a factor."""
    return x * tf.stop_gradient(x)


def stops_all(x):
    """GC102: stop_gradient on all."""
    return tf.stop_gradient(tf.sin(x))


def stops_one_output(x):
    """GC101 GC102: on one output."""
    return tf.sin(x), tf.stop_gradient(tf.cos(x))


def straight_through(x):
    """GC101 GC102: rounding with the derivative 1."""
    return x + tf.stop_gradient(tf.round(x) - x) + tf.sin(x)


def calls_python(x):
    """Right: tf.py_function has a derivative."""
    return tf.py_function(tf.sin, [x], x.dtype)


def calls_numpy(x):
    """GC102: tf.numpy_function has none."""
    return tf.numpy_function(np.sin, [x], x.dtype)


def goes_through_numpy(x):
    """GC102: NumPy in the middle."""
    return tf.constant(np.sin(x.numpy()))


def gives_numpy(x):
    """GC102 GC109: NumPy at the end."""
    return np.sin(x.numpy())


def goes_through_float(x):
    """GC101 GC102: float() in the middle."""
    return x * float(x[0])


def gives_the_input(x):
    """Right: the input itself."""
    return x


def gives_a_slice(x):
    """Right: a slice."""
    return x[1:]


def gives_a_dictionary(x):
    """Right: a dictionary, with None and a text in it."""
    return {"a": tf.sin(x), "b": None, "c": "text", "d": [tf.exp(x), x > 0]}


Both = namedtuple("Both", ["loss", "mask"])


def gives_a_named_tuple(x):
    """Right: a named tuple."""
    return Both(tf.reduce_sum(x * x), x > 0)


def complex_inside(x):
    """Right: complex numbers inside."""
    z = tf.complex(tf.cos(x), tf.sin(x)) ** 3
    return tf.math.real(z) + tf.abs(z)


def does_not_depend(x, w):
    """Right: does not depend on an input."""
    return tf.sin(x)


def indexes(x, k):
    """Right: whole numbers choose.

    inputs: {x: [0.5, -1.25, 2.0], k: {value: [0, 2, 0], dtype: int64}}
    """
    return tf.exp(tf.gather(x, k))


def sparse_gradient(x, k):
    """Right: a gradient of IndexedSlices.

    inputs: {x: {shape: [3, 2], distribution: normal, seed: 0}, k: {value: [0, 2, 0], dtype: int64}}
    """
    return tf.nn.embedding_lookup(x, k) ** 2


def gathers_wrongly(x, k):
    """GC101: assigns where it should add.

    inputs: {x: [0.5, -1.25, 2.0], k: {value: [0, 2, 0], dtype: int64}}
    """

    @tf.custom_gradient
    def rule(x):
        def backward(g):
            made = np.zeros(x.shape, x.dtype.as_numpy_dtype)
            made[k.numpy()] = g.numpy()
            return tf.constant(made)

        return tf.gather(x, k), backward

    return rule(x)


def empty(x):
    """Right: a part without entries."""
    return tf.reduce_sum(x[:0]) + tf.reduce_prod(tf.exp(x[:0])) * tf.sin(x)


def one_number(x):
    """Right: no dimension.

    inputs: {x: 0.7}
    """
    return tf.sin(x)


def forgets_to_sum(x, b):
    """GC101 GC103 GC701: not summed.

    inputs: {x: {shape: [3, 2], distribution: normal, seed: 4}, b: [0.5, -1.0]}
    """

    @tf.custom_gradient
    def rule(x, b):
        return x + b, lambda g: (g, g[0])

    return rule(x, b)


def raises_in_the_backward(x):
    """GC701: the backward raises."""

    def backward(x, g):
        raise ValueError("no")

    return _rule(backward)(x)


def wrong_shape(x):
    """GC101 GC103 GC701: summed to one number."""
    return _rule(lambda x, g: tf.reduce_sum(g * tf.cos(x)))(x)


@tf.function
def graph(x):
    """Right: a tf.function."""
    return tf.tanh(x * x)


@tf.function(jit_compile=True)
def compiled(x):
    """Right: compiled by XLA."""
    return tf.tanh(x * x)


@tf.function
def traced_once(x):
    """Right: prints while it is traced."""
    print("traced")
    return tf.where(x > 0, tf.sin(x), tf.exp(x))


@tf.function
def loops(x):
    """Right: a loop in a graph."""
    for _ in tf.range(4):
        x = tf.sin(x * 1.1)
    return x


def loops_for_a_while(x):
    """Right: tf.while_loop."""
    return tf.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, tf.sin(v * 1.1)), [0, x])[1]


def maps(x):
    """Right: vectorized_map."""
    return tf.vectorized_map(lambda v: tf.sin(v) * v, x)


def scans(x):
    """Right: a scan."""
    return tf.scan(lambda c, v: tf.sin(c + v), x)


def checkpoints(x):
    """Right: recompute_grad."""
    return tf.recompute_grad(lambda v: tf.tanh(v * v))(x)


def takes_a_gradient(x):
    """Right: a gradient inside."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.sin(x))
    return tape.gradient(y, x)


def stops_recording(x):
    """GC101 GC102: a part is not recorded."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording():
            y = tf.sin(x)
    return x * y if False else x + tf.stop_gradient(y)


def draws(x):
    """Right: noise with a seed of its own."""
    return x * tf.random.stateless_normal(x.shape, [1, 2], dtype=x.dtype)


_calls = []


def grows(x):
    """GC101 GC602 GC605: scaled by the number of calls."""
    _calls.append(1)
    return tf.sin(x) * len(_calls)


_noise = np.random.default_rng()


def draws_without_seed(x):
    """GC101 GC602 GC605: noise that no seed makes."""
    return x * float(_noise.standard_normal())


def makes_a_variable(x):
    """Right: a variable inside, which is no leaf."""
    v = tf.Variable(2.0, dtype=x.dtype)
    return tf.sin(x) * v


def assigns(x):
    """GC101 GC102: the number goes through a variable."""
    v = tf.Variable(tf.zeros_like(x))
    v.assign(tf.sin(x))
    return v * 1


class Dropped(keras.layers.Layer):
    """Right: dropout in training.

    kwargs: {training: true}
    """

    def __init__(self):
        super().__init__()
        self.drop = keras.layers.Dropout(0.5, seed=3)

    def call(self, x, training=False):
        return self.drop(tf.sin(x), training=training)


class Normed(keras.layers.Layer):
    """Right: batch norm in training, whose statistics move.

    inputs: {x: {shape: [5, 3], distribution: normal, seed: 2}}
    kwargs: {training: true}
    """

    def __init__(self):
        super().__init__()
        self.norm = keras.layers.BatchNormalization()

    def call(self, x, training=False):
        return self.norm(x, training=training) ** 3


class Frozen(keras.layers.Layer):
    """Right: a weight that is not trained."""

    def __init__(self):
        super().__init__()
        self.w = self.add_weight(shape=(), initializer="ones", trainable=False)

    def call(self, x):
        return tf.sin(x * self.w)


class Cut(keras.layers.Layer):
    """GC102: a weight is cut."""

    def __init__(self):
        super().__init__()
        self.w = self.add_weight(shape=(), initializer="ones")

    def call(self, x):
        return tf.sin(x * tf.stop_gradient(self.w))


class Steps(keras.layers.Layer):
    """GC603 GC605 GC101: a weight is updated at every call."""

    def __init__(self):
        super().__init__()
        self.w = self.add_weight(shape=(), initializer="ones")

    def call(self, x):
        self.w.assign(self.w * 1.1)
        return tf.sin(x * self.w)


class Wide(tf.Module):
    """Right: a tf.Module with a variable."""

    def __init__(self):
        self.w = tf.Variable([0.5, 2.0, -1.0])

    def __call__(self, x):
        return tf.reduce_sum(x[:, None] * self.w, 0)


def second_order_dropped(x):
    """GC106 GC102: the backward is not derived.

    order: 2
    """
    return tf.reduce_sum(_rule(lambda x, g: g * tf.stop_gradient(tf.cos(x)))(x))


def second_order_wrong(x):
    """GC106: the derivative of the backward is wrong.

    order: 2
    """
    inner = _rule(lambda x, g: g * tf.sin(x), tf.cos)
    return tf.reduce_sum(_rule(lambda x, g: g * inner(x))(x))


def second_order_right(x):
    """Right: derived twice.

    order: 2
    """
    return tf.reduce_sum(_rule(lambda x, g: g * tf.cos(x))(x))


def is_not_a_number(x):
    """GC203: nan."""
    return x * tf.constant([1.0, float("nan")] + [1.0] * (x.shape[0] - 2), x.dtype)


def norm_at_zero(x):
    """GC201 GC202 GC402: a norm at 0.

    inputs: {x: [0.0, 0.0]}
    """
    return tf.sqrt(tf.reduce_sum(x * x))


def where_and_nan(x):
    """GC201: nan from the branch that is not taken.

    inputs: {x: [0.0, 1.0]}
    """
    return tf.where(x > 0, x / x * tf.sqrt(x), x * 0)


def casts_down(x):
    """Right: bfloat16 and back.

    dtypes: [float32]
    """
    return tf.cast(tf.cast(x, tf.bfloat16), x.dtype) * 2


def through_half(x):
    """GC101 GC103 GC301: the gradient passes through float16."""
    return _rule(lambda x, g: tf.cast(tf.cast(g * tf.cos(x), tf.float16), x.dtype))(x)


def recurses(x, depth=5):
    """Right: a recursion."""
    return x if depth == 0 else tf.sin(recurses(x, depth - 1) * 1.1)


def ragged(x):
    """Right: a ragged tensor inside."""
    return tf.reduce_sum(tf.RaggedTensor.from_row_lengths(tf.sin(x), [1, x.shape[0] - 1]), 1)


def sparse(x):
    """Right: a sparse tensor inside."""
    matrix = tf.sparse.SparseTensor([[0, 1], [1, 0]], x[:2], [2, 2])
    return tf.sparse.sparse_dense_matmul(matrix, tf.ones([2, 1], x.dtype))


def tensor_array(x):
    """Right: a TensorArray."""
    rows = tf.TensorArray(x.dtype, x.shape[0])
    for i in range(x.shape[0]):
        rows = rows.write(i, tf.sin(x[i]))
    return rows.stack()


def swallows(x):
    """Right: an exception that is caught."""
    with contextlib.suppress(tf.errors.InvalidArgumentError):
        tf.ones([2, 2]) @ tf.ones([3, 3])
    return tf.sin(x)


def _twice(double_backward):
    """The sine with a gradient that has this gradient in turn, a function of `x`, the first
    upstream gradient and the second."""

    @tf.custom_gradient
    def slope(x, g):
        return g * tf.cos(x), lambda h: double_backward(x, g, h)

    return _rule(slope)


def twice_right(x):
    """Right: a gradient with a gradient of its own.
    order: 2
    """
    return _twice(lambda x, g, h: (-h * g * tf.sin(x), h * tf.cos(x)))(x) ** 2


def twice_wrong_sign(x):
    """GC106: the second derivative has the wrong sign.
    order: 2
    """
    return _twice(lambda x, g, h: (h * g * tf.sin(x), h * tf.cos(x)))(x)


def twice_without_the_slope(x):
    """GC106: what the upstream gradient depends on is left out.
    order: 2
    """
    return _twice(lambda x, g, h: (-h * g * tf.sin(x), None))(x) ** 2


def twice_without_the_bend(x):
    """GC106: the slope is taken for a constant.
    order: 2
    """
    return _twice(lambda x, g, h: (None, h * tf.cos(x)))(x)


def twice_forgets_the_upstream(x):
    """GC106: the first upstream gradient is taken for 1.
    order: 2
    """
    return 3.0 * _twice(lambda x, g, h: (-h * tf.sin(x), h * tf.cos(x)))(x)


def twice_stopped(x):
    """GC106: the gradient stops at its slope.
    order: 2
    """
    return _rule(lambda x, g: g * tf.stop_gradient(tf.cos(x)))(x)


def returns_rows(w):
    """Right: IndexedSlices of a matrix.
    inputs: {w: [[0.5, 0.2], [0.1, 0.4], [0.9, 0.3]]}
    """
    return tf.IndexedSlices(tf.gather(w, [0, 2]) ** 2, tf.constant([0, 2]), tf.constant([3, 2]))


def returns_rows_of_anything(w):
    """Right: IndexedSlices that do not know how many rows there are.
    inputs: {w: [[0.5, 0.2], [0.1, 0.4], [0.9, 0.3]]}
    """
    return {"rows": tf.IndexedSlices(tf.gather(w, [0, 2]) ** 2, tf.constant([0, 2]))}


def backward_of_other_rows(w):
    """GC101: a gradient of IndexedSlices, whose rows are swapped.
    inputs: {w: [[0.5, 0.2], [0.1, 0.4], [0.9, 0.3]]}
    """

    @tf.custom_gradient
    def rows(w):
        return tf.gather(w, [0, 2]), lambda g: tf.IndexedSlices(g, [2, 0], tf.shape(w))

    return rows(w)


def backward_of_a_sparse_tensor(x):
    """GC701: a gradient must be dense."""

    @tf.custom_gradient
    def square(x):
        return x * x, lambda g: tf.sparse.from_dense(2 * x * g)

    return square(x)


def residuals_in_half(x):
    """GC301: what the backward needs is kept in float16.
    inputs: {x: [0.8231, 1.2277]}
    dtypes: [float64]
    """

    @tf.custom_gradient
    def sine(x):
        kept = tf.cast(x, tf.float16)
        return tf.sin(x), lambda g: g * tf.cos(tf.cast(kept, g.dtype))

    return sine(x)
