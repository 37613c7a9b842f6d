"""What random layers of `layer_proofs` are made of: for each framework, forms of one and two
numbers and of a whole x (3,), what their names stand for, and the results at many points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.search.estimates import Answers

_ARRAYS = {
    "W": [[0.5, -1.5, 2.0], [0.25, 1.0, -0.75], [0.3, 0.1, -2.0]],
    "b": [0.1, -0.2, 3.0],
    "w": [0.5, -1.0, 2.0],
}


class Torch:
    """Layers that work along their last axis, so that many points are one call."""

    unary = (
        *(
            "torch.exp({})",
            "torch.log({})",
            "torch.sqrt({})",
            "torch.tanh({})",
            "torch.sigmoid({})",
        ),
        *("F.softplus({})", "torch.sin({})", "torch.cos({})", "torch.abs({})", "F.relu({})"),
        *("({})**2", "({})**3", "1/({})", "torch.erf({})", "torch.expm1({})", "torch.log1p({})"),
        *("F.silu({})", "F.gelu({})", "F.elu({})", "F.logsigmoid({})", "torch.rsqrt({})"),
        *("torch.softmax({}, -1)", "torch.log_softmax({}, -1)", "F.leaky_relu({}, 0.1)"),
        *(
            "F.linear({}, W, b)",
            "F.linear({}, W)",
            "torch.clamp({}, -0.5, 2)",
            "torch.cumsum({}, -1)",
        ),
        *("({}) - ({}).mean(-1, keepdim=True)", "({}) / (1 + ({}).abs().sum(-1, keepdim=True))"),
        *("F.layer_norm({}, (3,))", "F.layer_norm({}, (3,), w, b)", "F.normalize({}, dim=-1)"),
        *("({}) * w", "({}) + b", "torch.flip({}, (-1,))", "torch.where(({}) > 0.5, {}, {} * {})"),
        *("({}).logsumexp(-1, keepdim=True) - ({})", "({}).amax(-1, keepdim=True) - ({})"),
        *("torch.cat([{}, {}], -1)[..., :3]", "torch.stack([{}, {}]).mean(0)", "F.hardtanh({})"),
        *("torch.minimum({}, w)", "torch.maximum({}, b)", "F.mish({})", "torch.asinh({})"),
    )
    binary = ("({}) + ({})", "({}) - ({})", "({}) * ({})", "({}) / ({})", "torch.maximum({}, {})")
    whole = (
        *(
            "({}).sum(-1)",
            "({}).mean(-1)",
            "torch.logsumexp({}, -1)",
            "({}).amax(-1)",
            "({})[..., 1]",
        ),
        *(
            "(({}) * w).sum(-1)",
            "({}).pow(2).sum(-1)",
            "({}).var(-1)",
            "torch.linalg.norm({}, dim=-1)",
        ),
        *("F.linear({}, W, b)[..., 0]", "(({}) @ w)", "({}).std(-1)", "({}).prod(-1)"),
    )

    def __init__(self) -> None:
        import torch

        self._torch = torch

    def names(self, dtype: str) -> dict[str, Any]:
        torch, floats = self._torch, getattr(self._torch, dtype)
        arrays = {name: torch.tensor(one, dtype=floats) for name, one in _ARRAYS.items()}
        return {"torch": torch, "F": torch.nn.functional, **arrays}

    def answers(self, text: str, numbers: Array, dtype: str) -> Answers:
        """The results of a layer at points (N, 3)."""
        torch = self._torch
        layer = eval(f"lambda x: {text}", self.names(dtype))
        x = torch.from_numpy(np.ascontiguousarray(numbers)).to(getattr(torch, dtype))
        value = layer(x.requires_grad_())
        (gradient,) = torch.autograd.grad(value, x, torch.ones_like(value))
        return _answers(value.detach().double().numpy(), gradient.double().numpy())


class Jax:
    """Layers of one point, mapped over many."""

    unary = (
        *("jnp.exp({})", "jnp.log({})", "jnp.sqrt({})", "jnp.tanh({})", "jax.nn.sigmoid({})"),
        *("jax.nn.softplus({})", "jnp.sin({})", "jnp.abs({})", "jax.nn.relu({})", "({})**2"),
        *("({})**3", "1/({})", "lax.erf({})", "jnp.expm1({})", "jnp.log1p({})", "jax.nn.silu({})"),
        *("jax.nn.gelu({})", "jax.nn.elu({})", "jax.nn.log_sigmoid({})", "lax.rsqrt({})"),
        *("jax.nn.softmax({})", "jax.nn.log_softmax({})", "jax.nn.leaky_relu({}, 0.1)"),
        *("({}) @ W + b", "jnp.clip({}, -0.5, 2)", "jnp.cumsum({})", "({}) - jnp.mean({})"),
        *(
            "({}) / (1 + jnp.sum(jnp.abs({})))",
            "jax.nn.standardize({})",
            "({}) * w",
            "jnp.flip({})",
        ),
        *(
            "jnp.where(({}) > 0.5, {}, {} * {})",
            "jax.nn.logsumexp({}) - ({})",
            "jnp.max({}) - ({})",
        ),
        *("jax.nn.mish({})", "jnp.sinc({})", "jnp.logaddexp({}, b)", "jnp.hypot({}, 1.5)"),
        *("jax.nn.selu({})", "jax.nn.soft_sign({})", "jnp.minimum({}, w)", "jnp.power({}, 1.5)"),
        *("jnp.arctan2({}, w)", "jax.scipy.special.xlogy({}, w)", "jnp.cosh({})"),
        *("jax.scipy.stats.norm.logpdf({})", "jax.scipy.stats.norm.pdf({}, 0.1, 2.0)"),
        *("jax.scipy.stats.logistic.logpdf({})", "jax.nn.squareplus({})", "jax.nn.celu({})"),
        "lax.scan(lambda c, _: (jnp.tanh(c * w + 0.1), None), {}, None, length=3)[0]",
        "lax.scan(lambda c, a: (c * a + a, c * a), jnp.sum({}), {})[1]",
    )
    binary = ("({}) + ({})", "({}) - ({})", "({}) * ({})", "({}) / ({})", "jnp.maximum({}, {})")
    whole = (
        *("jnp.sum({})", "jnp.mean({})", "jax.nn.logsumexp({})", "jnp.max({})", "({})[1]"),
        *("jnp.sum(({}) * w)", "jnp.sum(({})**2)", "jnp.var({})", "jnp.linalg.norm({})"),
        *("({}) @ w", "jnp.std({})", "jnp.prod({})"),
        "lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * 2, jnp.sum({}))",
    )

    def __init__(self) -> None:
        import jax

        self._jax = jax

    def names(self, dtype: str) -> dict[str, Any]:
        jax = self._jax
        arrays = {name: jax.numpy.asarray(one, dtype) for name, one in _ARRAYS.items()}
        return {"jax": jax, "jnp": jax.numpy, "lax": jax.lax, **arrays}

    def answers(self, text: str, numbers: Array, dtype: str) -> Answers:
        """The results of a layer at points (N, 3)."""
        jax = self._jax
        with jax.enable_x64(dtype == "float64"):
            layer = eval(f"lambda x: {text}", self.names(dtype))

            def both(x: Any) -> tuple[Any, Any]:
                y, back = jax.vjp(layer, x)
                return y, back(jax.numpy.ones_like(y))[0]

            value, gradient = jax.vmap(both)(jax.numpy.asarray(numbers, dtype))
        return _answers(*(np.asarray(part).astype(np.float64) for part in (value, gradient)))


class TensorFlow:
    """Layers that work along their last axis, so that many points are one call."""

    unary = (
        *("tf.exp({})", "tf.math.log({})", "tf.sqrt({})", "tf.tanh({})", "tf.sigmoid({})"),
        *("tf.math.softplus({})", "tf.sin({})", "tf.cos({})", "tf.abs({})", "tf.nn.relu({})"),
        *("({})**2", "({})**3", "1/({})", "tf.math.erf({})", "tf.math.expm1({})"),
        *("tf.nn.silu({})", "tf.nn.gelu({})", "tf.nn.elu({})", "tf.math.log_sigmoid({})"),
        *("tf.nn.gelu({}, approximate=True)", "tf.math.log1p({})", "tf.math.rsqrt({})"),
        *("tf.nn.softmax({})", "tf.nn.log_softmax({})", "tf.nn.leaky_relu({}, 0.1)"),
        *(
            "tf.nn.bias_add(tf.tensordot({}, tf.cast(W, x.dtype), 1)[None], b)[0]",
            "tf.clip_by_value({}, -0.5, 2.0)",
        ),
        *("tf.cumsum({}, -1)", "({}) - tf.reduce_mean({}, -1, keepdims=True)", "({}) * w"),
        *("({}) / (1 + tf.reduce_sum(tf.abs({}), -1, keepdims=True))", "tf.square({})"),
        *("({}) + b", "tf.reverse({}, [-1])", "tf.where(({}) > 0.5, {}, ({}) * ({}))"),
        "tf.reduce_logsumexp({}, -1, keepdims=True) - ({})",
        "tf.reduce_max({}, -1, keepdims=True) - ({})",
        *("tf.concat([{}, {}], -1)[..., :3]", "tf.minimum({}, w)", "tf.maximum({}, b)"),
        *("tf.nn.selu({})", "tf.nn.softsign({})", "tf.math.atan2({}, w)", "tf.pow({}, 1.5)"),
        *("tf.math.xlogy({}, w)", "tf.cosh({})", "tf.asinh({})", "tf.math.divide_no_nan(w, {})"),
        "tf.nn.l2_normalize({}, -1)",
    )
    binary = ("({}) + ({})", "({}) - ({})", "({}) * ({})", "({}) / ({})", "tf.maximum({}, {})")
    whole = (
        *("tf.reduce_sum({}, -1)", "tf.reduce_mean({}, -1)", "tf.reduce_logsumexp({}, -1)"),
        *(
            "tf.reduce_max({}, -1)",
            "({})[..., 1]",
            "tf.reduce_sum(({}) * w, -1)",
            "tf.norm({}, axis=-1)",
        ),
        *(
            "tf.reduce_sum(({})**2, -1)",
            "tf.math.reduce_variance({}, -1)",
            "tf.reduce_prod({}, -1)",
        ),
        *(
            "tf.math.reduce_std({}, -1)",
            "tf.tensordot({}, tf.cast(w, x.dtype), 1)",
            "tf.nn.moments({}, [-1])[1]",
        ),
        "tf.nn.softmax_cross_entropy_with_logits(tf.zeros_like({}) + w, {})",
    )

    def __init__(self) -> None:
        import tensorflow as tf

        self._tf = tf

    def names(self, dtype: str) -> dict[str, Any]:
        """Lists take the dtype of what they are combined with."""
        return {"tf": self._tf, **_ARRAYS}

    def answers(self, text: str, numbers: Array, dtype: str) -> Answers:
        """The results of a layer at points (N, 3)."""
        tf = self._tf
        layer = eval(f"lambda x: {text}", self.names(dtype))
        x = tf.cast(tf.constant(numbers), dtype)
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = layer(x)
        gradient = tape.gradient(value, x, output_gradients=tf.ones_like(value))
        gradient = tf.zeros_like(x) if gradient is None else gradient
        return _answers(*(tf.cast(part, "float64").numpy() for part in (value, gradient)))


LANGUAGES: Mapping[str, Callable[[], Torch | Jax | TensorFlow]] = {
    "torch": Torch,
    "jax": Jax,
    "tensorflow": TensorFlow,
}


def _answers(value: Array, gradient: Array) -> Answers:
    answered = np.ones(len(value), np.bool_)
    return Answers(value[:, None], {"x": gradient[:, None, :]}, answered)
