"""Layers of the other frameworks are judged by the certified derivative of their forward, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
from jax.extend import core
from jax.interpreters import ad, mlir

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.jax.engine import JaxEngine
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from gradcheck_cli.truth.plain import PlainFunction
from tests.checks.making import layer_problem, subject_of

X = np.array([0.3, -1.2, 0.7])
FROM_THE_TRACE = "certified, from the trace"


def examined(engine: Engine, layer: Any) -> LayerAnswer:
    engine.load()
    name = engine.capabilities.name
    return examine(engine, layer_problem(layer, {"x": X}, modes=("reverse",), engine=name))


def of_numpy(off: float) -> Any:
    def backward(up: Any, x: Any) -> Any:
        return up * (off - np.exp(-x))

    return SimpleNamespace(forward=lambda x: np.exp(-x), backward=backward)


def of_jax(off: float) -> Any:
    @jax.custom_vjp
    def layer(x: Any) -> Any:
        return jnp.exp(-x)

    layer.defvjp(lambda x: (layer(x), x), lambda x, up: (up * (off - jnp.exp(-x)),))
    return layer


def of_tensorflow(off: float) -> Any:
    @tf.custom_gradient
    def layer(x: Any) -> Any:
        return tf.exp(-x), lambda up: up * (tf.cast(off, x.dtype) - tf.exp(-x))

    return layer


LAYERS = [
    pytest.param(TensorFlowEngine(), of_tensorflow, id="tensorflow"),
    pytest.param(NumpyEngine(), of_numpy, id="numpy"),
    pytest.param(JaxEngine(), of_jax, id="jax"),
]


@pytest.mark.parametrize(("engine", "layer"), LAYERS)
def test_a_right_layer_is_certified(engine: Engine, layer: Any) -> None:
    answer = examined(engine, layer(0.0))
    assert not answer.findings
    assert {check.truth for check in answer.checks} == {FROM_THE_TRACE}


@pytest.mark.parametrize(("engine", "layer"), LAYERS)
def test_a_backward_that_is_wrong_beside_its_forward_is_wrong(engine: Engine, layer: Any) -> None:
    findings = examined(engine, layer(1e-7)).findings
    assert {finding.code for finding in findings} == {"GC101"}
    assert {finding.truth_source for finding in findings} == {FROM_THE_TRACE}


def test_a_softmax_of_jax_begins_its_maximum_nowhere() -> None:
    lifted = subject_of(JaxEngine(), jax.nn.softmax, x=np.array([0.3, -1.0])).lift()
    ops = [node.op for node in lifted.program.nodes]
    assert "maximum" not in ops
    assert not lifted.constants


@pytest.mark.parametrize(
    ("engine", "layer", "at"),
    [
        pytest.param(TensorFlowEngine(), tf.nn.elu, -1e-300, id="exp(x) - 1"),
        pytest.param(JaxEngine(), jax.nn.sigmoid, -709.0, id="a subnormal number"),
    ],
)
def test_an_operation_that_loses_its_digits_is_what_its_rows_compute(
    engine: Engine, layer: Any, at: float
) -> None:
    engine.load()
    x = np.array([at])
    subject = subject_of(engine, layer, x=x)
    program = subject.lift().without_islands().program
    assert subject.value({})[0] == 0 != PlainFunction(program, "float64")({"x": x})[0]


def _solved(a: Any, b: Any) -> Any:
    return jnp.linalg.solve(a, b)


def _looked(a: Any, b: Any) -> Any:
    return jnp.linalg.solve(a if float(a[0, 0]) > 0 else -a, b)  # only numbers can be asked


def _of_package(impl: Any) -> Any:
    """A primitive as packages define some: run, and compiled, by code that is written in JAX."""
    solve = core.Primitive("solve_of_a_package")
    solve.def_impl(impl)
    solve.def_abstract_eval(lambda a, b: b)
    mlir.register_lowering(solve, mlir.lower_fun(_solved, multiple_results=False))

    def jvp(primals: Any, tangents: Any) -> Any:
        (a, b), (a_dot, b_dot) = primals, map(ad.instantiate_zeros, tangents)
        y = solve.bind(a, b)
        return y, solve.bind(a, b_dot - a_dot @ y)

    ad.primitive_jvps[solve] = jvp
    ad.primitive_transposes[solve] = lambda y_bar, a, b: (None, jnp.linalg.solve(a.T, y_bar))
    return solve.bind


@pytest.mark.parametrize("impl", [_solved, _looked])
def test_a_primitive_of_a_package_is_what_it_runs(impl: Any) -> None:
    """Unless it runs something for these numbers alone: then it is differenced."""
    inputs = {"a": np.array([[2.0, 0.3], [0.2, 1.5]]), "b": np.array([1.0, 2.0])}
    subject = subject_of(JaxEngine(), _of_package(impl), **inputs)
    islands = [island.name for island in subject.lift().islands]
    assert islands == ([] if impl is _solved else ["solve_of_a_package"])


def _narrowed(x: Any) -> Any:
    """As attention of JAX does, whatever it is given."""
    return jax.nn.softmax((2 * x).astype(jnp.float32)).astype(x.dtype) * x


def test_a_layer_of_jax_without_its_casts_is_lifted_without_them() -> None:
    answer = examined(JaxEngine(), _narrowed)
    assert not answer.findings
    assert {check.truth for check in answer.checks} == {FROM_THE_TRACE}
