"""Layers with one planted bug each; the specs beside this file say which."""

import numpy as np
import torch
from torch import nn
from torch.autograd import Function


class Transposed(Function):
    """The gradient of the weights comes out transposed."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.T, g.T @ x


class Ramp(Function):
    """At 0 reverse mode says 0 and forward mode 1."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x > 0)

    @staticmethod
    def jvp(ctx, x_dot):
        (x,) = ctx.saved_tensors
        return x_dot * (x >= 0)


class FlushedSigmoid(Function):
    """The backward takes a sigmoid below 1e-15 for 0."""

    @staticmethod
    def forward(ctx, x):
        y = torch.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return torch.where(y < 1e-15, torch.zeros_like(g), g * y * (1 - y))


class Cube(Function):
    """The backward computes in NumPy, which no graph follows."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        slope = 3 * x.detach().numpy() ** 2
        return g.detach() * torch.as_tensor(slope)


class Sine(Function):
    """Value, first and second derivative are those of the sine; the third is cut off."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        step = x - x.detach()
        return g * (torch.cos(x).detach() - torch.sin(x).detach() * step)


class Cut(nn.Module):
    """The norm of the weights is taken outside the graph."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([3.0, 0.5]))

    def forward(self, x):
        size = torch.sum(self.weight.detach() ** 2)
        return torch.sin(x * size)


class Noisy(nn.Module):
    """Its generator knows no seed."""

    def __init__(self):
        super().__init__()
        self.generator = np.random.default_rng()

    def forward(self, x):
        noise = self.generator.standard_normal(x.shape)
        return x * torch.as_tensor(noise).to(x)


class Scaled(nn.Module):
    """Scales its input in place."""

    def forward(self, x):
        x *= 2
        return torch.sin(x)


class Exp(Function):
    """Multiplies the upstream gradient in place."""

    @staticmethod
    def forward(ctx, x):
        y = torch.exp(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g.mul_(y)


class Shared(Function):
    """One place for the input of all calls."""

    @staticmethod
    def forward(ctx, x):
        Shared.x = x
        return torch.sin(x)

    @staticmethod
    def backward(ctx, g):
        return g * torch.cos(Shared.x)


class Adding(nn.Module):
    """Adds what the weight is due to its `.grad` by hand."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([3.0, 0.5]))

    def forward(self, x):
        y = x * self.weight
        if y.requires_grad:
            y.register_hook(lambda g: self._add(g * x.detach()))
        return y

    def _add(self, gradient):
        before = self.weight.grad
        self.weight.grad = gradient if before is None else before + gradient


class Cached(nn.Module):
    """Keeps the scale of its first input for ever."""

    def __init__(self):
        super().__init__()
        self.scale = None

    def forward(self, x):
        if self.scale is None:
            self.scale = x.detach().abs().max()
        return torch.sin(x / self.scale)


class Counting(nn.Module):
    """Divides by the number of its calls."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x**2 / self.calls


class Strided(Function):
    """Takes the upstream gradient to be laid out as the input is."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.as_strided(g, x.shape, x.stride()) * torch.cos(x)


class Clipped(Function):
    """Clips the upstream gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.clamp(-1, 1) * torch.cos(x)


class Swapped(Function):
    """Where one gradient is not asked for, it gives the other's."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        wanted = [g * w, g * x]
        if not all(ctx.needs_input_grad):
            wanted.reverse()
        return tuple(wanted)


class Rounded(Function):
    """Declared to let the upstream gradient through as it comes, it halves it."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, g):
        return g / 2


class Pair(Function):
    """Does not expect that one of its outputs may not be used."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return torch.sin(x), torch.cos(x)

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return g * torch.cos(x) - h * torch.sin(x)


dropout = nn.Dropout(0.5)


def no_return(x):
    """Forgets its `return`."""
    torch.sin(x)


def left_for_numpy(x):
    """Leaves PyTorch before it returns."""
    return torch.sin(x).detach().numpy()


class Spike(Function):
    """A step, whose backward is that of an arc tangent."""

    @staticmethod
    def forward(ctx, over):
        ctx.save_for_backward(over)
        return (over > 0).to(over.dtype)

    @staticmethod
    def backward(ctx, g):
        (over,) = ctx.saved_tensors
        return g / (1 + (torch.pi * over) ** 2)


def reset(potential):
    return Spike.apply(potential - 1).detach()


def leaky(current, potential):
    """The decay forgets its derivative."""
    potential = potential - reset(potential) + current - 0.1 * potential.detach()
    return potential + Spike.apply(potential - 1)


def distance(x, y):
    """Of two points of a circle; constant where they are nearer than the bound."""
    return torch.acos((x * y).sum().clamp(-1 + 1e-7, 1 - 1e-7))


def standardised(x):
    """Divided by the unbiased deviation, as torch.std is; the port in numpy_layers.py is not."""
    return x / x.std()


class Mixer(torch.autograd.Function):
    """A product of complex numbers, whose backward forgets to conjugate the other factor."""

    @staticmethod
    def forward(ctx, signal, carrier):
        ctx.save_for_backward(signal, carrier)
        return signal * carrier

    @staticmethod
    def backward(ctx, g):
        signal, carrier = ctx.saved_tensors
        return g * carrier, g * signal.conj()
