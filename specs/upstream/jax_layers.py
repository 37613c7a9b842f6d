"""Functions whose gradient JAX 0.10.2 gets wrong on a CPU."""

import jax
import jax.numpy as jnp


def i0(x):
    return jax.scipy.special.i0(x)


def doubled(x):
    return jnp.ldexp(x, 1)


def weighted(b):
    return jax.scipy.special.logsumexp(jnp.zeros(2), b=b)
