import jax
import jax.numpy as jnp
import numpy as np


# right (13)
@jax.custom_vjp
def safe_norm(x):
    return jnp.sqrt(jnp.sum(x * x))


safe_norm.defvjp(lambda x: (safe_norm(x), x), lambda x, g: (g * x / jnp.sqrt(jnp.sum(x * x)),))


@jax.custom_jvp
def log1mexp(x):
    return jnp.where(x < 0.6931472, jnp.log(-jnp.expm1(-x)), jnp.log1p(-jnp.exp(-x)))


@log1mexp.defjvp
def _(p, t):
    (x,) = p
    (dx,) = t
    return log1mexp(x), dx / jnp.expm1(x)


def scan_rnn(x, w):
    def step(h, v):
        h = jnp.tanh(w @ h + v)
        return h, h

    return jax.lax.scan(step, jnp.zeros(2, x.dtype), x)[1]


def ties_sort(x):
    return jnp.sort(x) * jnp.arange(1.0, x.shape[0] + 1, dtype=x.dtype)


def vmapped_quadratic(x, a):
    return jax.vmap(lambda v: v @ a @ v)(x)


def while_newton(x):
    """square root by four Newton steps, unrolled"""
    y = x
    for _ in range(6):
        y = 0.5 * (y + x / y)
    return y


def callback_right(x):
    f = jax.custom_vjp(
        lambda v: jax.pure_callback(
            lambda a: np.sin(np.asarray(a)), jax.ShapeDtypeStruct(v.shape, v.dtype), v
        )
    )
    f.defvjp(lambda v: (f(v), v), lambda v, g: (g * jnp.cos(v),))
    return f(x)


def cond_branch(x):
    return jax.lax.cond(x.sum() > 0, lambda v: v**2, lambda v: v**3, x)


def indexed_update(x):
    return x.at[1].set(x[0] * x[2]).at[0].add(1.0)


def double_where(x):
    s = jnp.where(x > 0, x, 1.0)
    return jnp.where(x > 0, jnp.sqrt(s), 0.0)


@jax.checkpoint
def remat_block(x):
    return jnp.sin(jnp.sin(x) @ jnp.sin(x).T)


def cast_bf16(x, w):
    return (x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)).astype(x.dtype)


def int_lookup(x, i):
    return jnp.take(x, i, axis=0) ** 2


# wrong (12)
@jax.custom_vjp
def softmax_diag(x):
    return jax.nn.softmax(x)


softmax_diag.defvjp(lambda x: (jax.nn.softmax(x),) * 2, lambda p, g: (g * p * (1 - p),))


@jax.custom_jvp
def drops_tangent(a, b):
    return a * jnp.exp(b)


@drops_tangent.defjvp
def _(p, t):
    a, b = p
    da, _ = t
    return drops_tangent(a, b), da * jnp.exp(b)


def stops_scale(x):
    return x / jax.lax.stop_gradient(jnp.linalg.norm(x))


@jax.custom_vjp
def matmul_t(x, w):
    return x @ w


matmul_t.defvjp(lambda x, w: (x @ w, (x, w)), lambda r, g: (g @ r[1], r[0].T @ g))


@jax.custom_vjp
def micro_off(x):
    return jnp.tanh(x)


micro_off.defvjp(lambda x: (jnp.tanh(x), x), lambda x, g: (g * (1 - jnp.tanh(x) ** 2) + 1e-6 * g,))


@jax.custom_jvp
def second_wrong(x):
    return jnp.sin(x)


@second_wrong.defjvp
def _(p, t):
    (x,) = p
    (dx,) = t
    return second_wrong(x), dx * jax.lax.stop_gradient(jnp.cos(x))


_seen = {}


def python_cache(x):
    m = (
        _seen.setdefault(x.shape, float(np.max(np.asarray(x))))
        if not isinstance(x, jax.core.Tracer)
        else _seen.get(x.shape, 1.0)
    )
    return x * m


@jax.custom_vjp
def one_branch(x):
    return jnp.where(x > 1, jnp.log(x), x - 1)


one_branch.defvjp(lambda x: (one_branch(x), x), lambda x, g: (g * jnp.where(x > 1, x, 1.0),))


@jax.custom_vjp
def batch_zero(x):
    return x**2


batch_zero.defvjp(lambda x: (x**2, x), lambda x, g: ((2 * x * g).at[2].set(0.0),))


def where_nan(x):
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)


@jax.custom_vjp
def clips_cotangent(x):
    return x * 3


clips_cotangent.defvjp(lambda x: (x * 3, None), lambda _, g: (3 * jnp.clip(g, -0.1, 0.1),))


@jax.custom_vjp
def axis_swapped(x):
    return x.sum(0)


axis_swapped.defvjp(lambda x: (x.sum(0), x.shape), lambda s, g: (jnp.broadcast_to(g[:, None], s),))
