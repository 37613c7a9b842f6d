"""Functions whose derivative XLA, or TensorFlow itself, gets wrong on a CPU."""

import tensorflow as tf


def quantile(p):
    """The quantile of the normal distribution, in its lower tail."""
    return tf.math.ndtri(p)


def inverse_erfc(x):
    return tf.math.erfcinv(x)


def product(x):
    return tf.reduce_prod(x)


def cube_of_sine(x):
    sine = tf.sin(x)
    return sine * sine * sine


def exponential(t):
    """The sum over exp(t I + A), where A turns by one radian: 2 exp(t) cos(1)."""
    turn = tf.constant([[0.0, -1.0], [1.0, 0.0]], t.dtype)
    return tf.reduce_sum(tf.linalg.expm(t * tf.eye(2, dtype=t.dtype) + turn))


def cumulative_product(x):
    return tf.math.cumprod(x)


def pseudoinverse(x):
    return tf.linalg.pinv(x)


def dawson(x):
    return tf.math.special.dawsn(x)


def scaled_bessel(x):
    return tf.math.special.bessel_k0e(x)


def exponential_integral(x):
    return tf.math.special.expint(x)


def batch_normalised(x):
    mean, variance = tf.nn.moments(x, [0])
    return (x - mean) * tf.math.rsqrt(variance + 1e-3)
