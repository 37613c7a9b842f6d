"""What each engine executes, and what spoils a derivative: proven by doing it exactly."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import SECOND, Evaluation, Projection, TraceRequest, order_of
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.kit.adapter import ProgramEngine

Ask = Callable[..., Evaluation]
HALF = math.sqrt(0.5)
NEAR_9 = 9.010913848876953

# formula, inputs, dtype, the right first entry, and where the culprits are: texts of the formula
EVERYWHERE: list[tuple[str, dict[str, Any], str, float, set[str]]] = [
    ("1 / exp(x)", {"x": 100.0}, "float32", -math.exp(-100), {"exp(x)"}),
    ("1 / exp(x)", {"x": 12.0}, "float16", -math.exp(-12), {"exp(x)"}),
    ("1 / exp(x)", {"x": 100.0}, "bfloat16", -math.exp(-100), {"exp(x)"}),
    ("1 / exp(x)", {"x": 710.0}, "float64", -math.exp(-710), {"exp(x)"}),
    ("log((1 + x) - 1)", {"x": 1e-9}, "float32", 1 / float(np.float32(1e-9)), {"(1 + x) - 1"}),
    ("log(sum(exp(x)))", {"x": [100.0, 101.0]}, "float32", 1 / (1 + math.e), {"exp(x)"}),
    ("log(sum(exp(x)))", {"x": [1e3, 1001.0]}, "float32", 1 / (1 + math.e), {"exp(x)"}),
    ("log(sum(exp(x)))", {"x": [-1e3, -1001.0]}, "float32", math.e / (1 + math.e), {"exp(x)"}),
    ("sqrt(sum(x * x))", {"x": [1e-30, 1e-30]}, "float32", HALF, {"x * x"}),
    ("sqrt(sum(x * x))", {"x": [1e30, 1e30]}, "float32", HALF, {"x * x"}),
    ("log(exp(x) / (1 + exp(x)))", {"x": -200.0}, "float32", 1.0, {"exp(x)"}),
]


def _places(answer: Evaluation, program: Any) -> set[str | None]:
    trace = answer.trace
    assert trace is not None
    nodes = [trace.operations[i].node for i in trace.culprits]
    return {None if node is None else program.nodes[node].text for node in nodes}


@pytest.fixture
def traced(ask: Ask, program: Callable[..., Any]) -> Callable[..., Any]:
    """traced(engine, formula, target, mode=, dtype=, column=, **inputs): the evaluation and the
    texts of the culprits' places."""

    def run(
        engine: Engine,
        text: str,
        target: float,
        /,
        mode: str = "reverse",
        dtype: str = "float32",
        column: int = 0,
        **inputs: Any,
    ) -> tuple[Evaluation, set[str | None]]:
        request = TraceRequest(input=next(iter(inputs)), column=column, target=target)
        answer = ask(engine, text, mode=mode, dtype=dtype, trace=request, **inputs)
        assert answer.failure is None
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        return answer, _places(answer, program(text, arrays))

    return run


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize(("text", "inputs", "dtype", "target", "where"), EVERYWHERE)
def test_culprit_is_found_where_it_is_in_every_engine(
    engine: Engine,
    traced: Callable[..., Any],
    text: str,
    inputs: dict[str, Any],
    dtype: str,
    target: float,
    where: set[str],
    mode: str,
) -> None:
    answer, places = traced(engine, text, target, mode=mode, dtype=dtype, **inputs)
    assert places == where
    trace = answer.trace
    assert not trace.note
    assert {trace.operations[i].phase for i in trace.culprits} == {"forward"}
    # right to a quarter of the dtype's digits: 64 ulps in float32
    assert trace.repaired < 64


UNSEEN = (
    ("tensorflow", "forward-over-forward"),  # computes tangents of tangents in its own functions
    ("torch", "forward-over-forward"),
    ("torch", "reverse-over-forward"),
)


@pytest.mark.parametrize("mode", [mode for mode in SECOND if order_of(mode) == 2])
def test_second_derivative_is_repaired_by_what_cancels(engine: Engine, ask: Ask, mode: str) -> None:
    """p - p^2 where p rounds to 1."""
    target = math.exp(-30) / (1 + math.exp(-30)) ** 2
    request = TraceRequest(first="x", input="x", target=target)
    answer = ask(engine, "log(1 + exp(x))", mode=mode, dtype="float32", trace=request, x=30.0)
    assert answer.gradients["x.x"].values == 0
    trace = answer.trace
    if (engine.capabilities.name, mode) in UNSEEN:
        assert trace.note
        assert not trace.enclosed  # what was not seen is no proof that rounding has no part
        return
    assert not trace.note
    assert trace.culprits
    assert trace.repaired < 64


@pytest.mark.exhaustive
@pytest.mark.parametrize("directed", [False, True], ids=["whole", "directions"])
@pytest.mark.parametrize("mode", [mode for mode in SECOND if order_of(mode) == 2])
def test_every_entry_of_a_hessian_is_the_one_that_is_written_down(
    engine: Engine, ask: Ask, mode: str, directed: bool
) -> None:
    x, y = np.array([0.3, -1.2]), np.array([0.7, 1.1, -0.4])
    columns = {"x": np.array([[1.0, 2.0]]), "y": np.array([[0.5, -1.0, 3.0], [1.0, 1.0, 2.0]])}
    firsts = {"x": np.array([[1.5, -1.0], [0.5, 2.0]]), "y": np.eye(3)}
    paired = directed and mode == "forward-over-forward"
    projection = Projection(
        columns=columns if directed else None, firsts=firsts if paired else None
    )
    for first, second in (("x", "x"), ("x", "y"), ("y", "x"), ("y", "y")):
        block = None
        for row, column in ((0, 0), (1, 0), (1, 1)):
            if block is not None and column >= block.shape[1]:
                continue
            request = TraceRequest(row=row, first=first, input=second, column=column, target=1.2345)
            answer = ask(
                engine,
                "sum(exp(x)) * sum(sin(y) ** 3) * x[0]",
                mode=mode,
                projection=projection,
                trace=request,
                x=x,
                y=y,
            )
            block = answer.gradients[f"{first}.{second}"].values
            if (engine.capabilities.name, mode) in UNSEEN:
                assert answer.trace.note
                continue
            assert answer.trace.exactly == pytest.approx(block[row, column], rel=1e-12)


def test_numbers_of_the_worst_element(engine: Engine, ask: Ask) -> None:
    request = TraceRequest(row=1, input="x", column=1, target=-math.exp(-100))
    x = np.array([3.0, 100.0])
    trace = ask(engine, "1 / exp(x)", dtype="float32", trace=request, x=x).trace
    (culprit,) = (trace.operations[i] for i in trace.culprits)
    assert culprit.index == (1,)
    assert culprit.inputs == (100.0,)
    assert culprit.result == math.inf
    assert culprit.exact == pytest.approx(math.exp(100), rel=1e-15)
    assert culprit.error == math.inf


def test_square_in_a_derivative_underflows(engine: Engine, traced: Callable[..., Any]) -> None:
    answer, places = traced(engine, "1 / exp(x)", -math.exp(-60), x=60.0)
    assert places == {"1 / exp(x)"}
    (culprit,) = (answer.trace.operations[i] for i in answer.trace.culprits)
    assert culprit.phase == "backward"
    assert abs(culprit.exact) == pytest.approx(math.exp(-120), rel=1e-6)
    assert culprit.result == 0


@pytest.mark.parametrize(
    ("name", "operation"), [("torch", "aten.tanh_backward"), ("tensorflow", "TanhGrad")]
)
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_derivative_from_a_rounded_output_is_the_kernels_doing(
    engine_called: Callable[[str], Engine],
    traced: Callable[..., Any],
    name: str,
    operation: str,
    mode: str,
) -> None:
    """The output is rounded rightly: the kernel that subtracts its square from 1 is to blame."""
    target = 1 / math.cosh(NEAR_9) ** 2
    answer, places = traced(engine_called(name), "tanh(x)", target, mode=mode, x=NEAR_9)
    assert places == {"tanh(x)"}
    (culprit,) = (answer.trace.operations[i] for i in answer.trace.culprits)
    assert culprit.name == operation
    assert culprit.phase == ("backward" if mode == "reverse" else "tangent")


@pytest.mark.parametrize("name", ["reference", "torch"])
def test_masked_branch_is_nothing_in_exact_arithmetic(
    engine_called: Callable[[str], Engine], traced: Callable[..., Any], name: str
) -> None:
    """0 * inf, or 0 / 0, of a path that was not taken is 0: the operation that makes nan of it."""
    answer, places = traced(engine_called(name), "where(x > 0, sqrt(x), 0)", 0.0, x=0.0)
    assert places == {"sqrt(x)"}
    (culprit,) = (answer.trace.operations[i] for i in answer.trace.culprits)
    assert math.isnan(culprit.result)
    assert culprit.exact == 0
    assert culprit.phase == "backward"


def test_square_of_a_large_number_in_a_derivative(
    engine_called: Callable[[str], Engine], traced: Callable[..., Any]
) -> None:
    answer, places = traced(engine_called("torch"), "asinh(x)", 1e-22, x=1e22)
    assert places == {"asinh(x)"}
    (culprit,) = (answer.trace.operations[i] for i in answer.trace.culprits)
    assert culprit.name == "aten.pow.Tensor_Scalar"
    assert (culprit.result, culprit.phase) == (math.inf, "backward")


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize(
    ("text", "target", "x"),
    [
        ("sin(x) * x", math.sin(1) + math.cos(1), 1.0),
        ("log1p(exp(x))", 1 / (1 + math.exp(-0.5)), 0.5),
        ("x / (1 + x * x)", (1 - 0.3**2) / (1 + 0.3**2) ** 2, 0.3),
    ],
)
def test_right_program_has_nothing_to_name(
    engine: Engine, traced: Callable[..., Any], text: str, target: float, x: float, mode: str
) -> None:
    answer, places = traced(engine, text, target, mode=mode, x=x)
    assert places == set()
    assert answer.trace.repaired is None
    assert answer.trace.operations == ()
    assert not answer.trace.note


LONG = """
a = x * 2
b = a + 3
c = sin(b)
d = c * c
e = d + 1
f = sqrt(e)
g = f / 2
h = g - 1
i = h * h
j = i + x
k = tanh(j)
l = exp(60 * x) / exp(60 * x)
m = k * l
n = m + d
o = log(n + 5)
p = o * f
q = p + e
r = q * 0.5
s = r + cos(a)
s * 2
"""


def _long(x: Any) -> Any:
    import mpmath as mp

    a = x * 2
    d = mp.sin(a + 3) ** 2
    e = d + 1
    f = mp.sqrt(e)
    k = mp.tanh((f / 2 - 1) ** 2 + x)
    return 2 * ((mp.log(k + d + 5) * f + e) * 0.5 + mp.cos(a))


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_line_12_of_twenty(
    engine: Engine, traced: Callable[..., Any], program: Callable[..., Any], mode: str
) -> None:
    import mpmath as mp

    with mp.workdps(30):
        target = float(mp.diff(_long, mp.mpf(1.5)))
    answer, places = traced(engine, LONG, target, mode=mode, x=1.5)
    assert places == {"exp(60 * x)"}
    nodes = program(LONG, {"x": np.array(1.5)}).nodes
    lines = {nodes[answer.trace.operations[i].node].span.line for i in answer.trace.culprits}
    assert lines == {13}  # the text begins with an empty line


def test_row_of_a_batch(engine: Engine, traced: Callable[..., Any]) -> None:
    """Log-softmax by hand over a batch, one row of which is far apart."""
    x = np.array([[0.1, 0.2, 0.3], [0.0, 120.0, 0.0]])
    text = "sum(log(exp(x) / sum(exp(x), axis=1, keepdims=True))[:, 0])"
    answer, places = traced(engine, text, -1.0, column=4, x=x)
    assert places == {"exp(x)"}
    (first, *_) = (answer.trace.operations[i] for i in answer.trace.culprits)
    assert first.index == (1, 1)


STATED = """
def f_vjp(upstream, x):
    return -upstream * exp(-x) * (exp(x) / exp(x))

@custom_gradient(f_vjp)
def f(x):
    return exp(-x)

2 * f(x)
"""


def test_stated_gradient_is_executed_for_its_call(
    engine: Engine, traced: Callable[..., Any]
) -> None:
    answer, places = traced(engine, STATED, -2 * math.exp(-95), x=95.0)
    assert places == {"f(x)"}
    culprits = [answer.trace.operations[i] for i in answer.trace.culprits]
    assert {op.phase for op in culprits} == {"backward"}
    assert all("exp" in op.name.lower() for op in culprits)


def test_wrong_in_exact_arithmetic_too(engine: Engine, traced: Callable[..., Any]) -> None:
    """sin(x) / x at 0 is 0 / 0 however it is computed."""
    answer, places = traced(engine, "sin(x) / x", 0.0, x=0.0)
    assert places == set()
    assert "exact arithmetic give nan" in answer.trace.note
    (pole, *_) = answer.trace.operations
    assert math.isnan(pole.exact) or math.isinf(pole.exact)
    assert 0.0 in pole.inputs


def test_too_large_for_more_than_float64(engine: Engine, ask: Ask) -> None:
    request = TraceRequest(input="x", target=1.0)
    answer = ask(engine, "sum(exp(x) * x)", trace=request, x=np.full(100_001, 0.5))
    assert "too large" in answer.trace.note
    assert answer.trace.derivatives  # the plain trace is there


def test_failure_of_the_second_run_costs_no_trace(
    engine: ProgramEngine, traced: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradcheck_cli.engines.trace import culprits as promotion

    def broken(*args: Any) -> Any:
        raise ValueError("an exact result has shape (2,) and not ()")

    monkeypatch.setattr(promotion, "shadow", broken)
    answer, _ = traced(engine, "1 / exp(x)", -math.exp(-100), x=100.0)
    assert "an exact result has shape (2,) and not ()" in answer.trace.note
    assert answer.trace.values


def test_of_a_lost_output_no_derivative_is_written_down(
    engine_called: Callable[[str], Engine], ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the output alone is to be explained, the forward pass is all that is needed."""
    from gradcheck_cli.engines.trace import culprits as promotion

    seen: list[Any] = []
    once = promotion.prove

    def noted(execution: Any, *args: Any) -> Any:
        seen.append(execution)
        return once(execution, *args)

    monkeypatch.setattr("gradcheck_cli.engines.kit.run_traced.prove", noted)
    for mode in ("reverse", "forward"):
        request = TraceRequest(input="x", output_target=100 + math.log(100))
        engine = engine_called("reference")
        trace = ask(
            engine, "log(exp(x) * x)", mode=mode, dtype="float32", trace=request, x=1e2
        ).trace
        names = [trace.output_operations[i].name for i in trace.output_culprits]
        assert names == ["exp"]
        assert trace.derivatives
    assert [[step.name for step in one.steps] for one in seen] == [["exp", "multiply", "log"]] * 2


def test_nothing_is_written_down_without_a_target(
    engine: ProgramEngine, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recorder(self: Any) -> Any:
        raise AssertionError

    framework = type(engine.framework("float32"))
    monkeypatch.setattr(framework, "recorder", recorder)
    answer = ask(engine, "1 / exp(x)", dtype="float32", trace=TraceRequest(input="x"), x=100.0)
    assert (answer.trace.operations, answer.trace.note) == ((), "")
    # nor in a second look, in another precision than the judged one
    request = TraceRequest(input="x", target=-math.exp(-100))
    wide = ask(engine, "1 / exp(x)", dtype="float64", rounding="float32", trace=request, x=100.0)
    assert (wide.trace.operations, wide.trace.note) == ((), "")


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_looked_for_as_before(
    engine_called: Callable[[str], Engine], traced: Callable[..., Any], enabled: bool
) -> None:
    """While a run is written down it is not."""
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        traced(engine_called("reference"), "1 / exp(x)", -math.exp(-100), x=100.0)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
