import math

import numpy as np
import torch
import torch.nn as nn
import torch.utils.checkpoint
from torch.autograd import Function


# ------------------------------------------------------------ right
class LogCoshRight(Function):
    """other algebra: log cosh x as |x| + log1p(e^-2|x|) - log 2, backward tanh by exponentials"""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        a = x.abs()
        return a + torch.log1p(torch.exp(-2 * a)) - math.log(2)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        e = torch.exp(-2 * x.abs())
        return g * torch.sign(x) * (1 - e) / (1 + e)


def max_with_ties(x):
    return torch.amax(x, dim=-1)


class SoftTopMean(nn.Module):
    def forward(self, x):
        v, _ = torch.topk(x, 2, dim=-1)
        return v.mean(-1)


class InPlaceOnClone(nn.Module):
    def forward(self, x):
        y = x.clone()
        y[:, 1:] += x[:, :-1] ** 2
        y.mul_(0.5)
        return y


class WhitenRight(nn.Module):
    def forward(self, x):
        c = x - x.mean(0)
        cov = c.T @ c / (x.shape[0] - 1) + 0.5 * torch.eye(x.shape[1], dtype=x.dtype)
        return torch.linalg.solve_triangular(torch.linalg.cholesky(cov), c.T, upper=False)


class NumpyDetourRight(Function):
    @staticmethod
    def forward(ctx, x):
        a = x.detach().numpy()
        ctx.s = np.sinh(a) / np.cosh(a) ** 2
        return torch.from_numpy(1 / np.cosh(a))

    @staticmethod
    def backward(ctx, g):
        return -g * torch.from_numpy(ctx.s)


class FrozenScale(nn.Module):
    """a buffer, used and never written in forward"""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor([1.5, 0.5, -2.0]))
        self.w = nn.Parameter(torch.tensor([0.3, 0.2, 0.1]))

    def forward(self, x):
        return torch.sin(x * self.scale) * self.w


class EmbedSum(nn.Module):
    """integer inputs"""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.table = nn.Parameter(torch.randn(6, 3))

    def forward(self, x, ids):
        return (self.table[ids] * x[:, None]).sum(0)


def strided_view(x):
    return torch.as_strided(x, (2, 2), (1, 1), 1).exp().sum(0)


def gather_scatter(x):
    idx = torch.tensor([[2, 0], [1, 1]])
    g = torch.gather(x, 1, idx)
    return torch.zeros(2, 4, dtype=x.dtype).scatter_add(1, idx + 1, g * g)


class SinkhornRight(nn.Module):
    def forward(self, c):
        u = torch.zeros(c.shape[0], dtype=c.dtype)
        v = torch.zeros(c.shape[1], dtype=c.dtype)
        for _ in range(5):
            u = -torch.logsumexp(-c + v[None], 1)
            v = -torch.logsumexp(-c + u[:, None], 0)
        return (torch.exp(-c + u[:, None] + v[None]) * c).sum()


class ExpLogRoundTrip(Function):
    """cancelling but right: backward of x**3 as 3 exp(2 log x)"""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * torch.exp(2 * torch.log(x))


class CheckpointedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a = nn.Linear(3, 4)
        self.b = nn.Linear(4, 3)

    def f(self, x):
        return x + self.b(torch.tanh(self.a(x)))

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.f, x, use_reentrant=False)


class HalfInside(nn.Module):
    """dtype cast: softmax in float32 whatever comes, as attention code does"""

    def forward(self, q, k):
        return torch.softmax((q @ k.T).float(), -1).to(q.dtype)


class ImplicitFixedPoint(Function):
    """y = tanh(x + y/2): implicit derivative"""

    @staticmethod
    def forward(ctx, x):
        y = torch.zeros_like(x)
        for _ in range(200):
            y = torch.tanh(x + 0.5 * y)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        s = 1 - y * y
        return g * s / (1 - 0.5 * s)


class NoneForUnused(Function):
    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, g):
        (m,) = ctx.saved_tensors
        return g * m, None


def complex_inside(x):
    return torch.fft.irfft(torch.fft.rfft(x) * torch.tensor([1.0, 0.5, 0.25], dtype=x.dtype), n=4)


class GroupedRMS(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.Parameter(torch.tensor([1.0, 0.9, 1.1, 1.2]))

    def forward(self, x):
        h = x.reshape(x.shape[0], 2, 2)
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).reshape_as(x) * self.g


def saturated_gate(x):
    return torch.sigmoid(x) * x


class MemoisedConstant(nn.Module):
    """a cache of what does not depend on the values of inputs"""

    def __init__(self):
        super().__init__()
        self._pos = {}

    def forward(self, x):
        key = (x.shape[0], x.dtype)
        if key not in self._pos:
            self._pos[key] = torch.arange(x.shape[0], dtype=x.dtype) / 10
        return torch.cos(x + self._pos[key][:, None])


# ------------------------------------------------------------ wrong
class LinearTransposed(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, x.T @ g


class NormMissingTerm(Function):
    @staticmethod
    def forward(ctx, x):
        n = x.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(x, n)
        return x / n

    @staticmethod
    def backward(ctx, g):
        _, n = ctx.saved_tensors
        return g / n


class OffByMillionth(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.exp(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.exp(x) * (1 + 1e-6)


class DetachedMean(nn.Module):
    def forward(self, x):
        return x / (x.detach().mean() + 1)


class ReturnsNone(Function):
    @staticmethod
    def forward(ctx, x, b):
        ctx.save_for_backward(x)
        return x * x + b

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g, None


class CallsCounter(nn.Module):
    """hidden state: the slope grows with each call"""

    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n += 1
        return x * (1 + 0.1 * self.n)


class OverwritesInput(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.data.mul_(2.0)
        ctx.save_for_backward(x)
        return y.clone()

    @staticmethod
    def backward(ctx, g):
        return 2 * g


class CachesByShape(nn.Module):
    """a cache keyed by the shape holds numbers of the first input"""

    def __init__(self):
        super().__init__()
        self.c = {}

    def forward(self, x):
        k = tuple(x.shape)
        if k not in self.c:
            self.c[k] = x.detach().max()
        return x / self.c[k]


class SecondOnlyWrong(Function):
    """y = x^3; the slope is computed by a function whose derivative is wrong"""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return SlopeCut.apply(x) * g


class SlopeCut(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 3 * x**2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 5 * x * g


class FlushesSmall(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.exp(-x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = -torch.exp(-x)
        return g * torch.where(s.abs() < 1e-6, torch.zeros_like(s), s)


def float32_cancels(x):
    return (1 - torch.cos(x)) / x**2


class BranchWrong(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, x * x, torch.sin(x))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.where(x > 0, 2 * x, -torch.cos(x))


class LastOfBatch(Function):
    """the last row of the batch gets the gradient of the first"""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = 1 - torch.tanh(x) ** 2
        s = s.clone()
        s[-1] = s[0]
        return g * s


class SquaresUpstream(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g.clamp(-0.5, 0.5)


class WritesUpstream(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        g *= torch.cos(x)
        return g


class ViewAssumesContiguous(Function):
    @staticmethod
    def forward(ctx, x):
        s = torch.from_numpy(
            np.lib.stride_tricks.as_strided(x.detach().numpy(), (x.numel(),), (x.element_size(),))
        ).clone()
        ctx.save_for_backward(s)
        ctx.shape = x.shape
        return x * x

    @staticmethod
    def backward(ctx, g):
        (s,) = ctx.saved_tensors
        return 2 * s.reshape(ctx.shape) * g


class BiasNotSummed(Function):
    @staticmethod
    def forward(ctx, x, b):
        return x + b

    @staticmethod
    def backward(ctx, g):
        return g, g.mean(0)


class JvpDropsB(Function):
    @staticmethod
    def forward(a, b):
        return a * b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a

    @staticmethod
    def jvp(ctx, da, db):
        _, b = ctx.saved_tensors
        return da * b


class HalfBackward(Function):
    """backward computed in float16"""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sigmoid(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x).half()
        return (g.half() * s * (1 - s)).to(g.dtype)


class SignError(nn.Module):
    """a hook on a parameter's product flips one entry"""

    def forward(self, x):
        y = x * x
        if y.requires_grad:
            y.register_hook(lambda g: g * torch.tensor([1.0, 1.0, -1.0], dtype=g.dtype))
        return y.cumsum(0)
