import torch
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint


def F1(fwd, bwd, name):
    pass


# ---- order 1
class JitBroadcast(Function):  # pytorch#13669
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z.exp() - torch.zeros(5, dtype=z.dtype)

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return (g * z.exp())[0]


def jit_broadcast_ok(z):
    return z.exp() - torch.zeros(5, dtype=z.dtype)


class SliceAddTwice(Function):  # pytorch#136662
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        y = torch.zeros_like(x)
        y[:, 0] += x[:, 2].abs()
        y[:, 0] += x[:, 2].abs()
        return y

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        d = torch.zeros_like(x)
        d[:, 2] = g[:, 0] * x[:, 2].sign()
        return d


def slice_add_ok(x):
    y = torch.zeros_like(x)
    y[:, 0] += x[:, 2].abs()
    y[:, 0] += x[:, 2].abs()
    return y


class GroupNormNHWC(Function):  # pytorch#140913
    @staticmethod
    def forward(ctx, x, w):
        h = x.reshape(x.shape[0], 2, -1)
        m = h.mean(-1, keepdim=True)
        r = torch.rsqrt(h.var(-1, unbiased=False, keepdim=True) + 1e-5)
        n = ((h - m) * r).reshape_as(x)
        ctx.save_for_backward(n, r, w)
        return n * w[None, :, None]

    @staticmethod
    def backward(ctx, g):
        n, r, w = ctx.saved_tensors
        B, C, L = n.shape
        gn = (g * w[None, :, None]).reshape(B, 2, -1)
        nh = n.reshape(B, 2, -1)
        gx = (
            r * (gn - gn.mean(-1, keepdim=True) - nh * (gn * nh).mean(-1, keepdim=True))
        ).reshape_as(n)
        prod = (g * n).reshape(B, L, C)  # read as channels-last
        return gx, prod.sum((0, 1))


def groupnorm_ok(x, w):
    return torch.nn.functional.group_norm(x, 2, w, None, 1e-5)


def norm_by_pow(x):
    return x.pow(2).sum().sqrt()  # pytorch#2421


def norm_ok(x):
    return x.norm()


def where_exp(a):
    return torch.where(a <= 0, torch.exp(a), 1 + a)  # pytorch#68425


def where_exp_ok(a):
    return torch.where(a <= 0, torch.exp(a.clamp(max=0)), 1 + a)


def _rot(aa, theta):
    k = aa / (theta + 1e-6)
    c = torch.cos(theta)
    return c * torch.eye(3, dtype=aa.dtype) + (1 - c) * torch.outer(k, k)


def rotation_small(aa):  # kornia#2924
    t2 = (aa * aa).sum()
    full = _rot(aa, torch.sqrt(t2))
    taylor = torch.eye(3, dtype=aa.dtype) - torch.diag(aa)
    return torch.where(t2 > 1e-6, full, taylor)


def rotation_small_ok(aa):
    t2 = (aa * aa).sum()
    ok = t2 > 1e-6
    full = _rot(aa, torch.sqrt(torch.where(ok, t2, torch.ones_like(t2))))
    taylor = torch.eye(3, dtype=aa.dtype) - torch.diag(aa)
    return torch.where(ok, full, taylor)


def quaternion_trace(R):  # kornia#1653
    tr = R[0, 0] + R[1, 1] + R[2, 2]
    a = torch.stack([0.25 * torch.sqrt(tr + 1) * 2, (R[2, 1] - R[1, 2])])
    s = torch.sqrt(1 + R[0, 0] - R[1, 1] - R[2, 2]) * 2
    b = torch.stack([(R[2, 1] - R[1, 2]) / s, 0.25 * s])
    return torch.where(tr > 0, a, b)


class CdistHalf(Function):  # pytorch#36493
    @staticmethod
    def forward(ctx, x, y):
        d = (x - y).abs().pow(0.5).sum().pow(2)
        ctx.save_for_backward(x, y, d)
        return d

    @staticmethod
    def backward(ctx, g):
        x, y, d = ctx.saved_tensors
        v = torch.sign(x - y) * (x - y).abs().pow(-0.5) * g / d.pow(-0.5)
        return v, -v


class SharedTable(Function):  # pytorch#193061
    @staticmethod
    def forward(ctx, x, table):
        a, b, c, d = table
        ctx.save_for_backward(x, table)
        return (x * (1 + a) + b) * (1 + c) + d

    @staticmethod
    def backward(ctx, g):
        x, t = ctx.saved_tensors
        a, _, c, _ = t
        gu = g * (1 + c)
        gt = torch.zeros_like(t)
        gt[0] = (gu * x).sum(0)
        gt[1] = gu.sum(0)  # the second norm's slices are never written
        return gu * (1 + a), gt


def shared_table_ok(x, table):
    a, b, c, d = table
    return (x * (1 + a) + b) * (1 + c) + d


_BUF = {}


class StaticBuffer(Function):  # pytorch#181723
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        b = _BUF.setdefault((x.shape, x.dtype), torch.empty_like(x))
        b.copy_(g * torch.cos(x))
        return b


def static_ok(x):
    return torch.sin(x)


# ---- order 2
class CtxFoo(Function):  # pytorch#58509
    @staticmethod
    def forward(ctx, x):
        i = x * 2
        ctx.foo = i
        return i**2

    @staticmethod
    def backward(ctx, g):
        return 2 * 2 * ctx.foo * g


class CtxFooOk(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x * 2) ** 2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 8 * x * g


class TempOverInp(Function):  # pytorch#76185
    @staticmethod
    def forward(ctx, x):
        t = x * 2
        ctx.temp = t
        ctx.inp = x
        return t * 3

    @staticmethod
    def backward(ctx, g):
        return g * torch.full_like(g, 3) * ctx.temp / ctx.inp


class ProdSavedOut(Function):  # pytorch#18619
    @staticmethod
    def forward(ctx, x):
        y = x.prod()
        ctx.save_for_backward(x)
        ctx.y = y.detach()
        return y

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.y / x


class ProdSavedOutOk(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.prod()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y / x


class ProdTwoZeros(Function):  # pytorch#106789
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.prod()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if (x == 0).sum() > 1:
            return torch.zeros_like(x)
        return g * torch.stack([torch.cat([x[:i], x[i + 1 :]]).prod() for i in range(len(x))])


class ProdTwoZerosOk(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.prod()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.stack([x[(i + 1) % 4] * x[(i + 2) % 4] * x[(i + 3) % 4] for i in range(4)])


class MaxSel(Function):  # pytorch#1712
    @staticmethod
    def forward(ctx, x):
        v, i = x.max(-1)
        ctx.i = i
        ctx.n = x.shape
        return v

    @staticmethod
    def backward(ctx, g):
        return torch.zeros(ctx.n, dtype=g.dtype).scatter(-1, ctx.i[:, None], g.detach()[:, None])


def selected_squared(x):
    return MaxSel.apply(x) ** 2


def selected_squared_ok(x):
    return x.max(-1).values ** 2


class SqrtFx(Function):  # pytorch#175477
    @staticmethod
    def forward(ctx, x):
        y = x.sqrt()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g / (2 * y.detach())


def sqrt_energy(x):
    return SqrtFx.apply((x * x).sum() + 1)


def sqrt_energy_ok(x):
    return torch.sqrt((x * x).sum() + 1)


class MyCheckpoint(Function):  # pytorch#33999
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(x) * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            z = x.detach().requires_grad_()
            y = torch.tanh(z) * z
        return torch.autograd.grad(y, z, g.detach())[0]


def checkpoint_ok(x):
    return checkpoint(lambda z: torch.tanh(z) * z, x, use_reentrant=False)


def rbf_cdist(x, y):
    return torch.exp(-(torch.norm(x - y) ** 2) / 2)  # functorch#1097


def rbf_ok(x, y):
    return torch.exp(-((x - y) ** 2).sum() / 2)


class AotTanh(Function):  # pytorch#91469
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        with torch.no_grad():
            s = 1 - y * y
        return g * s


class AotTanhOk(Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)


class SoftmaxInterm(Function):  # pytorch#104040
    @staticmethod
    def forward(ctx, x):
        e = torch.exp(x)
        s = e.sum()
        ctx.save_for_backward(e, s)
        return e / s

    @staticmethod
    def backward(ctx, g):
        e, s = ctx.saved_tensors
        p = e / s
        return p * (g - (g * p).sum())


class SoftmaxIntermOk(Function):
    @staticmethod
    def forward(ctx, x):
        p = torch.softmax(x, 0)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx, g):
        (p,) = ctx.saved_tensors
        return p * (g - (g * p).sum())
