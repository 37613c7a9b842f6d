"""The forward of a layer of JAX, recorded, becomes a program in the rows of these kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gradcheck_cli.engines.jax.engine import JaxEngine
from gradcheck_cli.engines.layer.lifting import NotLifted
from tests.checks.making import assert_computes, subject_of
from tests.every import every

X = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.6], [-0.2, 0.9, 1.6]])
IMAGE = np.random.default_rng(0).standard_normal((1, 5, 4, 2))
KERNEL = np.random.default_rng(1).standard_normal((2, 3, 2, 4))


def attention(x: Any) -> Any:
    return jax.nn.softmax(x @ x.T / 2.0) @ x


def cell(x: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        gate = jax.nn.sigmoid(h * row)
        h = gate * h + (1 - gate) * jnp.tanh(row)
        return h, h.sum()

    return lax.scan(step, jnp.ones(3), x)


def loss(x: Any) -> Any:
    labels = jnp.array([[0], [2], [1]])
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), labels, 1))


def complex_numbers(x: Any) -> Any:
    z = lax.complex(x, x[::-1] * 0.7)
    y = (z**3 / (z + 2j)).real + jnp.exp(z).imag + jnp.abs(z) * jnp.angle(z) + (z**-1.5).real
    y += (jnp.sqrt(z) + jnp.tanh(z) - z.conj() * jnp.sin(z)).imag + jnp.where(x > 0, z, x).real
    y += jax.vmap(jax.vmap(jax.grad(lambda a: jnp.abs(jnp.exp(1j * a) + a))))(x)
    return y + (z @ z.conj().T).imag + lax.rsqrt(z).real + jnp.cumsum(z, 0).imag + z.sum(1).real


def recurrent(x: Any) -> Any:
    turn = jnp.exp(lax.complex(-(x[0] ** 2), x[1]))
    return lax.scan(lambda h, u: (turn * h + u, h.real), jnp.zeros(3, complex), x)[1]


def transforms(x: Any) -> Any:
    y = jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(x[::-1]), n=3)
    y += jnp.abs(jnp.fft.fft(x, n=5))[:, 1:4] + jnp.fft.ifft2(lax.complex(x, x * x)).imag
    return y + jnp.fft.irfft2(jnp.fft.rfft2(x) ** 2, s=(3, 3))


@jax.custom_vjp
def stated(x: Any) -> Any:
    return jnp.exp(-x)


stated.defvjp(lambda x: (jnp.exp(-x), x), lambda x, g: (g,))


def loops(x: Any) -> Any:
    x = lax.while_loop(lambda y: y.sum() < 20, lambda y: y * y + jnp.abs(y), x)
    x = lax.fori_loop(0, 2, lambda i, y: jnp.sin(y) + i * y.mean(), x)
    return lax.cond(x.sum() > 0, jax.checkpoint(jnp.cos), jnp.tanh, x)


def written(x: Any) -> Any:
    y = x[:, ::-1].at[0].multiply(2.0).at[:, 1].add(x[:, 0])
    y = y.at[jnp.array([0, 1, 1]), jnp.array([0, 2, 2])].add(x[0])
    return y.at[2].max(x[0]).at[1].min(0.5).at[0, 1].set(x[1, 1] ** 2)


def dropped(x: Any) -> Any:
    places = jnp.array([0, 7, 1])
    return x.at[places].add(2 * x, mode="drop") * x.at[places].mul(x, mode="clip")


def ordered(x: Any) -> Any:
    best, _ = lax.top_k(x, 2)
    by_order = jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1)
    return jnp.sort(x, axis=0) * by_order + best.sum() + lax.cummax(x) + lax.cumlogsumexp(x)


def matrices(x: Any) -> Any:
    spd = x @ x.T + jnp.eye(3)
    factor = jax.scipy.linalg.cho_factor(spd)
    solved = jnp.linalg.solve(x, x[0]) + jax.scipy.linalg.cho_solve(factor, x[1])
    return solved * jnp.linalg.slogdet(spd)[1] + jnp.linalg.det(x) + jnp.linalg.inv(x)


def triangles(x: Any) -> Any:
    lower = jax.scipy.linalg.solve_triangular(x, x[0], lower=True, unit_diagonal=True)
    return lax.linalg.triangular_solve(x, x + 1, left_side=False, transpose_a=True) + lower


def factors(x: Any) -> Any:
    q, r = jnp.linalg.qr(x[:, :2])
    u, s, v = jnp.linalg.svd(x[:2], full_matrices=False)
    return q @ r, u, s, v, jnp.linalg.eigh(x + x.T)


def normalised(x: Any) -> Any:
    moved = x - x.mean(0)
    return moved * lax.rsqrt(x.var(0) + 1e-5) + jax.nn.standardize(x)


LAYERS: dict[str, Callable[..., Any]] = {
    "dense": lambda x: jnp.tanh(x @ x[:, :2] + x[0, :2]),
    **{"attention": attention, "cell": cell, "loss": loss, "custom gradient": stated},
    **{"loops": loops, "written": written, "dropped": dropped, "ordered": ordered},
    **{"complex": complex_numbers, "recurrent": recurrent, "transforms": transforms},
    **{"matrices": matrices, "triangles": triangles, "factors": factors, "normal": normalised},
    "products": lambda x: jnp.einsum("ij,kj->ik", x, x) + jax.vmap(jnp.outer)(x, x)[0],
    "moved": lambda x: jnp.roll(jnp.pad(x, 1, mode="edge"), 1)[1:4, :3] + jnp.tile(x, 2)[:, 2:5],
    "activations": lambda x: jax.nn.gelu(x) + jax.nn.elu(x) + jax.nn.mish(x) + jax.nn.selu(x),
    "rounded": lambda x: x % 0.5 + jnp.fmod(x, 0.4) + jnp.round(3 * x) + jnp.clip(x, -0.7, 1.3),
    "special": lambda x: (
        jax.scipy.special.gammaln(x + 2)
        + jax.scipy.special.polygamma(1, x + 2)
        + jax.scipy.stats.norm.logcdf(x)
    ),
    "integrals": lambda x: jnp.stack(
        [
            *(jax.scipy.special.expi(x), jax.scipy.special.dawsn(x)),
            *jax.vmap(jax.scipy.special.fresnel)(x),
            *jax.scipy.special.sici(jnp.abs(x)),
            *(jax.scipy.special.exp1(jnp.abs(x)), jax.scipy.special.expn(3, jnp.abs(x))),
        ]
    ),
    "incomplete": lambda x: (
        jax.scipy.special.gammainc(x + 2, x + 3) * jax.scipy.special.gammaincc(2.5, x + 3)
        + jax.scipy.special.betainc(x + 2, 1.5, jax.nn.sigmoid(x))
        + jax.scipy.special.zeta(x + 3, x + 2)
    ),
    "drawn": lambda x: x + jnp.exp(x) * jax.random.normal(jax.random.key(1), x.shape),
}
OF_IMAGES: dict[str, Callable[..., Any]] = {
    "convolution": lambda x: lax.conv_general_dilated(
        x, KERNEL, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    ),
    "groups": lambda x: lax.conv_general_dilated(
        x,
        KERNEL[:, :, :1],
        (1, 1),
        [(0, 1), (2, -1)],
        rhs_dilation=(2, 1),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=2,
    ),
    "transposed": lambda x: lax.conv_transpose(
        x, KERNEL, (2, 3), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    ),
    "volume": lambda x: lax.conv_general_dilated(
        x[None], x[None, :, :2, :2, :1], (1, 1, 2), [(1, 0), (0, 0), (1, 1)]
    ),
    "maximum": lambda x: lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"
    ),
    "average": lambda x: (
        lax.reduce_window(x, 0.0, lax.add, (1, 3, 2, 1), (1, 1, 1, 1), "VALID") / 6
    ),
    "resized": lambda x: jax.image.resize(x, (1, 6, 5, 2), "bilinear"),
}


def test_the_program_computes_the_layer_here_and_nearby() -> None:
    layers = {name: (layer, X) for name, layer in LAYERS.items()}
    layers |= {name: (layer, IMAGE) for name, layer in OF_IMAGES.items()}

    def check(name: str) -> None:
        layer, x = layers[name]
        subject = subject_of(JaxEngine(), layer, x=x)
        lifted = subject.lift()
        for there in (x, x + 1e-3):
            assert_computes(lifted, subject, {"x": there}, rtol=1e-11, atol=1e-13)

    every(layers, check)


def test_a_primitive_without_rows_is_refused_by_name() -> None:
    subject = subject_of(JaxEngine(), lambda x: lax.igamma_grad_a(1.5, x), x=np.abs(X))
    with pytest.raises(NotLifted, match="no formula for `igamma_grad_a`"):
        subject.lift().without_islands()


def test_what_is_computed_in_fewer_digits_is_refused() -> None:
    subject = subject_of(JaxEngine(), lambda x: jnp.sin(lax.reduce_precision(x, 8, 7)), x=X)
    with pytest.raises(NotLifted, match="no formula for `reduce_precision` with these"):
        subject.lift().without_islands()
