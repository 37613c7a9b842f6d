"""Layers of JAX that are right in an odd way, or wrong in one place: `tests.fuzz.oddities`."""

import contextlib
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np


def _rule(backward, forward=jnp.sin):
    rule = jax.custom_vjp(forward)
    rule.defvjp(lambda x: (forward(x), x), lambda x, g: (backward(x, g),))
    return rule


def _tangent(jvp, forward=jnp.sin):
    rule = jax.custom_jvp(forward)
    rule.defjvp(lambda at, along: (forward(at[0]), jvp(at[0], along[0])))
    return rule


def right_vjp(x):
    """Right: a custom_vjp."""
    return _rule(lambda x, g: g * jnp.cos(x))(x)


def right_jvp(x):
    """Right: a custom_jvp."""
    return _tangent(lambda x, t: t * jnp.cos(x))(x)


def wrong_sign(x):
    """GC101: the sign."""
    return _rule(lambda x, g: -g * jnp.cos(x))(x)


def wrong_sign_of_the_jvp(x):
    """GC101: the sign of the tangent."""
    return _tangent(lambda x, t: -t * jnp.cos(x))(x)


def wrong_in_one_entry(x):
    """GC101: one entry."""
    return _rule(lambda x, g: (g * jnp.cos(x)).at[-1].mul(0.5))(x)


def wrong_in_float32(x):
    """GC101: float32 only."""
    return _rule(lambda x, g: g * jnp.cos(x) * (1.5 if x.dtype == jnp.float32 else 1))(x)


def wrong_in_float64(x):
    """GC101: float64 only."""
    return _rule(lambda x, g: g * jnp.cos(x) * (1.5 if x.dtype == jnp.float64 else 1))(x)


def wrong_residual(x):
    """GC101: the residual is the output."""
    rule = jax.custom_vjp(jnp.sin)
    rule.defvjp(lambda x: (jnp.sin(x), jnp.sin(x)), lambda y, g: (g * jnp.cos(y),))
    return rule(x)


def wrong_value_of_the_forward_rule(x):
    """GC101 GC608: the forward rule gives another value."""
    rule = jax.custom_vjp(jnp.sin)
    rule.defvjp(lambda x: (jnp.sin(x) * 2, x), lambda x, g: (g * 2 * jnp.cos(x),))
    return rule(x)


def returns_none_for_an_input(x, w):
    """GC101 GC102: None for the weight."""
    rule = jax.custom_vjp(lambda x, w: x * w)
    rule.defvjp(lambda x, w: (x * w, w), lambda w, g: (g * w, None))
    return rule(x, w)


def swaps_the_gradients(x, w):
    """GC101: in the wrong order."""
    rule = jax.custom_vjp(lambda x, w: x * w)
    rule.defvjp(lambda x, w: (x * w, (x, w)), lambda both, g: (g * both[0], g * both[1]))
    return rule(x, w)


def clips_the_gradient(x):
    """GC607: clipped."""
    return _rule(lambda x, g: jnp.clip(g * jnp.cos(x), -0.01, 0.01))(x)


def forgets_the_upstream(x):
    """GC101 GC607: the upstream gradient is not read."""
    return (2 * _rule(lambda x, g: jnp.cos(x))(x)).sum()


def stops_a_factor(x):
    """GC101 GC102: stop_gradient on a factor."""
    return x * jax.lax.stop_gradient(x)


def stops_all(x):
    """GC102: stop_gradient on all."""
    return jax.lax.stop_gradient(jnp.sin(x))


def stops_one_output(x):
    """GC101 GC102: stop_gradient on one output."""
    return jnp.sin(x), jax.lax.stop_gradient(jnp.cos(x))


def straight_through(x):
    """GC101 GC102: rounding with the derivative 1."""
    return x + jax.lax.stop_gradient(jnp.round(x) - x) + jnp.sin(x)


def calls_back(x):
    """GC102 GC701: a callback without a derivative."""
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def calls_back_with_a_rule(x):
    """Right: a callback with a custom_vjp."""

    def host(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(np.sin, shape, x, vmap_method="expand_dims")

    return _rule(lambda x, g: g * jnp.cos(x), host)(x)


def calls_back_to_look(x):
    """Right: a debug callback."""
    jax.debug.callback(lambda v: None, x)
    return jnp.sin(x)


def goes_through_numpy(x):
    """GC102 GC109 GC701: NumPy in the middle."""
    return jnp.asarray(np.sin(np.asarray(x)))


def goes_through_float(x):
    """GC101 GC102 GC701: float() in the middle."""
    return x * float(x[0])


def gives_numpy(x):
    """GC102 GC109 GC701: NumPy at the end."""
    return np.sin(np.asarray(x))


def gives_the_input(x):
    """Right: the input itself."""
    return x


def gives_a_slice(x):
    """Right: a slice."""
    return x[1:]


def gives_a_dictionary(x):
    """Right: a dictionary, with None in it."""
    return {"a": jnp.sin(x), "b": None, "d": [jnp.exp(x), x > 0]}


Both = namedtuple("Both", ["loss", "mask"])


def gives_a_named_tuple(x):
    """Right: a named tuple."""
    return Both((x * x).sum(), x > 0)


class Pair:
    """A tree of its own."""

    def __init__(self, value):
        self.value = value


jax.tree_util.register_pytree_node(
    Pair, lambda pair: ((pair.value,), None), lambda _, parts: Pair(*parts)
)


def gives_a_tree(x):
    """Right: a class that is registered as a tree."""
    return Pair(jnp.tanh(x))


def complex_inside(x):
    """Right: complex numbers inside."""
    z = (jnp.cos(x) + 1j * jnp.sin(x)) ** 3
    return z.real + jnp.abs(z)


def transforms(x):
    """Right: a Fourier transform."""
    return jnp.fft.irfft(jnp.fft.rfft(x) * 2, n=x.shape[0])


def does_not_depend(x, w):
    """Right: does not depend on an input."""
    return jnp.sin(x)


def indexes(x, k):
    """Right: whole numbers choose.

    inputs: {x: [0.5, -1.25, 2.0], k: {value: [0, 2, 0], dtype: int64}}
    """
    return jnp.exp(x[k])


def gathers_wrongly(x, k):
    """GC101: set where it should add.

    inputs: {x: [0.5, -1.25, 2.0], k: {value: [0, 2, 0], dtype: int64}}
    """
    rule = jax.custom_vjp(lambda x: x[k])
    rule.defvjp(lambda x: (x[k], x), lambda x, g: (jnp.zeros_like(x).at[k].set(g),))
    return rule(x)


def empty(x):
    """Right: a part without entries."""
    return x[:0].sum() + jnp.exp(x[:0]).prod() * jnp.sin(x)


def one_number(x):
    """Right: no dimension.

    inputs: {x: 0.7}
    """
    return jnp.sin(x)


def forgets_to_sum(x, b):
    """GC101 GC103 GC701: not summed.

    inputs: {x: {shape: [3, 2], distribution: normal, seed: 4}, b: [0.5, -1.0]}
    """
    rule = jax.custom_vjp(lambda x, b: x + b)
    rule.defvjp(lambda x, b: (x + b, None), lambda _, g: (g, g[0]))
    return rule(x, b)


def raises_in_the_backward(x):
    """GC701: the backward raises."""

    def backward(x, g):
        raise ValueError("no")

    return _rule(backward)(x)


def wrong_shape(x):
    """GC101 GC103 GC701: summed to one number."""
    return _rule(lambda x, g: (g * jnp.cos(x)).sum())(x)


def wrong_structure(x):
    """GC103 GC701: two gradients for one input."""
    rule = jax.custom_vjp(jnp.sin)
    rule.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g, g))
    return rule(x)


def compiles(x):
    """Right: jit inside."""
    return jax.jit(lambda v: jnp.tanh(v * v))(x)


def maps(x):
    """Right: vmap of a gradient."""
    return jax.vmap(jax.grad(lambda v: jnp.sin(v) * v))(x)


def checkpoints(x):
    """Right: a checkpoint."""
    return jax.checkpoint(lambda v: jnp.tanh(v * v))(x)


def scans(x):
    """Right: a scan."""
    return jax.lax.scan(lambda c, v: (jnp.sin(c + v), c * v), x[0], x)


def loops(x):
    """Right: a loop of known length."""
    return jax.lax.fori_loop(0, 4, lambda i, v: jnp.sin(v * 1.1), x)


def loops_for_a_while(x):
    """GC701 GC705: reverse mode has no while."""
    return jax.lax.while_loop(lambda v: v.sum() < 100, lambda v: v * 2 + 10, x)


def branches(x):
    """Right: a branch."""
    return jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)


def branches_in_python(x):
    """Right: a branch of Python on the value.

    inputs: {x: [0.5, -1.25]}
    """
    return jnp.sin(x) if x[0] > 0 else jnp.cos(x)


def solves(x):
    """Right: a root found, with the implicit derivative."""

    def f(y):
        return y + 0.5 * jnp.sin(y) - x

    def solve(f, y):
        return jax.lax.fori_loop(0, 60, lambda i, y: y - f(y) * 0.8, y)

    def linear(g, y):
        return y / jax.jvp(g, (jnp.ones_like(y),), (jnp.ones_like(y),))[1]

    return jax.lax.custom_root(f, x, solve, linear)


def draws(x):
    """Right: noise with a key."""
    return x * jax.random.normal(jax.random.key(3), x.shape, x.dtype)


_calls = []


def grows(x):
    """GC101 GC602 GC605: scaled by the number of calls."""
    _calls.append(1)
    return jnp.sin(x) * len(_calls)


_noise = np.random.default_rng()


def draws_without_seed(x):
    """GC101 GC602 GC605: noise that no seed makes."""
    return x * float(_noise.standard_normal())


_leaked = []


def leaks(x):
    """GC605 GC701: a tracer of an earlier call is used."""
    _leaked.append(x)
    return jnp.sin(x) + 0 * _leaked[-2:][0]


def second_order_dropped(x):
    """GC106 GC102: the backward is not derived.

    order: 2
    """
    return _rule(lambda x, g: g * jax.lax.stop_gradient(jnp.cos(x)))(x).sum()


def second_order_wrong(x):
    """GC106: the derivative of the backward is wrong.

    order: 2
    """
    inner = _tangent(lambda x, t: t * jnp.sin(x), jnp.cos)
    return _tangent(lambda x, t: t * inner(x))(x).sum()


def second_order_right(x):
    """Right: derived twice.

    order: 2
    """
    return _tangent(lambda x, t: t * jnp.cos(x))(x).sum()


def is_not_a_number(x):
    """GC203: nan."""
    return x.at[1].set(jnp.nan)


def norm_at_zero(x):
    """GC201 GC202 GC402: a norm at 0.

    inputs: {x: [0.0, 0.0]}
    """
    return jnp.sqrt((x * x).sum())


def where_and_nan(x):
    """GC201: nan from the branch that is not taken.

    inputs: {x: [0.0, 1.0]}
    """
    return jnp.where(x > 0, x / x * jnp.sqrt(x), x * 0)


def casts_down(x):
    """Right: bfloat16 and back.

    dtypes: [float32]
    """
    return x.astype(jnp.bfloat16).astype(x.dtype) * 2


def through_half(x):
    """GC101 GC103 GC301: the gradient passes through float16."""
    return _rule(lambda x, g: (g * jnp.cos(x)).astype(jnp.float16).astype(x.dtype))(x)


def recurses(x, depth=5):
    """Right: a recursion."""
    return x if depth == 0 else jnp.sin(recurses(x, depth - 1) * 1.1)


def no_tangent(x):
    """GC101 GC102: the tangent is zeros."""
    return _tangent(lambda x, t: jnp.zeros_like(x))(x)


def disabled(x):
    """Right: jit is disabled inside."""
    with jax.disable_jit():
        return jax.jit(jnp.tanh)(x)


def linearizes(x):
    """Right: the transpose of a linear map."""
    return jax.linear_transpose(lambda v: v * 3, x)(jnp.sin(x))[0]


def swallows(x):
    """Right: an exception that is caught."""
    with contextlib.suppress(TypeError):
        jnp.ones(2) @ jnp.ones(3)
    return jnp.sin(x)


def _twice(double_backward):
    """The sine with a vjp that has this vjp in turn, a function of `x`, the first cotangent and the
    second."""
    slope = jax.custom_vjp(lambda x, g: g * jnp.cos(x))
    slope.defvjp(lambda x, g: (g * jnp.cos(x), (x, g)), lambda at, h: double_backward(*at, h))
    return _rule(slope)


def twice_right(x):
    """Right: a vjp with a vjp of its own.
    order: 2
    """
    return _twice(lambda x, g, h: (-h * g * jnp.sin(x), h * jnp.cos(x)))(x) ** 2


def twice_wrong_sign(x):
    """GC106: the second derivative has the wrong sign.
    order: 2
    """
    return _twice(lambda x, g, h: (h * g * jnp.sin(x), h * jnp.cos(x)))(x)


def twice_without_the_slope(x):
    """GC106: what the cotangent depends on is left out.
    order: 2
    """
    return _twice(lambda x, g, h: (-h * g * jnp.sin(x), jnp.zeros_like(h)))(x) ** 2


def twice_forgets_the_upstream(x):
    """GC106: the first cotangent is taken for 1.
    order: 2
    """
    return 3 * _twice(lambda x, g, h: (-h * jnp.sin(x), h * jnp.cos(x)))(x)


def twice_stopped(x):
    """GC106: the tangent stops at its slope.
    order: 2
    """
    return _tangent(lambda x, t: t * jax.lax.stop_gradient(jnp.cos(x)))(x)


def twice_by_a_wrong_tangent(x):
    """GC106: the slope has a jvp of its own, which is twice too large.
    order: 2
    """
    slope = _tangent(lambda x, t: -2 * t * jnp.sin(x), jnp.cos)
    return _tangent(lambda x, t: t * slope(x))(x)


def finds_a_root(x):
    """Right: lax.custom_root, by bisection."""

    def bisected(f, start):
        def halved(_, ends):
            low, high = ends
            middle = (low + high) / 2
            below = f(middle) < 0
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        low, high = jax.lax.fori_loop(0, 60, halved, (start - 9, start + 9))
        return (low + high) / 2

    def solved(g, y):
        return y / g(jnp.ones_like(y))

    return jax.vmap(
        lambda x: jax.lax.custom_root(lambda y: y**3 + y - x, jnp.zeros_like(x), bisected, solved)
    )(x)


def loses_digits(x):
    """GC301: a difference of nearly equal numbers, of which one is exact.
    inputs: {x: [1.0e-4, 2.0e-4]}
    """
    return (jnp.exp(x) - 1) / x


def hidden_in_a_scan(x):
    """Right: a bound before a pole, in a loop, which a warning says.
    inputs: {x: [1.0e-9, 0.2]}
    """
    return jax.lax.scan(lambda c, v: (c, jnp.log(jnp.clip(v, 1e-6, None))), 0.0, x)[1]


def residuals_computed_in_half(x):
    """GC301: what the backward needs is computed from a cast to float16.
    inputs: {x: [0.8231, 1.2277]}
    """

    @jax.custom_vjp
    def rule(x):
        return forward(x)[0]

    def forward(x):
        return jnp.log(jnp.cosh(x)), jnp.tanh(x.astype(jnp.float16))

    rule.defvjp(forward, lambda kept, g: (g * kept.astype(g.dtype),))
    return rule(x)
