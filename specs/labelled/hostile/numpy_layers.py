import numpy as np


# right 7
def swish_forward(x):
    s = 1 / (1 + np.exp(-x))
    return x * s, (x, s)


def swish_backward(g, c):
    x, s = c
    return g * (s + x * s * (1 - s))


def normalise_forward(x):
    n = np.sqrt((x * x).sum(-1, keepdims=True))
    return x / n, (x / n, n)


def normalise_backward(g, c):
    y, n = c
    return (g - y * (g * y).sum(-1, keepdims=True)) / n


class Dense:
    def __init__(self):
        r = np.random.default_rng(0)
        self.W = r.normal(size=(3, 2))
        self.b = r.normal(size=2)

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, g):
        self.dW = self.x.T @ g
        self.db = g.sum(0)
        return g @ self.W.T


def maxpool_forward(x):
    y = x.reshape(2, 2, -1)
    i = y.argmax(1)
    return y.max(1), (i, x.shape)


def maxpool_backward(g, c):
    i, s = c
    d = np.zeros((2, 2, s[-1] // 1 if len(s) > 1 else 1))
    a, b = np.indices(i.shape)
    d[a, i, b] = g
    return d.reshape(s)


def outer_forward(a, b):
    return np.outer(a, b), (a, b)


def outer_backward(g, c):
    a, b = c
    return g @ b, g.T @ a


def cumprod_forward(x):
    return np.cumprod(x), x


def cumprod_backward(g, cache):
    x = cache
    y = np.cumprod(x)
    return np.cumsum((g * y)[::-1])[::-1] / x


def fft_forward(x):
    return np.abs(np.fft.rfft(x)) ** 2, x


def fft_backward(g, cache):
    x = cache
    X = np.fft.rfft(x)
    n = len(x)
    k = np.arange(n)[:, None] * np.arange(len(X))[None]
    return (2 * g * (X.real * np.cos(2 * np.pi * k / n) - X.imag * np.sin(2 * np.pi * k / n))).sum(
        1
    )


# wrong 8
def crossent_forward(z):
    e = np.exp(z - z.max())
    p = e / e.sum()
    return -np.log(p[0]), p


def crossent_backward(g, cache):
    p = cache
    d = p.copy()
    d[1] -= 1
    return g * d


def batchmean_forward(x, w):
    return (x @ w).mean(0), (x, w)


def batchmean_backward(g, c):
    x, w = c
    return np.broadcast_to(g @ w.T, x.shape), x.T @ np.broadcast_to(g, (len(x), len(g))) / len(x)


def ppm_forward(x):
    return x**3, x


def ppm_backward(g, cache):
    x = cache
    return 3 * x**2 * g + 1e-6 * g


class StaleCache:
    """backward uses the first forward's input"""

    def __init__(self):
        self.x = None

    def forward(self, x):
        if self.x is None:
            self.x = x.copy()
        return x * x

    def backward(self, g):
        return 2 * self.x * g


def inplace_forward(x):
    y = x
    y -= y.mean()
    return y * y, y


def inplace_backward(g, cache):
    y = cache
    d = 2 * y * g
    return d - d.mean()


def mulup_forward(x):
    return np.sin(x), x


def mulup_backward(g, cache):
    x = cache
    g *= np.cos(x)
    return g


def branch_forward(x):
    return np.where(np.abs(x) < 1, x**2 / 2, np.abs(x) - 0.5), x


def branch_backward(g, cache):
    x = cache
    return g * np.where(np.abs(x) < 1, x, 1.0)


def f32_forward(x):
    return np.log(np.exp(x) + 1), x


def f32_backward(g, cache):
    x = cache
    return (g * (1 - 1 / (1 + np.exp(np.float32(x)).astype(np.float32)))).astype(x.dtype)
