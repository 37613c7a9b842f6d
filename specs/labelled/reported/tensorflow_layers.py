import keras
import numpy as np
import tensorflow as tf


@tf.custom_gradient
def squared_difference(x, y):
    return (x - y) ** 2, lambda g: (x, y)  # TensorFlow.NET#787


def squared_difference_ok(x, y):
    return tf.math.squared_difference(x, y)


def sinc_keras(t):
    x = 2 * t + 1
    return keras.ops.sinc(x)  # tensorflow#127226


def sqrt_square(v):
    return tf.reduce_sum(tf.sqrt(tf.square(v)), axis=-1)  # tensorflow#42602


def abs_ok(v):
    return tf.reduce_sum(tf.abs(v), axis=-1)


@tf.custom_gradient
def nested_custom(x):  # tensorflow#34503
    @tf.custom_gradient
    def slope(z, g):
        return 3 * z * z * g, lambda u: (tf.zeros_like(z), 3 * z * z * u)

    return x**3, lambda g: slope(x, g)


def nested_ok(x):
    return x**3


@tf.custom_gradient
def loop_power(x):  # tensorflow#50278
    y = x * x * x * x

    def grad(g):
        s = tf.while_loop(
            lambda i, s: i < 3,
            lambda i, s: (i + 1, s * tf.stop_gradient(x)),
            [0, 4 * tf.ones_like(x)],
        )[1]
        return g * s

    return y, grad


def loop_ok(x):
    y = x
    for _ in range(3):
        y = y * x
    return y


@tf.custom_gradient
def defun_exp(x):  # tensorflow#29916
    def grad(g):
        s = tf.numpy_function(np.exp, [x], x.dtype)
        s.set_shape(x.shape)
        return g * s

    return tf.exp(x), grad


def defun_ok(x):
    return tf.exp(x)
