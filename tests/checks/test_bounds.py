"""A bound beside a pole that cuts the gradient off is found in layers; other bounds are not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch

from gradcheck_cli import check
from gradcheck_cli.domain.report import Finding

DOUBLE = {"dtypes": ["float64"], "modes": ["reverse"]}


def found(layer, *values, **settings) -> list[Finding]:
    arrays = [torch.tensor(value, dtype=torch.float64) for value in values]
    report = check(layer, *arrays, **DOUBLE, **settings)
    assert {f.severity for f in report.findings} <= {"warning", "note"}
    return [f for f in report.findings if f.code == "GC404"]


def distance(x, y):
    """Of two points of a sphere, as geometry libraries have it."""
    return torch.acos((x * y).sum().clamp(-1 + 1e-7, 1 - 1e-7))


def cross_entropy(p):
    p = torch.clip(p, 1e-7, 1 - 1e-7)
    return -torch.log(p)


def binary_cross_entropy(p):
    p = torch.clip(p, 1e-7, 1 - 1e-7)
    return torch.nn.functional.binary_cross_entropy(p, torch.ones_like(p), reduction="none")


def shared(p):
    q = torch.maximum(p, torch.full_like(p, 1e-6))
    return (q / q.sum()).sum() + (1 / q[0]) ** 0.5


def test_points_close_by_on_a_sphere() -> None:
    near = [1 - 2.5e-4**2 / 2, 2.5e-4, 0.0]
    first, second = found(distance, [1.0, 0.0, 0.0], near)
    assert (first.input, second.input) == ("x", "y")
    assert "a bound before the pole of `acos` makes the gradient zero" in first.message
    assert first.place is not None
    assert first.place.text == "(x * y).sum().clamp(-1 + 1e-7, 1 - 1e-7)"
    assert found(distance, [1.0, 0.0, 0.0], [0.8, 0.6, 0.0]) == []


def test_each_entry_by_itself() -> None:
    for loss in (cross_entropy, binary_cross_entropy):
        (one,) = found(loss, [1e-9, 0.5, 0.25])
        assert [entry.index for entry in one.entries] == [(0, 0)]
        assert "without the bound it is -1e+09" in one.message
        assert found(loss, [0.5, 0.25]) == []
    assert [f.input for f in found(shared, [1e-8, 0.5])] == ["p"]


def artanh(x):
    x = x.clamp(-1 + 1e-7, 1 - 1e-7)
    return torch.atanh(x)


def artanh_by_logs(x):
    x = x.clamp(-1 + 1e-5, 1 - 1e-5)
    return 0.5 * (torch.log(1 + x) - torch.log(1 - x))


@pytest.mark.parametrize(
    ("layer", "value"),
    [(artanh, [1.0, 0.5]), (artanh_by_logs, [0.5, -1.0]), (cross_entropy, [0.5, 0.0])],
)
def test_on_the_pole_itself_the_gradient_would_be_infinite(layer, value) -> None:
    (one,) = found(layer, value)
    assert len(one.entries) == 1
    assert "inf" in one.message


@pytest.mark.parametrize(
    ("layer", "value"),
    [
        (lambda x: torch.sqrt(x.clamp(min=1e-12)), [0.0, 1.0]),
        (lambda x: torch.acos(x.clamp(-1 + 1e-7, 1 - 1e-7)), [1.0, 0.2]),
        (lambda x: x / x.norm().clamp(min=1e-12), [0.0, 0.0]),
        (lambda p: -(p * torch.log(p.clamp(min=1e-9))), [0.0, 1.0]),
    ],
)
def test_a_bound_on_a_vertical_tangent_is_a_choice(layer, value) -> None:
    """The value is finite there, and has no other derivative."""
    assert found(layer, value) == []


def test_float32_alone_where_the_number_before_the_bound_is_rounded_to_the_pole() -> None:
    def loss(x):
        return -torch.log(1 - torch.sigmoid(x).clamp(1e-7, 1 - 1e-7))

    report = check(loss, torch.tensor([20.0, 0.25]), dtypes=["float32"])
    (one,) = [finding for finding in report.findings if finding.code == "GC404"]
    assert "without the bound it is 1" in one.message


@pytest.mark.parametrize(
    ("layer", "value"),
    [
        (lambda x: torch.log(1 + torch.relu(x)), [-1.0, 2.0]),
        (lambda x: x / x.norm().clamp(min=1e-12), [1e-13, 0.0]),  # no entry is zero
        (lambda x: torch.log(x.clamp(0.5, 2.0)), [0.1, 3.0]),  # a choice
        (lambda x: x.clamp(1e-7, 1.0).sum() * 2, [1e-9, 3.0]),  # no pole
        (lambda x: x.clamp(max=1.0) + 0 * torch.log(x[1]) + torch.log(x[1]), [3.0, 1e-5]),
    ],
)
def test_other_bounds_are_choices(layer, value) -> None:
    assert found(layer, value) == []


def distances(x, y):
    """Of many pairs of points."""
    return torch.acos((x * y).sum(-1).clamp(-1 + 1e-7, 1 - 1e-7))


def test_one_of_many_points_in_a_large_layer() -> None:
    angles = np.linspace(0.1, 3.0, 400)
    y = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    x = np.tile([1.0, 0.0, 0.0], (400, 1))
    assert found(distances, x, y) == []
    y[7] = [1 - 2.5e-4**2 / 2, 2.5e-4, 0.0]
    first, second = found(distances, x, y)
    assert (first.input, second.input) == ("x", "y")
    # of both points, two coordinates of the other one count
    assert "a bound before the pole of `acos` makes 2 entries of the gradient zero" in first.message
    assert first.place is not None


def test_nothing_is_done_twice_where_every_entry_counts(monkeypatch) -> None:
    from gradcheck_cli.engines.torch.layer import TorchSubject

    def never(self, rows):
        raise AssertionError("looked for bounds")

    monkeypatch.setattr(TorchSubject, "unclipped_gradients", never)
    assert found(lambda x: torch.log(x.clamp(1e-7, 1.0)), [0.5, 0.25]) == []


def sphere_in_jax(x, y):
    return jnp.arccos(jnp.clip(jnp.sum(x * y), -1 + 1e-7, 1 - 1e-7))


def entropy_in_jax(p):
    return -jnp.log(jnp.maximum(1e-7, p))


def sphere_in_tensorflow(x, y):
    return tf.acos(tf.clip_by_value(tf.reduce_sum(x * y), -1 + 1e-7, 1 - 1e-7))


def entropy_in_tensorflow(p):
    return -tf.math.log(tf.maximum(p, 1e-7))


def by(engine: str, layer, *values) -> list[Finding]:
    arrays = [np.asarray(value, np.float64) for value in values]
    report = check(layer, *arrays, engine=engine, **DOUBLE)
    assert {f.severity for f in report.findings} <= {"warning", "note"}
    return [f for f in report.findings if f.code == "GC404"]


def in_a_scan(p):
    return jax.lax.scan(lambda c, row: (c, jnp.log(jnp.clip(row, 1e-7, None))), 0.0, p)[1]


def in_every_turn(p):
    return jax.lax.fori_loop(0, 3, lambda _, c: c + jnp.log(jnp.maximum(p, 1e-7)), 0 * p)


@jax.custom_vjp
def in_a_custom_gradient(p):
    return jnp.log(jnp.maximum(p, 1e-7))


in_a_custom_gradient.defvjp(
    lambda p: (in_a_custom_gradient(p), p), lambda p, g: (jnp.where(p < 1e-7, 0.0, g / p),)
)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("layer", "slope"), [(in_a_scan, 1e9), (in_every_turn, 3e9), (in_a_custom_gradient, 1e9)]
)
def test_loops_and_custom_gradients_of_jax_are_looked_into(layer, slope) -> None:
    (one,) = by("jax", layer, [1e-9, 0.5])
    assert [entry.index for entry in one.entries] == [(0, 0)]
    assert f"without the bound it is {slope:g}" in one.message
    assert by("jax", layer, [0.25, 0.5]) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("engine", "sphere", "entropy"),
    [
        ("jax", sphere_in_jax, entropy_in_jax),
        ("jax-jit", jax.jit(sphere_in_jax), jax.jit(entropy_in_jax)),
        ("tensorflow", sphere_in_tensorflow, entropy_in_tensorflow),
        ("tensorflow", tf.function(sphere_in_tensorflow), entropy_in_tensorflow),
    ],
)
def test_other_frameworks(engine, sphere, entropy) -> None:
    near = [1 - 2.5e-4**2 / 2, 2.5e-4, 0.0]
    first, second = by(engine, sphere, [1.0, 0.0, 0.0], near)
    assert (first.input, second.input) == ("x", "y")
    assert "a bound before the pole of `acos` makes the gradient zero" in first.message
    assert first.place is not None
    assert first.place.text.startswith(("jnp.clip(", "tf.clip_by_value("))
    assert by(engine, sphere, [1.0, 0.0, 0.0], [0.8, 0.6, 0.0]) == []
    (one,) = by(engine, entropy, [1e-9, 0.5, 0.25])
    assert [entry.index for entry in one.entries] == [(0, 0)]
    assert "without the bound it is -1e+09" in one.message


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("engine", "layer", "value"),
    [
        ("jax", lambda x: jnp.log(1 + jax.nn.relu(x)), [-1.0, 2.0]),
        ("jax", lambda x: jnp.log(jnp.clip(x, 0.5, 2.0)), [0.1, 3.0]),
        ("jax", lambda x: jnp.sum(jnp.clip(x, 1e-7, 1.0)) * 2, [1e-9, 3.0]),
        ("tensorflow", lambda x: tf.math.log(1 + tf.nn.relu(x)), [-1.0, 2.0]),
        ("tensorflow", lambda x: tf.reduce_sum(tf.clip_by_value(x, 1e-7, 1.0)), [1e-9, 3.0]),
    ],
)
def test_choices_in_other_frameworks(engine, layer, value) -> None:
    assert by(engine, layer, value) == []
