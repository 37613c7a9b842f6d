"""A fix as Python: it runs, and has the right gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import Problem
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.program import Program
from gradcheck_cli.explain.algebra.expressions import ExprPool
from gradcheck_cli.explain.fixes.code import code_of
from gradcheck_cli.explain.fixes.custom_gradients import stable
from tests.conftest import array, loaded, program_of

FORMULAS: list[tuple[str, dict[str, Any]]] = [
    ("exp(-x)", {"x": 100.0}),
    ("a + log1mexp(a - b)", {"a": 100.0, "b": 99.0}),
    ("where(x > 0, sqrt(where(x > 0, x, 1)), 0)", {"x": [0.0, 2.0]}),
    ("logsumexp(x, axis=None)", {"x": [100.0, 101.0]}),
    ("sum(w * softmax(x))", {"x": [100.0, 101.0], "w": [1.0, 2.0]}),
    ("log_softmax(x)[0]", {"x": [100.0, 101.0]}),
    ("hypot(a, b) + logaddexp(a, b)", {"a": 3.0, "b": 4.0}),
    ("mean((x - mean(x, axis=-1, keepdims=True)) ** 2)", {"x": [[1.0, 2.0], [3.0, 5.0]]}),
    ("t = stop_gradient(max(abs(x)))\nt * norm(x / t)", {"x": [3.0, 4.0]}),
    ("norm(x, ord=inf, axis=-1)", {"x": [3.0, 4.0]}),
    ("bce_with_logits(z, y)", {"z": [3.0, -4.0], "y": [1.0, 0.5]}),
    ("-softplus(x) + log_sigmoid(x) * erfc(x) + lgamma(x)", {"x": 2.0}),
    ("logsumexp(concatenate([x[:1], x[2:]]))", {"x": [3.0, 4.0, 5.0]}),
    ("sum(logsumexp(x) ** 2 + x[1] * slogdet(x)[1])", {"x": [[1.0, 2.0], [3.0, 0.5]]}),
    ("sum(hardtanh(x) * x)", {"x": [3.0, 0.5, -0.5]}),
    ("where(1, x, 0) * (x > 0) + where(x, x ** 2, 0)", {"x": [3.0, 0.0, -0.5]}),
    ("maximum(x > 0, x) * sum(x > 0) + mean(x > 1) * x", {"x": [3.0, 0.5, -0.5]}),
    ("where(x > 0, 2, 3) * x + logical_or(x, x > 1) * x", {"x": [3.0, 0.5, -0.5]}),
    ("minimum(x, 2) ** 2 / (reshape(x, (1, 2)) @ reshape(x, (2, 1)))", {"x": [3.0, 1.0]}),
]


def gradients(framework: str, source: str, values: dict[str, Any]) -> list[np.ndarray]:
    """Runs the source, and differentiates the sum of what `f` gives."""
    names: dict[str, Any] = {}
    exec(source, names)
    if framework == "torch":
        import torch

        xs = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values.values()]
        return [g.numpy() for g in torch.autograd.grad(names["f"](*xs).sum(), xs)]
    if framework == "jax":
        import jax

        arrays = [array(v) for v in values.values()]
        with jax.enable_x64():
            found = jax.grad(lambda *xs: names["f"](*xs).sum(), range(len(arrays)))(*arrays)
        return [np.asarray(g) for g in found]
    import tensorflow as tf

    xs = [tf.Variable(np.asarray(v, np.float64)) for v in values.values()]
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(names["f"](*xs))
    return [np.asarray(g) for g in tape.gradient(y, xs)]


def expected(program: Program, values: dict[str, Any]) -> list[np.ndarray]:
    arrays = {name: array(value) for name, value in values.items()}
    output = program.result.shape
    answer = loaded("reference").evaluate(
        Problem(program, arrays, tuple(values), "float64", "float64", "reverse")
    )
    rows = int(np.prod(output))
    return [
        np.asarray(answer.gradients[name].values).reshape(rows, -1).sum(0).reshape(np.shape(value))
        for name, value in values.items()
    ]


@pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax"])
@pytest.mark.parametrize(("formula", "values"), FORMULAS, ids=lambda part: str(part)[:24])
def test_the_code_runs_and_has_the_gradient_of_the_formula(
    framework: str, formula: str, values: dict[str, Any]
) -> None:
    program = program_of(formula, values)
    found = gradients(framework, code_of(program)[framework], values)
    for got, wanted in zip(found, expected(program, values), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax"])
@pytest.mark.parametrize(
    ("formula", "values"),
    [("3 * tanh(x)", {"x": 20.0}), ("atan2(a, b)", {"a": 1e-200, "b": 1e-200})],
)
def test_a_stated_derivative_is_used_in_place_of_the_frameworks_own(
    framework: str, formula: str, values: dict[str, Any]
) -> None:
    program = program_of(formula, values)
    forest = ExprPool(program)
    op = next(e for e in forest.of_node if e.op in ("tanh", "atan2"))
    root = forest.replaced(forest.output, op, stable(forest, op))
    source = code_of(forest.to_program(root, Span(1, 1, 1, 1)))[framework]
    for got, wanted in zip(
        gradients(framework, source, values), expected(program, values), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_a_framework_without_words_for_an_operation_has_no_code() -> None:
    assert set(code_of(program_of("log_ndtr(x)", {"x": -8.0}))) == {"torch", "jax"}


def test_defaults_that_a_framework_has_otherwise_are_stated() -> None:
    code = code_of(program_of("sum(gelu(x))", {"x": [0.5, 2.0]}))
    assert "jax.nn.gelu(x, approximate=False)" in code["jax"]
    assert "jnp.sum(" in code["jax"]
