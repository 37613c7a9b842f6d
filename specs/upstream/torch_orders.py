"""Operations whose forward mode, or second derivative, PyTorch 2.13.0 gets wrong on a CPU."""

import torch
from torch.nn import functional


def cholesky_inverse(L):
    return torch.cholesky_inverse(L)


def cholesky_solve(b, L):
    return torch.cholesky_solve(b, L)


def products(x, source):
    index = torch.tensor([0, 0, 2])
    return torch.scatter_reduce(x, 0, index, source, reduce="prod")


def layer_norm(x, weight):
    return functional.layer_norm(x, [3], weight, eps=0.25)


def batch_norm(x, weight):
    return functional.batch_norm(x, None, None, weight, training=True, eps=0.25)


def householder(a, tau):
    return torch.linalg.householder_product(a, tau)


def slogdet(a):
    return torch.linalg.slogdet(a)[1]


def det(a):
    return torch.linalg.det(a)


def solve(a, b):
    return torch.linalg.solve(a, b)


def mse_loss(x, y):
    return functional.mse_loss(x, y)


def triangular_solve(b, a):
    return torch.triangular_solve(b, a).solution


def eigenvectors(a):
    return torch.linalg.eigh((a + a.mT) / 2).eigenvectors.abs()


def sinc(x):
    return torch.sinc(x)


def logaddexp(x, y):
    return torch.logaddexp(x, y)


def weight_norm(v, g):
    return torch._weight_norm(v, g, 0)
