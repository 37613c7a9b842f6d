"""The examples as one writes them in NumPy: a forward, and a backward by hand."""

import numpy as np


def sigmoid_forward(x):
    return 1 / (1 + np.exp(-x))


def sigmoid_backward(upstream, y):
    return upstream * y * (1 - y)


def sin_dense_forward(x, W):
    z = x @ W
    return np.sin(z), (x, W, z)


def sin_dense_backward(upstream, cache):
    x, W, z = cache
    z_bar = upstream * np.cos(z)
    return z_bar @ W.T, x.T @ z_bar


def linear_loss_forward(w, b, X, y):
    """The mean squared error of a linear model."""
    error = X @ w + b - y
    return np.mean(error**2), (error, X)


def linear_loss_backward(upstream, cache):
    error, X = cache
    error_bar = upstream * 2 * error / error.size
    return X.T @ error_bar, error_bar.sum(), None, None  # X and y are data


def reciprocal_exp_forward(x):
    return 1 / np.exp(x)


def reciprocal_exp_backward(upstream, x):
    """By the rule of the quotient."""
    return -upstream * np.exp(x) / np.exp(x) ** 2


def stable_reciprocal_exp_forward(x):
    return 1 / np.exp(x)


def stable_reciprocal_exp_backward(upstream, x):
    return -upstream * np.exp(-x)
