"""Pairs of NumPy that are right in an odd way, or wrong in one place: `tests.fuzz.oddities`."""

import numpy as np


class Right:
    """Right: upstream and inputs."""

    @staticmethod
    def forward(x):
        return np.sin(x)

    @staticmethod
    def backward(upstream, x):
        return upstream * np.cos(x)


class RightOut(Right):
    """Right: the output is handed to the backward."""

    @staticmethod
    def forward(x):
        return np.exp(x)

    @staticmethod
    def backward(upstream, out, x):
        return upstream * out


class RightCache(Right):
    """Right: a cache."""

    @staticmethod
    def forward(x):
        return np.sin(x), {"cos": np.cos(x)}

    @staticmethod
    def backward(upstream, cache):
        return upstream * cache["cos"]


class RightObject:
    """Right: an object that remembers."""

    def forward(self, x):
        self.x = x
        return np.sin(x)

    def backward(self, upstream):
        return upstream * np.cos(self.x)


class RightWeights:
    """Right: weights with gradients beside them."""

    def __init__(self):
        self.W = np.array([0.5, -1.5, 2.0])

    def forward(self, x):
        self.x = x
        return np.outer(x, self.W).sum(0)

    def backward(self, upstream):
        self.dW = self.x.sum() * upstream
        return np.full_like(self.x, upstream @ self.W)


class WrongWeights(RightWeights):
    """GC101: the gradient of the weights has a factor."""

    def backward(self, upstream):
        self.dW = 2 * self.x.sum() * upstream
        return np.full_like(self.x, upstream @ self.W)


class AddsUp(RightWeights):
    """Right: the gradient of the weights adds up, from what it was before the run."""

    dW = 0.0

    def backward(self, upstream):
        self.dW = self.dW + self.x.sum() * upstream
        return np.full_like(self.x, upstream @ self.W)


class Sign(Right):
    """GC101: the sign."""

    @staticmethod
    def backward(upstream, x):
        return -upstream * np.cos(x)


class OneEntry(Right):
    """GC101: one entry."""

    @staticmethod
    def backward(upstream, x):
        made = upstream * np.cos(x)
        made[-1] *= 0.5
        return made


class InFloat32(Right):
    """GC101: float32 only."""

    @staticmethod
    def backward(upstream, x):
        return upstream * np.cos(x) * x.dtype.type(1.5 if x.dtype == np.float32 else 1)


class InFloat64(Right):
    """GC101: float64 only."""

    @staticmethod
    def backward(upstream, x):
        return upstream * np.cos(x) * x.dtype.type(1.5 if x.dtype == np.float64 else 1)


class WrongCache(Right):
    """GC101: the output is cached for the input."""

    @staticmethod
    def forward(x):
        return np.sin(x), np.sin(x)

    @staticmethod
    def backward(upstream, cache):
        return upstream * np.cos(cache)


class Shared:
    """GC101 GC605: one place for the input of all objects and calls."""

    def forward(self, x):
        Shared.x = getattr(Shared, "x", x) if getattr(Shared, "x", x).shape == x.shape else x
        return np.sin(x)

    def backward(self, upstream):
        return upstream * np.cos(Shared.x).astype(upstream.dtype)


class NoneGiven(Right):
    """GC102: None."""

    @staticmethod
    def backward(upstream, x):
        return None


class NoneForOne:
    """GC102: None for one of two."""

    @staticmethod
    def forward(x, w):
        return x * w

    @staticmethod
    def backward(upstream, x, w):
        return upstream * w, None


class Swapped:
    """GC101: in the wrong order."""

    @staticmethod
    def forward(x, w):
        return x * w

    @staticmethod
    def backward(upstream, x, w):
        return upstream * x, upstream * w


class ByName:
    """Right: gradients by name, and the inputs by name in another order."""

    @staticmethod
    def forward(x, w):
        return x / w

    @staticmethod
    def backward(upstream, w, x):
        return {"dw": -upstream * x / w**2, "dx": upstream / w}


class TooMany(Right):
    """GC103 GC701: two gradients for one input."""

    @staticmethod
    def backward(upstream, x):
        return upstream, upstream


class Shape(Right):
    """GC101 GC103 GC701: summed to one number."""

    @staticmethod
    def backward(upstream, x):
        return (upstream * np.cos(x)).sum()


class Column(Right):
    """GC101 GC103 GC701: a column in place of a row."""

    @staticmethod
    def backward(upstream, x):
        return (upstream * np.cos(x))[:, None]


class Text(Right):
    """GC102 GC103 GC701: a text."""

    @staticmethod
    def backward(upstream, x):
        return "gradient"


class Listed(Right):
    """GC103: a list of numbers is a list of gradients."""

    @staticmethod
    def backward(upstream, x):
        return (upstream * np.cos(x)).tolist()


class Half(Right):
    """GC101 GC103 GC301: through float16."""

    @staticmethod
    def backward(upstream, x):
        return (upstream * np.cos(x)).astype(np.float16).astype(x.dtype)


class Clips(Right):
    """GC607: clipped."""

    @staticmethod
    def backward(upstream, x):
        return np.clip(upstream * np.cos(x), -0.01, 0.01)


class NoUpstream:
    """GC101 GC607: the upstream gradient is not read."""

    @staticmethod
    def forward(x):
        return 2 * np.sin(x).sum()

    @staticmethod
    def backward(upstream, x):
        return 2 * np.cos(x) * 3


class Writes(Right):
    """GC604: the upstream gradient is overwritten."""

    @staticmethod
    def backward(upstream, x):
        upstream *= np.cos(x)
        return upstream


class WritesInput(Right):
    """GC603 GC101 GC605: the input is overwritten."""

    @staticmethod
    def forward(x):
        x *= 2
        return np.sin(x)


class Alias(Right):
    """Right: the gradient is the upstream gradient itself."""

    @staticmethod
    def forward(x):
        return x

    @staticmethod
    def backward(upstream, x):
        return upstream


class Nothing(Right):
    """GC109: nothing is returned."""

    @staticmethod
    def forward(x):
        np.sin(x)


class Whole(Right):
    """GC109: whole numbers."""

    @staticmethod
    def forward(x):
        return np.ones(3, int)


class Objects(Right):
    """GC109 GC701: an array of objects."""

    @staticmethod
    def forward(x):
        return np.array(["a", None], object)


class Several:
    """Right: several outputs."""

    @staticmethod
    def forward(x):
        return {"a": np.sin(x), "b": x.sum()}

    @staticmethod
    def backward(upstream, x):
        return upstream["a"] * np.cos(x) + upstream["b"]


class SeveralWrong(Several):
    """GC101 GC102: one output's upstream gradient is not used."""

    @staticmethod
    def backward(upstream, x):
        return upstream["a"] * np.cos(x)


class Raises(Right):
    """GC701: the backward raises."""

    @staticmethod
    def backward(upstream, x):
        raise ValueError("no")


class RaisesOften(Right):
    """GC701 GC605: raises at each third call."""

    calls = 0

    @staticmethod
    def forward(x):
        RaisesOften.calls += 1
        if RaisesOften.calls % 3 == 0:
            raise ValueError("no")
        return np.sin(x)


class Grows(Right):
    """GC101 GC602 GC605: scaled by the number of calls."""

    calls = 0

    @staticmethod
    def forward(x):
        Grows.calls += 1
        return np.sin(x) * Grows.calls


class Noise(Right):
    """GC101 GC602 GC605: noise that no seed makes."""

    drawn = np.random.default_rng()

    @staticmethod
    def forward(x):
        return np.sin(x) * Noise.drawn.standard_normal()


class Strided(Right):
    """Right: a view with a step.

    inputs: {x: [0.5, -1.25, 2.0, 0.75]}
    """

    @staticmethod
    def forward(x):
        return np.sin(x[::2])

    @staticmethod
    def backward(upstream, x):
        made = np.zeros_like(x)
        made[::2] = upstream * np.cos(x[::2])
        return made


class Layout:
    """GC606 GC101: the backward reads the memory of the upstream gradient.

    inputs: {x: {shape: [3, 2], distribution: normal, seed: 1}}
    """

    @staticmethod
    def forward(x):
        return np.sin(x)

    @staticmethod
    def backward(upstream, x):
        return np.ravel(upstream, order="K").reshape(x.shape) * np.cos(x)


class OneNumber(Right):
    """Right: no dimension.

    inputs: {x: 0.7}
    """


class Gathers:
    """GC101: `+=` where numbers of rows repeat.

    inputs: {x: [0.5, -1.25, 2.0], k: {value: [0, 2, 0], dtype: int64}}
    """

    @staticmethod
    def forward(x, k):
        return x[k]

    @staticmethod
    def backward(upstream, x, k):
        made = np.zeros_like(x)
        made[k] += upstream
        return made


class Adds(Gathers):
    """Right: np.add.at.

    inputs: {x: [0.5, -1.25, 2.0], k: {value: [0, 2, 0], dtype: int64}}
    """

    @staticmethod
    def backward(upstream, x, k):
        made = np.zeros_like(x)
        np.add.at(made, k, upstream)
        return made


class Nan(Right):
    """GC201: nan where the input is 0.

    inputs: {x: [0.0, 1.0]}
    """

    @staticmethod
    def backward(upstream, x):
        return upstream * np.cos(x) * x / x


class Broadcast:
    """GC101 GC103 GC701: the gradient of what was broadcast is not summed.

    inputs: {x: {shape: [3, 2], distribution: normal, seed: 4}, b: [0.5, -1.0]}
    """

    @staticmethod
    def forward(x, b):
        return x + b

    @staticmethod
    def backward(upstream, x, b):
        return upstream, upstream


class Subclassed(Right):
    """Right: a masked array inside."""

    @staticmethod
    def forward(x):
        return np.asarray(np.ma.masked_less(np.sin(x), -9.0))


class AbsorbsATerm:
    """Right: a term is lost in the value, and not in the gradient."""

    def forward(self, x):
        y = x + 3e15
        y -= 3e15
        return y + x

    def backward(self, upstream):
        return 2 * upstream


class WrongBesideALargeNumber:
    """GC101: the factor 3, beside a number that absorbs little."""

    def forward(self, x):
        return 2 * x + 1e9

    def backward(self, upstream):
        return 3 * upstream


class ResidualsComputedInHalf:
    """GC301: what the backward needs is computed from a cast to float16.
    inputs: {x: [0.8231, 1.2277]}
    """

    def forward(self, x):
        self.kept = np.tanh(x.astype(np.float16))
        return np.log(np.cosh(x))

    def backward(self, upstream):
        return upstream * self.kept.astype(upstream.dtype)
