"""Programs of JAX layers that hold for all inputs; and layers of which none is given."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.engines.jax.layer import JaxSubject
from gradcheck_cli.engines.jax.layer_program import _is_jaxs_object
from gradcheck_cli.engines.jax.recorder import JAX_FOLDER
from gradcheck_cli.engines.layer.lifting import FEWER_DIGITS
from gradcheck_cli.engines.layer.subject import Call, SubjectRequest
from gradcheck_cli.search.enclosures.enclosed import Rounding
from gradcheck_cli.search.enclosures.enclosing import BoxProgram
from gradcheck_cli.search.enclosures.faithful import unfaithful

START = np.array([1.0, 2.0, 0.5])
CORNERS = [{"x": np.full(3, -5.0)}, {"x": np.full(3, 5.0)}]


@contextmanager
def bound(function: Any, dtype: str) -> Iterator[JaxSubject]:
    implementation = Implementation("jax", "layer", "", Span(1, 1, 1, 2), live=function)
    request = SubjectRequest(implementation, {"x": START}, dtype, "float32")
    subject = JaxSubject(request, compiled=False)
    try:
        yield subject
    finally:
        subject.close()


def program_of(function: Any) -> GradientProgram:
    with bound(function, "float64") as wide, bound(function, "float32") as narrow:
        return wide.gradient_program(narrow, ["x"], CORNERS)


def _scan(x: Any) -> Any:
    y, _ = lax.scan(lambda c, _: (jnp.tanh(c * x + 0.1), None), jnp.zeros_like(x), None, length=3)
    return jnp.sum(y)


def _layer_norm(x: Any) -> Any:
    scaled = (x - jnp.mean(x)) * lax.rsqrt(jnp.var(x) + 1e-5)
    return jnp.sum(scaled * jnp.arange(3.0))


WHOLE: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: -jnp.sum(jax.nn.log_softmax(x) * jnp.array([0.2, 0.3, 0.5])),
    "gelu": lambda x: jnp.sum(jax.nn.gelu(x)),
    "relu": lambda x: jnp.sum(jax.nn.relu(x) ** 2),
    "where": lambda x: jnp.sum(jnp.where(x > 0, jnp.exp(-x), x)),
    "scan": _scan,
    "layer norm": _layer_norm,
    "vmap": lambda x: jnp.sum(jax.vmap(lambda y: jnp.sin(y) * y)(x)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_a_layer_computes_elsewhere_is_within_the_bounds_of_its_program(name: str) -> None:
    function, found = WHOLE[name], program_of(WHOLE[name])
    assert not found.reason
    assert found.program is not None
    assert not unfaithful(found.program, "jax")
    fmt = FORMATS["float32"]
    boxes = BoxProgram(found.program, found.constants, fmt, Rounding.of(fmt, True, True))
    points = np.random.default_rng(0).uniform(-5, 5, (16, 3)).astype(np.float32).astype(np.float64)
    enclosed = boxes({"x": points}, {"x": points}, len(points))
    with bound(function, "float32") as subject:
        for row, point in enumerate(points):
            run = subject.run(Call(values={"x": point}, cotangents=np.ones((1, 1))))
            for one, numbers in zip(enclosed, (run.output, run.gradients["x"]), strict=True):
                assert one is not None
                part = one.map(lambda x, row=row: x[row].reshape(-1))
                off = np.abs(np.ravel(numbers) - np.clip(np.ravel(numbers), part.lo, part.hi))
                assert np.all(part.bad | (off <= part.error))


def _caught(x: Any) -> Any:
    with suppress(Exception):
        if x[0] > 1.2345:
            return jnp.sum(x * 2)
    return jnp.sum(x)


def _as_text(x: Any) -> Any:
    return jnp.sum(x) * (2.0 if "1.2345" in str(x) else 1.0)


def _as_array(x: Any) -> Any:
    with suppress(Exception):
        return jnp.sum(x) * np.asarray(x)[0]
    return jnp.sum(x)


def _knows_numbers(x: Any) -> Any:
    return jnp.sum(x * 2) if jax.core.is_concrete(x) else jnp.sum(x)


_other = jax.custom_jvp(jnp.sin)
_other.defjvp(lambda xs, ts: (jnp.sin(xs[0]), 2 * ts[0]))


@jax.custom_vjp
def _stated(x: Any) -> Any:
    return jnp.sum(x**2)


_stated.defvjp(lambda x: (_stated(x), x), lambda x, g: (g * x,))
_gradient = jax.custom_gradient(lambda x: (jnp.sum(x), lambda g: (g * jnp.ones(3),)))

REFUSED = {
    "a branch": (lambda x: jnp.sum(x) if x[0] > 0 else jnp.sum(2 * x), "without numbers"),
    "a caught branch": (_caught, "without numbers"),
    "an array of NumPy": (_as_array, "without numbers"),
    "the text of an array": (_as_text, "without numbers"),
    "whether there are numbers": (_knows_numbers, "other inputs"),
    "a custom vjp": (_stated, "JAX's own"),
    "a custom gradient": (_gradient, "JAX's own"),
    "another derivative of a function of JAX": (lambda x: jnp.sum(_other(x)), "JAX's own"),
    "a stopped gradient": (lambda x: jnp.sum(x * lax.stop_gradient(x)), "stop_gradient"),
    "its own jit": (lambda x: jnp.sum(jax.jit(lambda y: y * y)(x)), "compiled"),
    "a loop of unknown length": (
        lambda x: lax.while_loop(lambda y: y < 10, lambda y: 2 * y, jnp.abs(jnp.sum(x)) + 1),
        "loop",
    ),
    "a cast": (lambda x: jnp.sum(x.astype(jnp.float16).astype(x.dtype)), "float16"),
    "two outputs": (lambda x: (jnp.sum(x), x[0]), "several outputs"),
}


@pytest.mark.parametrize("does", REFUSED)
def test_a_layer_whose_runs_or_derivatives_may_differ_has_no_program(does: str) -> None:
    function, words = REFUSED[does]
    found = program_of(function)
    assert found.program is None
    assert words in found.reason


def test_flags_of_xla_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    assert "fast_math" in program_of(jnp.sum).reason


@pytest.mark.parametrize("variable", FEWER_DIGITS)
def test_variables_that_round_products_are_refused(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "strict")
    assert not program_of(jnp.sum).reason
    monkeypatch.setenv(variable, "BF16")
    assert variable in program_of(jnp.sum).reason


def test_a_package_whose_name_begins_with_that_of_jax_is_not_jax(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = ModuleType("jaxother")
    module.__file__ = f"{JAX_FOLDER.rstrip(os.sep)}other{os.sep}__init__.py"
    module.half = jax.custom_jvp(lambda x: x / 2)  # type: ignore[attr-defined]
    module.half.__module__ = "jaxother"
    monkeypatch.setitem(sys.modules, "jaxother", module)
    assert not _is_jaxs_object(module.half)
    assert _is_jaxs_object(jax.nn.relu)
