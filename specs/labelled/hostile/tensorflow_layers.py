import keras
import numpy as np
import tensorflow as tf


# right (10)
class DenseGelu(keras.layers.Layer):
    def build(self, s):
        self.kernel = self.add_weight(
            shape=(s[-1], 2), name="kernel", initializer=keras.initializers.RandomNormal(seed=1)
        )

    def call(self, x):
        return keras.activations.gelu(x @ self.kernel)


@tf.custom_gradient
def softsign_right(x):
    d = 1 + tf.abs(x)
    return x / d, lambda g: g / (d * d)


def segment_mean(x):
    return tf.math.segment_sum(x * x, tf.constant([0, 0, 1, 1]))


def while_power(x):
    y = x
    for _ in tf.range(3):
        y = y * x
    return y


@tf.function
def graph_cond(x):
    if tf.reduce_sum(x) > 0:
        return x * tf.exp(-x)
    return x


def gather_dup(x):
    return tf.gather(x, [0, 0, 2]) ** 3


def ta_concat(x):
    ta = tf.TensorArray(x.dtype, 3)
    for i in range(3):
        ta = ta.write(i, x[i] ** (i + 1))
    return ta.stack()


def numpy_opaque_right(x):
    @tf.custom_gradient
    def f(v):
        y = tf.numpy_function(np.arctan, [v], v.dtype)
        y.set_shape(v.shape)
        return y, lambda g: g / (1 + v * v)

    return f(x)


class LayerScale(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5)

    def build(self, s):
        self.norm.build(s)
        self.gamma = self.add_weight(shape=(s[-1],), name="gamma", initializer="ones")

    def call(self, x):
        return x + self.gamma * self.norm(x)


def reduce_max_unique(x):
    return tf.reduce_max(x, 1)


# wrong (10)
@tf.custom_gradient
def softplus_wrong(x):
    return tf.math.softplus(x), lambda g: g * tf.sigmoid(-x)


@tf.custom_gradient
def none_for_b(a, b):
    return a * b, lambda g: (g * b, None)


def stop_mean(x):
    return (x - tf.stop_gradient(tf.reduce_mean(x))) ** 2


class CountsCalls(keras.layers.Layer):
    def build(self, s):
        self.n = self.add_weight(shape=(), name="n", initializer="zeros", trainable=False)

    def call(self, x):
        self.n.assign_add(1.0)
        return x * (1 + tf.cast(self.n, x.dtype))


@tf.custom_gradient
def transposed(x, w):
    return x @ w, lambda g: (g @ w, tf.transpose(x) @ g)


@tf.custom_gradient
def off_by_ppm(x):
    return tf.sin(x), lambda g: g * tf.cos(x) * (1 + 1e-6)


@tf.custom_gradient
def second_lost(x):
    s = tf.stop_gradient(tf.exp(x))
    return tf.exp(x), lambda g: g * s


def round_trip(x):
    return tf.cast(tf.cast(x, tf.int32), x.dtype) * x


def log_softmax_f32(z):
    return tf.math.log(tf.nn.softmax(z))


@tf.custom_gradient
def broadcast_forgot(x, b):
    return x * b, lambda g: (g * b, tf.reduce_sum(g, 0))
