"""Functions whose gradient `torch.compile` of PyTorch 2.13.0 gets wrong on a CPU.

The first are reductions. A reduction hands its gradient to the entries that equal the result.
Inductor computes the entries anew in the backward pass, in another precision or by another routine,
so that none is equal: the gradient is lost, or divided by their number, which is zero. The last
compute a function by another formula than PyTorch does without a compiler, which leaves the range
of float32 or loses its digits, or are traced without a derivative that somebody wrote.
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


class Softplus(torch.autograd.Function):
    """log(1 + exp(x)), whose own derivative is finite where exp(x) overflows."""

    @staticmethod
    def forward(x):
        return torch.where(x > 30, x, torch.log1p(torch.exp(x)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, y_bar):
        return y_bar * torch.sigmoid(ctx.saved_tensors[0])

    @staticmethod
    def jvp(ctx, x_dot):
        return x_dot * torch.sigmoid(ctx.saved_tensors[0])


def potential(x):
    return (Softplus.apply(x) * x).sum()


def force(x):
    """The layer is a gradient. Dynamo drops the custom backward inside it."""
    return torch.func.grad(potential)(x)


def drift(x):
    """The layer is a tangent. Dynamo drops the custom jvp inside it."""
    return torch.func.jvp(potential, (x,), (torch.ones_like(x),))[1]


def pooled_or_kept(x, weight, bias):
    """Two paths through a convolution, one of which is pooled."""
    image = torch.nn.functional.interpolate(x, scale_factor=(1.5, 1.25), mode="bilinear")
    kept = torch.nn.functional.conv2d(image[:, :, 1:7, 1:8], weight, bias, padding=1)
    pooled = torch.nn.functional.max_pool2d(kept, 3, 1, 1)
    return torch.where(kept.detach() > 0, kept, pooled).sum()


def label_margins(x):
    """-1 ends the list of the classes. Compiled, it is one of them."""
    return torch.nn.functional.multilabel_margin_loss(x, torch.tensor([[0, 1, -1, -1, -1]]))


def soft_margins(x):
    """The backward pass is decomposed into sigmoid(x) - 1."""
    return torch.nn.functional.soft_margin_loss(x, torch.ones_like(x))


def mean_of_inverses(x: torch.Tensor) -> torch.Tensor:
    return torch.mean(1.0 / (x + torch.trace(x) * torch.eye(3, dtype=x.dtype)))
