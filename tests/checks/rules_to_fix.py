"""Functions with a wrong derivative. Frameworks are imported where they run."""

from __future__ import annotations

from typing import Any

import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad_output * x


class Spread(torch.autograd.Function):
    """A factor 2 is missing, which is the number of rows too."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        d = x - x.mean(-1, keepdim=True)
        ctx.save_for_backward(d)
        return (d * d).mean(-1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (d,) = ctx.saved_tensors
        return g[:, None] * d / d.shape[1]


class Scores(torch.autograd.Function):
    """The square root of the number of columns is missing, which is 2 for 4 columns."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.cos(x) / x.shape[1] ** 0.5

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return -g * torch.sin(x)


class Cosine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return torch.cos(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        grad_input = g * torch.sin(x)
        return grad_input

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        (x,) = ctx.saved_tensors
        return -t * torch.cos(x)


class Pair(torch.autograd.Function):
    """The jvp of the second of two outputs is wrong."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x**2, torch.cos(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * t, -t * torch.cos(x)


class FirstOfPair(Pair):
    """That of the first is."""

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * t, -t * torch.sin(x)


class ComplexSquare(torch.autograd.Function):
    """The backward lacks a conjugate, as the next two do."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 2 * x


class ComplexExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.exp(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * torch.exp(x)


class Modulus(torch.autograd.Function):
    """Of complex numbers, real; the backward has a conjugate too many."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.real**2 + x.imag**2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        z = x.conj()
        return 2 * g * z


class Gelu(torch.autograd.Function):
    """The error is in a line before the last."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + torch.erf(x / 2**0.5))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        cdf = 0.5 * (1 + torch.erf(x / 2**0.5))
        pdf = torch.exp(-x * x) / (2 * torch.pi) ** 0.5
        return g * (cdf + x * pdf)


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, s = ctx.saved_tensors  # noqa: RUF059 - the fix needs it
        return g * s


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.scale = 3.0
        ctx.save_for_backward(x)
        return torch.sin(ctx.scale * x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * torch.cos(ctx.scale * x)


class Dense(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, b: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x @ w + b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        gx = g @ w
        return gx, x.T @ g, g.mean(0)


class MeanSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return (x**2).mean()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * g * x


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * y * (1 - y)


class Standardized(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        centered = x - x.mean(-1, keepdim=True)
        r = torch.rsqrt((centered**2).mean(-1, keepdim=True) + 1e-5)
        y = centered * r
        ctx.save_for_backward(y, r)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        y, r = ctx.saved_tensors  # noqa: RUF059 - the fix needs it
        return r * (g - g.mean(-1, keepdim=True))


class Unreadable(torch.autograd.Function):
    """Its derivative is no small change of what it returns, and long."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        for _ in range(6):
            x = torch.sin(x) * torch.exp(-x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


def loss(x: Any) -> Any:
    return torch.exp(Square.apply(x)).sum()


def jax_cosine() -> Any:
    import jax
    import jax.numpy as jnp

    @jax.custom_jvp
    def cosine(x: Any) -> Any:
        return jnp.cos(x)

    @cosine.defjvp
    def cosine_jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return cosine(x), t * jnp.sin(x)

    return cosine


def jax_product() -> Any:
    """One function for each argument."""
    import jax

    @jax.custom_jvp
    def product(x: Any, w: Any) -> Any:
        return x * w

    product.defjvps(
        lambda t, value, x, w: t * w,
        lambda t, value, x, w: t * w,
    )
    return product


def jax_pair() -> Any:
    import jax
    import jax.numpy as jnp

    @jax.custom_jvp
    def pair(x: Any) -> Any:
        return x**2, jnp.cos(x)

    @pair.defjvp
    def pair_jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return pair(x), (2 * x * t, t * jnp.sin(x))

    return pair


def jax_swish() -> Any:
    import jax

    @jax.custom_vjp
    def swish(x: Any) -> Any:
        return x * jax.nn.sigmoid(x)

    def forward(x: Any) -> Any:
        s = jax.nn.sigmoid(x)
        return x * s, (x, s)

    def backward(saved: Any, g: Any) -> Any:
        x, s = saved
        return (g * (s + x * s),)

    swish.defvjp(forward, backward)
    return swish


def tensorflow_product() -> Any:
    import tensorflow as tf

    @tf.custom_gradient
    def product(x: Any, w: Any) -> Any:
        def grad(dy: Any) -> Any:
            dx = tf.matmul(dy, w)
            return dx, tf.matmul(x, dy, transpose_a=True)

        return tf.matmul(x, w), grad

    return product


class Polar(torch.autograd.Function):
    """Two outputs."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return torch.sqrt(x * x + y * y), torch.atan2(y, x)

    @staticmethod
    def backward(ctx: Any, gr: Any, gt: Any) -> Any:
        x, y = ctx.saved_tensors
        r = torch.sqrt(x * x + y * y)
        return gr * x / r - gt * y / r, gr * y / r + gt * x / r**2


class SineAndCosine(torch.autograd.Function):
    """Two outputs, of which the backward ignores the second."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.sin(x), torch.cos(x)

    @staticmethod
    def backward(ctx: Any, gs: Any, gc: Any) -> Any:
        (x,) = ctx.saved_tensors
        return gs * torch.cos(x)


class Clamp(torch.autograd.Function):
    """Works in place, so the layer's own input must not be what it is run with twice."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.clamp_(min=0)
        ctx.mark_dirty(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * (y >= 0)


class Cell(torch.autograd.Function):
    """Its backward forgets the cotangent of the second output."""

    @staticmethod
    def forward(ctx: Any, x: Any, c: Any) -> Any:
        state = c * x
        ctx.save_for_backward(x, c, state)
        return torch.tanh(state), state

    @staticmethod
    def backward(ctx: Any, g_out: Any, g_state: Any) -> Any:
        x, c, state = ctx.saved_tensors
        assert g_state.shape == state.shape
        d = g_out * (1 - torch.tanh(state) ** 2)
        return torch.cat([d * c]), d * x


def clamped(x: Any) -> Any:
    return Clamp.apply(2 * x)


@torch.library.custom_op("gradcheck_rules::power", mutates_args=())
def _power(x: torch.Tensor, y: torch.Tensor, a: float, *, n: int = 2) -> torch.Tensor:
    return a * x**n + y


def _keep(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    ctx.x, _, ctx.a = inputs
    ctx.n = keyword_only_inputs["n"]


def _pull(ctx: Any, g: Any) -> Any:
    return g * ctx.n * ctx.x ** (ctx.n - 1), g, None


_power.register_autograd(_pull, setup_context=_keep)


def power_of_a_library(x: Any, y: Any) -> Any:
    return torch.sin(_power(x, y, 0.3, n=3))


def saturated(x: Any) -> Any:
    return torch.sigmoid(torch.clamp(x, -30, 30))


class Saturated(torch.autograd.Function):
    """The backward does not know that the forward clips."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return saturated(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        s = saturated(x)
        return g * s * (1 - s)
