"""Exceptions of frameworks have the sentence that says what to write instead."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch._inductor.exc import InductorError, InvalidCxxCompiler

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.base import COMPILER
from gradcheck_cli.engines.layer.loading import load_layer
from gradcheck_cli.explain.remedies import lacking, remedy_of


@pytest.mark.parametrize(
    ("layer", "word"),
    [
        (lambda x: jnp.sin(np.asarray(x)), "jax.numpy"),
        (np.sin, "jax.numpy"),
        (lambda x: x * float(x), "jax.numpy"),
        (jax.jit(lambda x: x if x > 0 else -x), "jax.lax.cond"),
    ],
)
def test_numbers_of_a_tracer(layer: Callable[..., jax.Array], word: str) -> None:
    with pytest.raises(TypeError) as raised:
        jax.grad(layer)(1.0)
    assert word in remedy_of(raised.value)


def test_an_exception_of_the_layer_itself_has_none() -> None:
    assert remedy_of(ValueError("probabilities are at most 1")) == ""
    assert remedy_of(LookupError("no such row")) == ""
    assert "tf.custom_gradient" in remedy_of(LookupError("gradient registry has no entry for: Foo"))


def test_a_file_of_a_package_is_named_as_a_module(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text("from . import other\n")
    target = Implementation("torch", "part.py:layer", str(tmp_path), Span(1, 1, 1, 2))
    with pytest.raises(ImportError) as raised:
        load_layer(target)
    assert "package.module:layer" in remedy_of(raised.value)


def test_a_compiler_that_a_layer_needs_and_that_is_missing_is_no_fault_of_the_layer() -> None:
    missing = lacking(InductorError(InvalidCxxCompiler("c++-99"), None))
    assert missing is not None
    assert (str(missing), missing.detail) == (
        "its torch.compile needs a C++ compiler, but there is none",
        COMPILER.install,
    )
    assert lacking(InductorError(ValueError("a mistake in the layer"), None)) is None


def test_an_empty_name_of_the_compiler_is_no_fault_of_the_layer() -> None:
    """Inductor tries to run it, where make and gradcheck take it for none."""
    with pytest.raises(PermissionError) as raised:
        subprocess.run([""], check=False)
    missing = lacking(InductorError(raised.value, None))
    assert missing is not None
    assert "$CXX is empty" in str(missing)
    assert COMPILER.install in missing.detail


def test_numpy_inside_a_layer_of_pytorch() -> None:
    with pytest.raises(RuntimeError) as raised:
        np.sin(torch.ones(2, requires_grad=True))
    assert "engine `numpy`" in remedy_of(raised.value)


@pytest.mark.parametrize("keep", ["an attribute", "a dictionary", "a list"])
def test_an_array_that_a_layer_keeps_for_its_next_call(keep: str) -> None:
    kept: dict[int, jax.Array] = {}
    several = [jnp.zeros(())]

    def layer(x: jax.Array) -> jax.Array:
        before = several[-1] if keep == "a list" else kept.get(0, getattr(layer, "last", 0.0))
        if keep == "an attribute":
            layer.last = jnp.sum(x)  # type: ignore[attr-defined]
        elif keep == "a dictionary":
            kept[0] = jnp.sum(x)
        else:
            several.append(jnp.sum(x))
        return jnp.sum(jnp.sin(x) * before)

    jax.grad(layer)(jnp.ones(2))
    with pytest.raises(jax.errors.UnexpectedTracerError) as raised:
        layer(jnp.ones(2))
    assert "pass it to the next call" in remedy_of(raised.value)
