"""Layers that are unstable, with what to write instead. Frameworks are imported where they run."""

from __future__ import annotations

from typing import Any

import numpy as np


def torch_softplus(x: Any) -> Any:
    import torch

    grown = torch.exp(x)
    return torch.log(1 + grown)


def torch_entropy(logits: Any) -> Any:
    import torch

    p = torch.softmax(logits, -1)
    return torch.log(p)


def torch_branch(x: Any) -> Any:
    import torch

    if x.sum() > 0:
        return 1 / torch.exp(x)
    return torch.exp(-x)


def torch_loop(x: Any) -> Any:
    import torch

    total = 0.0
    for part in x:
        total = total + torch.log(1 + torch.exp(part))
    return total


def torch_twice(x: Any) -> Any:
    return _reciprocal(x[:1]) + _reciprocal(3 * x[1:])


def _reciprocal(z: Any) -> Any:
    return 1 / z.exp()


def torch_roots(x: Any) -> Any:
    import torch

    return torch.sqrt(x * x + torch.tensor(0.1)) - torch.sqrt(x * x)


def tensorflow_softplus(x: Any) -> Any:
    import tensorflow as tf

    return tf.math.log(1 + tf.exp(x))


def jax_softplus(x: Any) -> Any:
    import jax.numpy as jnp

    return jnp.log(1 + jnp.exp(x))


class NumpySoftplus:
    """Its backward is stable."""

    def forward(self, x: Any) -> Any:
        self.x = x
        return np.log(1 + np.exp(x))

    def backward(self, g: Any) -> Any:
        return g / (1 + np.exp(-self.x))


class NumpyBackward:
    """Its backward is not."""

    def forward(self, x: Any) -> Any:
        self.x = x
        return np.logaddexp(0, x)

    def backward(self, g: Any) -> Any:
        grown = np.exp(self.x)
        return g * grown / (1 + grown)


def torch_modulus(z: Any) -> Any:
    import torch

    return torch.sqrt((z * z.conj()).real)


def torch_log_power(z: Any) -> Any:
    import torch

    turned = z * 1j
    return torch.log(turned.real**2 + turned.imag**2)


def torch_decibels(z: Any) -> Any:
    import torch

    return 10 * torch.log10(torch.fft.fft(z).abs() ** 2)


def torch_sinc_of_size(x: Any) -> Any:
    import torch

    return torch.where(torch.abs(x) < 1e-6, 1.0, torch.sin(x) / x)


def torch_softplus_of_capped(x: Any) -> Any:
    import torch

    capped = torch.clamp(x, -500.0, 500.0)
    return torch.log(1 + torch.exp(capped))
