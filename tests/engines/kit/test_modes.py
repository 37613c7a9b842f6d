"""Every mode of every engine against closed forms, and the engines against each other."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import SECOND, Projection, TraceRequest
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.kit.modes import Still, compiled_once

X = np.array([0.3, -1.2, 2.1])
Y = np.array([1.7, 0.4, -0.6])
M = np.array([[0.2, -0.7, 1.1], [0.9, 0.3, -0.4]])
V = np.array([1.3, -0.2])


@pytest.mark.parametrize(("slope", "calls"), [(1.0, 1), (np.inf, 2)])
def test_what_does_not_move_has_a_tangent_of_zeros_in_what_is_compiled(
    slope: float, calls: int
) -> None:
    """Unless these meet infinity."""
    fw: Any = SimpleNamespace(compiles=True, array=np.asarray, numpy=np.asarray)
    tangents: list[Any] = []

    def passes(still: Still) -> list[list[Any]]:
        tangents.append(still(X))
        with np.errstate(invalid="ignore"):
            return [[Y if tangents[-1] is None else Y + slope * tangents[-1]]]

    ((found,),) = compiled_once(fw, passes)
    np.testing.assert_array_equal(found, Y)
    assert [one is None for one in tangents] == [False, True][:calls]


# formula, inputs, and for every input the Jacobian, worked out by hand
CLOSED: list[tuple[str, dict[str, Any], dict[str, np.ndarray]]] = [
    ("x ** 2", {"x": 3.0}, {"x": np.array([[6.0]])}),
    ("1 / exp(x)", {"x": 2.0}, {"x": np.array([[-np.exp(-2.0)]])}),
    ("sum(x * y)", {"x": X, "y": Y}, {"x": Y[None], "y": X[None]}),
    ("sin(x)", {"x": X}, {"x": np.diag(np.cos(X))}),
    ("x[::-1]", {"x": X}, {"x": np.eye(3)[::-1]}),
    ("x[-1]", {"x": X}, {"x": np.eye(3)[-1:]}),
    ("m @ x", {"m": M, "x": X}, {"m": np.kron(np.eye(2), X[None]), "x": M}),
    ("v @ m", {"m": M, "v": V}, {"m": np.kron(V[None], np.eye(3)), "v": M.T}),
    ("x @ y", {"x": X, "y": Y}, {"x": Y[None], "y": X[None]}),
    ("mean(x)", {"x": X}, {"x": np.full((1, 3), 1 / 3)}),
    ("where(x > 0, x, 2 * x)", {"x": X}, {"x": np.diag([1.0, 2.0, 1.0])}),
    ("maximum(x, y)", {"x": X, "y": Y}, {"x": np.diag([0.0, 0, 1]), "y": np.diag([1.0, 1, 0])}),
    ("stop_gradient(x) * x", {"x": X}, {"x": np.diag(X)}),
    ("clip(x, min=0)", {"x": X}, {"x": np.diag([1.0, 0, 1])}),
    ("concatenate([x, y])", {"x": X, "y": Y}, {"x": np.eye(6)[:, :3], "y": np.eye(6)[:, 3:]}),
    ("x", {"x": X}, {"x": np.eye(3)}),
]

# every operation of the language, for the agreement of the engines
FORMULAS = [
    "exp(x) + expm1(x) * log1p(x * x)",
    "log(x * x + 1) / sqrt(x * x + 2)",
    "sin(x) * cos(y) - tan(x / 2)",
    "tanh(x) + sigmoid(y) * softplus(x)",
    "erf(x) * abs(y) + relu(x)",
    "minimum(x, y) + maximum(x, 0.5) + square(x)",
    "clip(x, -1, 1) * clip(y, max=1)",
    "where((x > 0) & ~(y > 0) | (x == y), x * y, -x)",
    "where(x != y, x, y) ** 2 + where(x <= y, x, y) * where(x >= y, 1, x) * where(x < y, x, 3)",
    "norm(m, axis=1) * norm(m) * norm(m, axis=(0, 1), keepdims=True)[0]",
    "sum(m, axis=0) * x + sum(m, axis=(0, 1), keepdims=True)[0]",
    "mean(m, axis=1, keepdims=True) @ x[None]",
    "prod(m, axis=0) * prod(m) + prod(x, keepdims=True)",
    "max(m, axis=0) + min(m, axis=0) * max(x) - min(m)",
    "softmax(m) * log_softmax(m, axis=0)",
    "logsumexp(m) * logsumexp(x) + logsumexp(m, axis=0, keepdims=True)[0, :2]",
    "transpose(m) @ m + reshape(m, (3, 2)) @ m",
    "broadcast_to(x, (2, 3)) * m",
    "squeeze(expand_dims(x, axis=(0, -1))) * x",
    "stack([x, y], axis=1)[1:, 0] * stack([x, y])[0, ::2]",
    "concatenate([m, m * 2], axis=1)[:, -1:1:-2] ** 2",
    "m[..., 1] * m[0, None, 2]",
    "2.0 ** x * (x * x + 0.1) ** y",
    "(x + n) * n + where(n > 2, x, n)",
]


def _used(text: str) -> dict[str, Any]:
    values = {"x": X, "y": Y, "m": M, "n": np.array([1, 2, 3])}
    return {name: value for name, value in values.items() if name in _names(text)}


def _names(text: str) -> set[str]:
    return set("".join(c if c.isidentifier() else " " for c in text).split())


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize(("text", "inputs", "jacobians"), CLOSED, ids=[row[0] for row in CLOSED])
def test_first_derivatives_are_the_closed_forms(
    engine: Engine,
    ask: Callable[..., Any],
    text: str,
    inputs: dict[str, Any],
    jacobians: dict[str, np.ndarray],
    mode: str,
) -> None:
    answer = ask(engine, text, mode=mode, **inputs)
    assert answer.failure is None
    for name, jacobian in jacobians.items():
        assert answer.gradients[name].dtype == "float64"
        # a handful of float64 roundings
        np.testing.assert_allclose(answer.gradients[name].values, jacobian, rtol=1e-14)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize("text", FORMULAS)
def test_engines_agree(
    engine_called: Callable[[str], Engine], ask: Callable[..., Any], text: str, mode: str
) -> None:
    inputs = _used(text)
    answers = [
        ask(engine_called(name), text, mode=mode, **inputs)
        for name in ("reference", "torch", "tensorflow")
    ]
    for answer in answers:
        assert answer.failure is None
        np.testing.assert_allclose(answer.output, answers[0].output, rtol=1e-13)
        for name, gradient in answers[0].gradients.items():
            # well-conditioned formulas of about ten operations, each with an error of a few ulps
            np.testing.assert_allclose(
                answer.gradients[name].values, gradient.values, rtol=1e-12, atol=1e-13
            )


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", SECOND)
@pytest.mark.parametrize(
    "text",
    [
        "sum(exp(x) * sin(y))",
        "sum(tanh(x) * softplus(y)) + logsumexp(x)",
        "sum(softmax(m) * log_softmax(m)) * norm(m)",
        "sum((transpose(m) @ m) ** 2)",
        "prod(x) + sum(sigmoid(x) / (1 + y * y))",
    ],
)
def test_engines_agree_in_second_order(
    engine_called: Callable[[str], Engine], ask: Callable[..., Any], text: str, mode: str
) -> None:
    inputs = _used(text)
    answers = [
        ask(engine_called(name), text, mode=mode, **inputs)
        for name in ("reference", "torch", "tensorflow")
    ]
    for answer in answers:
        assert answer.failure is None
        for name, block in answers[0].gradients.items():
            got = answer.gradients[name].values
            if got is None:  # no second derivative at all is how a framework says zero
                got = np.zeros_like(block.values)
            wanted = np.zeros_like(got) if block.values is None else block.values
            np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_dtype_is_kept_from_constant_to_gradient(
    engine: Engine, ask: Callable[..., Any], mode: str, dtype: str
) -> None:
    answer = ask(engine, "sum(0.1 * x / (1 + exp(x)) ** 2)", mode=mode, dtype=dtype, x=X)
    assert answer.failure is None
    assert answer.gradients["x"].dtype == dtype
    exact = ask(engine, "sum(0.1 * x / (1 + exp(x)) ** 2)", mode=mode, x=X)
    bits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[dtype]
    # ten operations, condition number below ten
    np.testing.assert_allclose(
        answer.gradients["x"].values, exact.gradients["x"].values, rtol=100 * 2.0**-bits
    )


def test_result_is_a_number_of_the_dtype(engine: Engine, ask: Callable[..., Any]) -> None:
    answer = ask(engine, "x * 0.1", dtype="float32", x=0.7)
    assert np.float64(np.float32(answer.output)) == answer.output
    assert answer.output == np.float32(0.7) * np.float32(0.1)


def test_given_rows_are_combinations_of_the_jacobian(
    engine: Engine, ask: Callable[..., Any]
) -> None:
    rows = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])
    answer = ask(engine, "sin(x)", projection=Projection(rows=rows), x=X)
    np.testing.assert_allclose(answer.gradients["x"].values, rows * np.cos(X), rtol=1e-14)
    assert answer.backward == 2


def test_given_columns_are_combinations_of_the_jacobian(
    engine: Engine, ask: Callable[..., Any]
) -> None:
    columns = {"x": np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])}
    projection = Projection(columns=columns)
    answer = ask(engine, "sin(x)", mode="forward", projection=projection, x=X)
    wanted = (columns["x"] * np.cos(X)).T
    np.testing.assert_allclose(answer.gradients["x"].values, wanted, rtol=1e-14)
    assert answer.forward == 2


def test_no_path_to_an_input_is_none_not_zero(engine: Engine, ask: Callable[..., Any]) -> None:
    answer = ask(engine, "stop_gradient(y) * x", x=2.0, y=3.0)
    assert answer.gradients["y"].values is None
    assert answer.gradients["x"].values.tolist() == [[3.0]]


def test_integer_inputs_stay_integers(engine: Engine, ask: Callable[..., Any]) -> None:
    answer = ask(engine, "sum(where(n > 1, x * n, x / n))", x=X, n=np.array([1, 2, 3]))
    assert answer.gradients["x"].values.tolist() == [[1.0, 2.0, 3.0]]
    # 2^53 + 1 is an integer, but no float64
    big = ask(engine, "where(n == 9007199254740993, x, -x)", x=1.0, n=np.array(9007199254740992))
    assert big.output == -1.0


def test_reverse_trace_has_the_cotangent_of_every_node(
    engine: Engine, ask: Callable[..., Any], program: Callable[..., Any]
) -> None:
    text = "1 / exp(x)"
    answer = ask(engine, text, dtype="float32", trace=TraceRequest(), x=100.0)
    nodes = {node.op: i for i, node in enumerate(program(text, {"x": np.array(1.0)}).nodes)}
    trace = answer.trace
    assert trace.values[nodes["exp"]] == np.inf
    assert trace.values[nodes["divide"]] == 0
    assert trace.values[nodes["constant"]] == 1
    assert trace.derivatives[nodes["divide"]] == 1
    assert trace.derivatives[nodes["exp"]] == 0  # -(1/inf)/inf; times inf gives the nan
    assert np.isnan(trace.derivatives[nodes["input"]])


def test_forward_trace_has_the_tangent_of_every_node(
    engine: Engine, ask: Callable[..., Any], program: Callable[..., Any]
) -> None:
    request = TraceRequest(input="y", column=1)
    answer = ask(engine, "exp(x) * sin(y)", mode="forward", trace=request, x=X, y=Y)
    nodes = {n.op: i for i, n in enumerate(program("exp(x) * sin(y)", {"x": X, "y": Y}).nodes)}
    np.testing.assert_allclose(
        answer.trace.derivatives[nodes["sin"]], [0, np.cos(Y[1]), 0], rtol=1e-15
    )
    np.testing.assert_allclose(answer.trace.values[nodes["exp"]], np.exp(X), rtol=1e-15)
    assert np.all(answer.trace.derivatives.get(nodes["exp"], np.zeros(3)) == 0)


def test_asked_row_is_the_one_traced(engine: Engine, ask: Callable[..., Any]) -> None:
    answer = ask(engine, "sin(x)", trace=TraceRequest(row=2), x=X)
    cotangents = [value for value in answer.trace.derivatives.values() if value.shape == (3,)]
    assert any(np.array_equal(cotangent, [0.0, 0.0, 1.0]) for cotangent in cotangents)


def test_passes_are_counted(engine: Engine, ask: Callable[..., Any]) -> None:
    reverse = ask(engine, "sin(x)", x=X)
    assert (reverse.forward, reverse.backward) == (1, 3)
    forward = ask(engine, "sum(x * y)", mode="forward", x=X, y=Y)
    assert (forward.forward, forward.backward) == (6, 0)
    assert forward.duration_s > 0
