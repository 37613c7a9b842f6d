"""Planted bugs of layers in JAX."""

import jax


@jax.custom_vjp
def cube(x):
    """Its second derivative is zero: what it saves of its forward has no gradient."""
    return x**3


def _cube_fwd(x):
    return x**3, jax.lax.stop_gradient(3 * x**2)


def _cube_bwd(slope, g):
    return (g * slope,)


cube.defvjp(_cube_fwd, _cube_bwd)


@jax.custom_vjp
def mixer(signal, carrier):
    """A product of complex numbers, whose backward conjugates as in PyTorch: JAX does not."""
    return signal * carrier


def _mixer_bwd(factors, g):
    signal, carrier = factors
    return g * carrier.conj(), g * signal


mixer.defvjp(lambda signal, carrier: (signal * carrier, (signal, carrier)), _mixer_bwd)
