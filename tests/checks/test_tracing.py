"""Operations of every kind, inside a layer that is to be explained: its run is written down, done
again in more digits, and searched, and none of that raises."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch
from jax import lax

from gradcheck_cli.checks.causes.blame import Blame
from gradcheck_cli.checks.causes.traced_entry import TracedEntry
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.report import Entry, Finding
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.jax.engine import JaxEngine
from gradcheck_cli.engines.layer.custom import CustomCall
from gradcheck_cli.engines.layer.subject import Call, Subject, SubjectRequest
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from tests.checks.making import SPAN, torch_engine

VECTOR = np.array([0.5, -1.25, 0.25, 2.0])
SQUARE = np.array([[1.0, 0.25, -0.25], [0.5, 2.0, 0.5], [0.125, -0.5, 1.75]])


@cache
def engine(made: Callable[[], Engine]) -> Engine:
    found = made()
    found.load()
    return found


def unexplained(made: Engine, layer: Callable[[Any], Any], x: np.ndarray) -> list[str]:
    """What kept the search from an end: for the first entry of a gradient, and for the output, each
    said to be off a little."""
    name = made.capabilities.name
    implementation = Implementation(name, "layer", "", SPAN, live=layer)
    subject = made.subject(SubjectRequest(implementation, {"x": x}, "float32", "float32"))
    row = np.ones(sum(output.size for output in subject.outputs))
    gradient = subject.run(Call(cotangents=row[None])).gradients["x"]
    assert gradient is not None
    seen = float(gradient[0][0])
    entry = Entry((0,), seen, seen * 1.001 + 1e-5, None, None, None, None)
    finding = Finding("GC301", "error", "", SPAN, mode="reverse", input="x", entries=(entry,))
    blame = Blame(subject, subject, "float32", lambda _: TracedEntry(row, "x", 0), in_forward_mode)
    blame.explained([finding, Finding("GC303", "warning", "", SPAN, mode="reverse")])
    return [*blame.notes, *blame.faults]


def in_forward_mode(call: CustomCall) -> Subject:
    raise AssertionError(f"{call.name} is bound for tangents, but reverse mode is blamed")


JAX: dict[str, Callable[[Any], Any]] = {
    "scatter": lambda x: x.at[jnp.array([0, 0])].add(x[:2] ** 2),
    "gather with a fill": lambda x: jnp.take(x, jnp.array([0, 7]), mode="fill"),
    "sort": jnp.sort,
    "booleans": lambda x: jnp.where(jnp.any(x > 0) & ~jnp.isnan(x), jnp.log(jnp.abs(x)), x),
    "select of several": lambda x: lax.select_n(jnp.array([0, 1, 2, 0]), x, x * 2, x * 3),
    "cumulative product": jnp.cumprod,
    "outer product": lambda x: jnp.kron(x, x),
    "sum along an axis": lambda x: jnp.einsum("i,j->j", x, x),
    "scan": lambda x: lax.scan(lambda c, a: (c * a, c + a), x[0], x)[1],
    "scan without a turn": lambda x: lax.scan(lambda c, a: (c * a, c + a), x[0], x[:0])[0],
    "loop over a batch": lambda x: jax.scipy.special.expi(jnp.abs(x)),
    "random numbers": lambda x: jax.random.gamma(jax.random.key(0), jnp.abs(x)),
    "bits of numbers": lambda x: jnp.frexp(x)[0],
    "polygamma": lambda x: jax.scipy.special.polygamma(1, jnp.abs(x)),
}
MATRICES: dict[str, Callable[[Any], Any]] = {
    "eigenvalues": lambda x: jnp.linalg.eigvalsh(x @ x.T),
    "triangle": jnp.tril,
    "inverse": jnp.linalg.inv,
    "lu": lambda x: jax.scipy.linalg.lu_factor(x)[0],
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [*JAX, *MATRICES])
def test_operations_of_jax(name: str) -> None:
    layer, x = (JAX[name], VECTOR) if name in JAX else (MATRICES[name], SQUARE)
    assert unexplained(engine(JaxEngine), layer, x) == []


def test_complex_numbers_are_traced() -> None:
    assert unexplained(engine(JaxEngine), lambda x: jnp.abs(jnp.fft.fft(x)), VECTOR) == []
    assert unexplained(torch_engine(), lambda x: torch.fft.fft(x).abs(), VECTOR) == []


def written_to(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[y > 0] = 0.5 * y[y > 0]
    return y.view(2, 2).t().reshape(-1)[1:]


@pytest.mark.parametrize(
    "layer",
    [
        written_to,
        lambda x: x.view(torch.int32).to(x.dtype) * x,
        lambda x: x * (x > 0).any() * torch.isfinite(x).all(),
        lambda x: torch.distributions.transforms.CorrCholeskyTransform()(x[:3]),
        lambda x: torch.cat(x.split([1, 3])[::-1]),
    ],
)
def test_operations_of_pytorch(layer: Callable[[Any], Any]) -> None:
    assert unexplained(torch_engine(), layer, VECTOR) == []


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: tf.where(tf.reduce_any(x > 0) & tf.math.is_finite(x), x, -x),
        lambda x: x * tf.cast(tf.bitcast(x, tf.int32) > 0, x.dtype),
        lambda x: tf.stack(tf.unstack(x)[::-1]),
        lambda x: tf.math.cumprod(tf.boolean_mask(x, x > 0)),
    ],
)
def test_operations_of_tensorflow(layer: Callable[[Any], Any]) -> None:
    assert unexplained(engine(TensorFlowEngine), layer, VECTOR) == []
