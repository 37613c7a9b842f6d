"""Casts in layers of every framework: where they are, and the same layers without them, in
float64 from end to end."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.jax.engine import JaxEngine
from gradcheck_cli.engines.layer.casts import Watch
from gradcheck_cli.engines.layer.subject import Call, Subject, SubjectRequest
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from gradcheck_cli.engines.torch.engine import TorchEngine

X = np.array([[0.3, -1.7], [0.01, 0.8]])
W = np.array([[0.5, -0.25], [2.0, 1.5]])  # numbers of float16
ROW = np.array([1.0, -2.0, 0.5, 3.0])


def bound(engine: Engine, layer: Any, dtype: str = "float64", uncast: bool = False) -> Subject:
    engine.load()
    name = engine.capabilities.name
    one = Implementation(name, "layer", ".", Span(1, 1, 1, 2), live=layer)
    return engine.subject(SubjectRequest(one, {"x": X}, dtype, dtype, uncast=uncast))


def layer_in(name: str) -> tuple[Engine, Any]:
    """tanh(x @ W) ** 2, in float16 and then in bfloat16 (NumPy: in float32)."""
    if name == "torch":
        import torch

        def in_torch(x: Any) -> Any:
            made = torch.zeros(2, 2, dtype=torch.float16)
            made += x.half() @ torch.tensor(W, dtype=torch.float16)
            return torch.tanh(made).bfloat16().square().to(x.dtype)

        return TorchEngine(), in_torch
    if name == "tensorflow":
        import tensorflow as tf

        @tf.function  # type: ignore[untyped-decorator]
        def in_tensorflow(x: Any) -> Any:
            made = tf.cast(x, tf.float16) @ tf.constant(2 * W, tf.float16)
            made = made / tf.constant(2.0, tf.float16) + tf.zeros((2, 1), tf.float16)
            return tf.cast(tf.square(tf.cast(tf.tanh(made), tf.bfloat16)), x.dtype)

        return TensorFlowEngine(), in_tensorflow
    if name == "jax":
        import jax
        import jax.numpy as jnp

        @jax.jit
        def in_jax(x: Any) -> Any:
            def turn(rest: Any, column: Any) -> Any:
                return rest, jnp.tanh(x.astype(jnp.float16) @ column).astype(jnp.bfloat16)

            start = jnp.zeros(1, jnp.bfloat16)
            made = jax.lax.scan(turn, start, jnp.asarray(W.T, jnp.float16))[1].T
            made = jnp.zeros((2, 2), jnp.bfloat16).at[jnp.array([0, 1])].add(made)
            return jnp.square(jax.lax.reduce_precision(made, 8, 7)).astype(x.dtype)

        return JaxEngine(), in_jax

    def in_numpy(x: Any) -> Any:
        made = np.empty((2, 2), np.float32)
        np.matmul(x.astype(np.float16), W.astype(np.float16), out=made)
        return np.square(np.tanh(made), dtype=np.float32).astype(x.dtype)

    def backward(u: Any, x: Any) -> Any:
        made = np.tanh((x @ W).astype(np.float16))
        return (u * 2 * made * (1 - made**2)) @ W.T

    return NumpyEngine(), SimpleNamespace(forward=in_numpy, backward=backward)


@pytest.mark.parametrize("name", ["torch", "tensorflow", "jax", "numpy"])
def test_a_layer_with_and_without_its_casts(name: str) -> None:
    engine, layer = layer_in(name)
    plain = bound(engine, layer)
    forward = [cast for cast in plain.casts() if not cast.backward]
    narrow = {"float16", "float32" if name == "numpy" else "bfloat16"}
    assert {cast.dtype for cast in forward} == narrow - ({"float32"} if name == "numpy" else set())
    places = [cast.place.text for cast in forward if cast.place]
    assert any("x" in text for text in places)

    uncast = bound(engine, layer, uncast=True)
    y = np.tanh(X @ W)
    x_bar = (ROW.reshape(2, 2) * 2 * y * (1 - y**2)) @ W.T
    assert not uncast.casts()
    assert np.abs(plain.value({}) - np.ravel(y**2)).max() > 1e-4
    np.testing.assert_allclose(uncast.value({}), np.ravel(y**2), rtol=1e-14)
    found = uncast.run(Call(cotangents=ROW[None])).gradients["x"]
    np.testing.assert_allclose(found, x_bar.reshape(1, 4), rtol=1e-13)
    moved = uncast.value({"x": 2 * X})
    np.testing.assert_allclose(moved, np.ravel(np.tanh(2 * X @ W) ** 2), rtol=1e-14)
    if name != "numpy":
        pushed = uncast.jvp({"x": X})
        np.testing.assert_allclose(pushed, np.ravel(2 * y * (1 - y**2) * (X @ W)), rtol=1e-13)
        again = uncast.hvp("reverse-over-reverse", ROW, {"x": X})["x"]
        dy = (1 - y**2) * (X @ W)
        right = (ROW.reshape(2, 2) * 2 * dy * (1 - 3 * y**2)) @ W.T
        np.testing.assert_allclose(again, np.ravel(right), rtol=1e-12)


def test_a_stated_rule_of_jax_is_kept() -> None:
    import jax
    import jax.numpy as jnp

    @jax.custom_vjp
    def halved(x: Any) -> Any:
        return jnp.sin(x)

    halved.defvjp(
        lambda x: (jnp.sin(x), x),
        lambda x, bar: ((bar.astype(jnp.bfloat16) * jnp.cos(x) / 2).astype(x.dtype),),
    )
    engine = JaxEngine()
    uncast = bound(engine, lambda x: halved(x.astype(jnp.float16)).astype(x.dtype), uncast=True)
    found = uncast.run(Call(cotangents=ROW[None])).gradients["x"]
    np.testing.assert_allclose(found, (ROW * np.cos(X.ravel()) / 2)[None], rtol=1e-14)


def test_constants_and_masks_are_no_casts() -> None:
    """Nothing is lost where a condition becomes numbers, or a constant has few digits."""
    import torch

    def masked(x: Any) -> Any:
        return x * (x > 0).float() * torch.tensor(0.1).half()

    assert not bound(TorchEngine(), masked).casts()


def saving_half(name: str) -> tuple[Engine, Any]:
    """sin(x), whose backward has cos(x) from a cast to float16 in the forward pass."""
    if name == "torch":
        import torch

        class InTorch(torch.autograd.Function):  # type: ignore[misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                made = torch.empty_like(x)
                made[0], made[1] = x[0].sin(), x[1].bfloat16().to(x.dtype).sin()
                ctx.save_for_backward(x.half().cos())
                return made

            @staticmethod
            def backward(ctx: Any, upstream: Any) -> Any:
                return upstream * ctx.saved_tensors[0].to(upstream.dtype)

        return TorchEngine(), InTorch.apply
    if name == "tensorflow":
        import tensorflow as tf

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def in_tensorflow(x: Any) -> Any:
            saved = tf.cos(tf.cast(x, tf.float16))
            y = tf.sin(tf.cast(tf.cast(x, tf.bfloat16), x.dtype))
            return y, lambda upstream: upstream * tf.cast(saved, upstream.dtype)

        return TensorFlowEngine(), in_tensorflow
    if name == "jax":
        import jax
        import jax.numpy as jnp

        @jax.custom_vjp
        def in_jax(x: Any) -> Any:
            return forward(x)[0]

        def forward(x: Any) -> Any:
            y = jnp.sin(x.astype(jnp.bfloat16).astype(x.dtype))
            return y, jnp.cos(x.astype(jnp.float16))

        in_jax.defvjp(forward, lambda saved, bar: (bar * saved.astype(bar.dtype),))
        return JaxEngine(), in_jax

    def in_numpy(x: Any) -> Any:
        made = np.empty_like(x)
        made[0][:] = [math.sin(number) for number in x.astype(np.float32)[0]]
        made[1] = np.sin(x[1])
        return made, np.cos(x.astype(np.float16))

    def backward(u: Any, cache: Any) -> Any:
        return u * cache

    return NumpyEngine(), SimpleNamespace(forward=in_numpy, backward=backward)


@pytest.mark.parametrize("name", ["torch", "tensorflow", "jax", "numpy"])
def test_what_is_computed_of_a_cast_for_the_backward_pass_alone_belongs_to_that(name: str) -> None:
    engine, layer = saving_half(name)
    casts = bound(engine, layer).casts()
    assert "float16" in {cast.dtype for cast in casts if cast.backward}
    of_forward = {cast.dtype for cast in casts if not cast.backward}
    assert of_forward == {"float32" if name == "numpy" else "bfloat16"}


def test_a_cast_that_no_output_depends_on_belongs_to_the_backward_pass() -> None:
    watch = Watch("float64")
    histories = [watch.narrowed(dtype, "to", None) for dtype in ("float16", "bfloat16", "float32")]
    watch.leaves(histories[0])
    watch.end_forward([histories[2], None])
    forward = {cast.dtype: not cast.backward for cast in watch.found()}
    assert forward == {"float16": True, "float32": True, "bfloat16": False}


def test_an_output_of_which_nothing_is_known_may_depend_on_every_cast() -> None:
    watch = Watch("float64")
    watch.narrowed("float16", "to", None)
    watch.end_forward([None])
    assert [cast.backward for cast in watch.found()] == [False]
