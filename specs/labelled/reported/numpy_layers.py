import numpy as np


def bn_forward(x):
    m = x.mean(0)
    v = x.var(0)
    s = 1 / np.sqrt(v + 1e-5)
    return (x - m) * s, (x - m, s)


def bn_backward(g, c):  # mlpack#1923: the variance term with a wrong factor
    d, s = c
    n = len(d)
    var = (g * d).sum(0) * s**3 * 0.5
    return g * s + d * var * 2 / n - (g * s).sum(0) / n


def bnok_forward(x):
    return bn_forward(x)


def bnok_backward(g, c):
    d, s = c
    n = len(d)
    var = -(g * d).sum(0) * s**3 * 0.5
    return g * s + d * var * 2 / n - (g * s).sum(0) / n
