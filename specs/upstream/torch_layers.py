"""Functions whose gradient Inductor of PyTorch 2.13.0 gets wrong on a CPU.

A reduction hands its gradient to the entries that equal the result. Inductor computes the entries
anew in the backward pass, in another precision or by another routine, so that none is equal: the
gradient is lost, or divided by their number, which is zero.
"""

import torch


def scaled(x):
    """Two operations that round in float16; Inductor does not round between them."""
    return x * 1.3 + 0.1


def smallest_angle(x, y):
    return torch.atan2(x, y).amin(-1)


def amax(x):
    return scaled(x).amax(-1)


def amin(x):
    return scaled(x).amin(-1)


def largest(x):
    return scaled(x).max()


def smallest(x):
    return scaled(x).min()


def norm(x):
    return torch.linalg.vector_norm(scaled(x), float("inf"), -1)


def least_norm(x):
    return torch.linalg.vector_norm(scaled(x), float("-inf"), -1)
