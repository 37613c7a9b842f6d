"""Functions whose gradient `torch.compile` of PyTorch 2.13.0 gets wrong on a CPU.

The first are reductions. A reduction hands its gradient to the entries that equal the result.
Inductor computes the entries anew in the backward pass, in another precision or by another routine,
so that none is equal: the gradient is lost, or divided by their number, which is zero. The last
compute a function by another formula than PyTorch does without a compiler, which leaves the range
of float32 or loses its digits.
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


def deviation(x):
    return torch.std(x)


def squared_erf(x):
    return torch.erf(x) ** 2


def squared_atanh(x):
    return torch.atanh(x) ** 2


def squared_expm1(x):
    return torch.expm1(x) ** 2


def squared_elu(x):
    return torch.nn.functional.elu(x) ** 2
