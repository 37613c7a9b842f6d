"""Functions whose gradient JAX 0.10.2 gets wrong on a CPU."""

import jax
import jax.numpy as jnp


def i0(x):
    return jax.scipy.special.i0(x)


def doubled(x):
    return jnp.ldexp(x, 1)


def weighted(b):
    return jax.scipy.special.logsumexp(jnp.zeros(2), b=b)


def digamma(x):
    return jax.lax.digamma(x)


def gamma_variate(a):
    return jax.random.gamma(jax.random.key(0), a)


def clipped_maximum(x, u):
    one = jax.lax.ScatterDimensionNumbers((), (0,), (0,))
    return jax.lax.scatter_max(x, jnp.array([[1], [7]]), u, one, mode="clip")


def spence(x):
    return jax.scipy.special.spence(x)


def dawson(x):
    return jax.scipy.special.dawsn(x)
