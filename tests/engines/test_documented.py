"""The formulas of documented approximations are what the frameworks compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.engines import FRAMEWORK_OF
from gradcheck_cli.engines.documented import DOCUMENTED
from tests.conftest import truth_of

XS = np.array([-30.0, -2.5, -0.25, 0.0, 0.5, 3.0, 19.5, 20.5, 33.0])
PS, YS = np.array([0.0, 1e-50, 1e-20, 0.25, 1.0]), np.array([0.0, 0.3, 0.6, 1.0, 0.2])
FRAMEWORKS = {"torch": ("softplus", "bce", "gelu"), "tensorflow": ("gelu",), "jax": ("gelu",)}


def _torch(row: str, arrays: list[Any]) -> tuple[Any, list[Any]]:
    import torch
    from torch.nn import functional

    calls: dict[str, Callable[..., Any]] = {
        "softplus": functional.softplus,
        "bce": lambda p, y: functional.binary_cross_entropy(p, y, reduction="sum"),
        "gelu": lambda x: functional.gelu(x, approximate="tanh"),
    }
    xs = [torch.tensor(a, requires_grad=k == 0) for k, a in enumerate(arrays)]
    y = calls[row](*xs).sum()
    return y.item(), [torch.autograd.grad(y, xs[0])[0].numpy()]


def _tensorflow(row: str, arrays: list[Any]) -> tuple[Any, list[Any]]:
    import tensorflow as tf

    x = tf.constant(arrays[0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.nn.gelu(x, approximate=True))
    return y.numpy(), [tape.gradient(y, x).numpy()]


def _jax(row: str, arrays: list[Any]) -> tuple[Any, list[Any]]:
    import jax

    y, slope = jax.value_and_grad(lambda x: jax.nn.gelu(x).sum())(arrays[0].astype(np.float32))
    return float(y), [np.asarray(slope)]


@pytest.mark.parametrize(
    ("engine", "row"), [(e, row) for e, rows in FRAMEWORKS.items() for row in rows]
)
def test_the_formula_is_what_the_framework_computes(engine: str, row: str) -> None:
    arrays = [PS, YS] if row == "bce" else [XS]
    names = ("p", "y") if row == "bce" else ("x",)
    run = {"torch": _torch, "tensorflow": _tensorflow, "jax": _jax}[engine]
    value, (gradient,) = run(row, arrays)
    last = DOCUMENTED[engine][row].formula.splitlines()
    text = "\n".join([*last[:-1], f"sum({last[-1]})"])
    truth = truth_of(text, dict(zip(names, arrays, strict=True)), wrt=names[:1])
    # float32: the constants of gelu in TensorFlow, and JAX by default
    rtol = 1e-13 if engine == "torch" else 1e-4
    block = truth.blocks["reverse", names[0]]
    np.testing.assert_allclose(value, truth.output, rtol=rtol)
    np.testing.assert_allclose(gradient, block.value[0], rtol=rtol, atol=1e-7 * (rtol > 1e-9))


def test_each_one_says_so_and_where() -> None:
    assert set(FRAMEWORK_OF) == set(DOCUMENTED)
    for engine, rows in DOCUMENTED.items():
        assert set(rows) == set(FRAMEWORKS[FRAMEWORK_OF[engine]])
        for one in rows.values():
            assert one.says
            assert one.source.startswith("https://")
