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
