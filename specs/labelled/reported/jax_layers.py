import jax
import jax.numpy as jnp


@jax.custom_jvp
def inv_js(a):
    return jnp.linalg.inv(a)  # jax-js#84: triangular solve without the mask


@inv_js.defjvp
def _(p, t):
    (a,) = p
    (da,) = t
    i = jnp.linalg.inv(a)
    return i, -jnp.triu(i @ da @ i) - jnp.triu(i @ da @ i, 1)


def inv_ok(a):
    return jnp.linalg.inv(a)


def softplus_2107(x):
    return jnp.where(x > 0, x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))  # jax#2107


def softplus_ok(x):
    return jax.nn.softplus(x)


def _dn():
    return jax.lax.ScatterDimensionNumbers(
        update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    )


def _smax(t, i):
    x = jnp.asarray([1, 3, 4], dtype=t.dtype)
    u = t * jnp.asarray([1, -1], dtype=t.dtype) + jnp.asarray([1, 4], dtype=t.dtype)
    y = jax.lax.scatter_max(x, jnp.asarray(i, jnp.int32), u, _dn(), mode="clip")
    return (y * jnp.asarray([2, -1, 3], dtype=t.dtype)).sum()


def scatter_max_clip(t):
    return _smax(t, [[-3], [8]])  # jax#40626


def scatter_max_ok(t):
    return _smax(t, [[0], [2]])


@jax.custom_vjp
def broadcast_add_sq(a):
    return (a + jnp.ones((2, 3, 3), a.dtype)) ** 2  # mlx#610


broadcast_add_sq.defvjp(lambda a: (broadcast_add_sq(a), a), lambda a, g: (jnp.zeros_like(a),))


def broadcast_ok(a):
    return (a + jnp.ones((2, 3, 3), a.dtype)) ** 2


def tanh_tiny(x):
    return jnp.tanh(x)  # jax#39801


def atan2_half(x):
    s0 = (x / jnp.arctan2(x, x)) / jnp.asarray(2.0, x.dtype)
    return jnp.asarray(1.0, x.dtype) / s0  # jax#37909


def _root(c):
    y = jnp.ones_like(c)
    for _ in range(40):
        y = y - (y**3 + y - c) / (3 * y**2 + 1)
    return y


@jax.custom_vjp
def root_find(c):
    return _root(c)  # optimistix#151


root_find.defvjp(
    lambda c: (_root(c), jax.lax.stop_gradient(_root(c))), lambda y, g: (g / (3 * y**2 + 1),)
)


@jax.custom_jvp
def root_find_ok(c):
    return _root(c)


@root_find_ok.defjvp
def _(p, t):
    y = root_find_ok(p[0])
    return y, t[0] / (3 * y**2 + 1)


@jax.custom_jvp
def logdet_cut(a):
    return jnp.linalg.slogdet(a)[1]  # HIPS/autograd#463


@logdet_cut.defjvp
def _(p, t):
    return logdet_cut(p[0]), jnp.trace(jax.lax.stop_gradient(jnp.linalg.inv(p[0])) @ t[0])


def logdet_ok(a):
    return jnp.linalg.slogdet(a)[1]


@jax.custom_vjp
def wave_step(v):
    return jnp.cos(v) * v  # deepwave#64: a Hessian of zeros


wave_step.defvjp(
    lambda v: (wave_step(v), jax.lax.stop_gradient(jnp.cos(v) - v * jnp.sin(v))),
    lambda s, g: (jax.lax.stop_gradient(g * s),),
)


def wave_ok(v):
    return jnp.cos(v) * v
