"""Planted bugs of layers in TensorFlow."""

import tensorflow as tf


@tf.custom_gradient
def cube(x):
    """It has no second derivative: the gradient of what its backward closes over is stopped."""
    slope = tf.stop_gradient(3 * x**2)

    def backward(g):
        return g * slope

    return x**3, backward


@tf.custom_gradient
def mixer(signal, carrier):
    """A product of complex numbers, whose backward forgets to conjugate the other factor."""

    def backward(g):
        return g * carrier, g * tf.math.conj(signal)

    return signal * carrier, backward
