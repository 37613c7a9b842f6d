"""Planted bugs of layers in NumPy: they need no framework."""

import numpy as np


class LogCosh:
    """The limit of log(cosh(x)) for large x, everywhere; the gradient is that of the limit."""

    @staticmethod
    def forward(x):
        return np.abs(x) - np.log(2).astype(x.dtype)

    @staticmethod
    def backward(upstream, x):
        return upstream * np.sign(x)


class Standardised:
    """A port of `layers.standardised`: numpy.std is the biased deviation."""

    @staticmethod
    def forward(x):
        return x / x.std()

    @staticmethod
    def backward(upstream, x):
        deviation = x.std()
        centred = (x - x.mean()) / (x.size * deviation)
        return upstream / deviation - centred * np.sum(upstream * x) / deviation**2


class Mixer:
    """A product of complex numbers, whose backward forgets to conjugate the other factor."""

    @staticmethod
    def forward(signal, carrier):
        return signal * carrier

    @staticmethod
    def backward(upstream, signal, carrier):
        return upstream * carrier, upstream * np.conj(signal)
