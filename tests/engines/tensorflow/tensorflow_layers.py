"""TensorFlow and Keras layers as people write them."""

import random

import keras
import tensorflow as tf

MATRIX = tf.Variable([[1.0, 0.5], [-0.25, 2.0]])
FACTOR = tf.constant([1.5, 1 / 3])


class SinDense(keras.Layer):
    def __init__(self, units):
        super().__init__()
        self.units = units

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], self.units), name="kernel")

    def call(self, x):
        return tf.sin(x @ self.kernel)


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = keras.layers.Dense(2, activation="tanh")
        self.norm = keras.layers.BatchNormalization()
        self.drop = keras.layers.Dropout(0.5)

    def call(self, x, training=None):
        return self.drop(self.norm(self.first(x), training=training), training=training)


def sequential():
    return keras.Sequential([keras.layers.Dense(2), keras.layers.LSTM(2)])


def functional():
    p, q = keras.Input((2,), name="p"), keras.Input((2,), name="q")
    return keras.Model([p, q], keras.layers.Dense(2)(p * q))


class Affine(tf.Module):
    def __init__(self):
        super().__init__()
        self.parts = [tf.Variable([[2.0, 1.0], [0.0, 3.0]]), tf.Variable([0.5, 0.5])]
        self.calls = tf.Variable(0, trainable=False)

    def __call__(self, x):
        self.calls.assign_add(1)
        return x @ self.parts[0] + self.parts[1]


class Scaled(keras.Layer):
    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1],), name="w")

    def call(self, x):
        return x * self.w


def encoder_and_model():
    encoder = Scaled()
    whole = keras.Sequential([encoder, keras.layers.Rescaling(2.0)])
    whole(tf.ones([1, 2]))
    return encoder, whole


@tf.function
def graph(x):
    return tf.tanh(x @ MATRIX) * FACTOR


@tf.custom_gradient
def halved(x):
    def gradient(upstream):
        return upstream * x

    return x * x, gradient


@tf.custom_gradient
def summed(x):
    def gradient(upstream):
        return tf.reduce_sum(upstream)

    return 2 * x, gradient


def gathered(x, index, flag):
    picked = tf.gather(x, index) if flag else x
    return {"picked": picked, "pair": (tf.reduce_sum(x), tf.size(x))}


IMPORTED = []


def importing(x):
    """Its first call draws, as a module does that makes names when it is imported."""
    if not IMPORTED:
        IMPORTED.append(random.random())
    return x * x


def noisy(x):
    return x * tf.random.normal(tf.shape(x), dtype=x.dtype)


def branching(x):
    return x * x if x[0, 0] > 0 else -x


@tf.function
def scanned(x):
    return tf.scan(lambda a, b: a * 0.5 + b * b, x)


def summed_in_segments(x):
    return tf.math.segment_sum(x, [0, 0, 1])
