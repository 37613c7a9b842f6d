"""The word for what an operation did, from its numbers and what the program does around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import Operation, Phase, Trace
from gradcheck_cli.domain.report import CauseKind
from gradcheck_cli.explain.blame.causes import CAUSES, kind_of
from gradcheck_cli.explain.blame.explanation import blame, blame_tie
from gradcheck_cli.explain.blame.traces import FAR, Traces, traces_of
from gradcheck_cli.truth.plain import PlainFunction
from tests.conftest import program_of

NAN, INF = np.nan, np.inf
BEYOND = FAR  # how an exact number beyond float64 is written down


def traces(
    formula: str,
    inputs: Mapping[str, Any],
    *,
    cotangents: Mapping[int, Any] | None = None,
    exact_cotangents: Mapping[int, Any] | None = None,
    target: float | None = 1.0,
    dtype: str = "float32",
) -> Traces:
    """What a run in the dtype and one in float64 had at every node; cotangents as they are given,
    1 elsewhere."""
    program = program_of(formula, inputs)
    arrays = {name: np.asarray(value, dtype=np.float64) for name, value in inputs.items()}
    wide = PlainFunction(program, dtype).nodes(arrays)
    narrow: list[Any] = []
    fmt = traces_of(program, dtype, "reverse", Trace({}, {}), None).fmt
    from reference_engine.op import TABLE

    with np.errstate(all="ignore"):
        for index, node in enumerate(program.nodes):
            if node.op in ("input", "constant"):
                narrow.append(fmt.round(wide[index]))
            else:
                args = [narrow[i] for i in node.args]
                narrow.append(fmt.round(TABLE[node.op].value(*args, **node.keywords)))
    ones = {i: np.ones(np.shape(v)) for i, v in enumerate(wide)}
    given = {i: np.asarray(v, dtype=float) for i, v in (cotangents or {}).items()}
    exact = {i: np.asarray(v, dtype=float) for i, v in (exact_cotangents or {}).items()}
    return traces_of(
        program,
        dtype,
        "reverse",
        Trace(dict(enumerate(narrow)), {**ones, **given}),
        Trace({i: np.asarray(v) for i, v in enumerate(wide)}, {**ones, **given, **exact}),
        target,
    )


def at(made: Traces, op: str) -> int:
    (index,) = [i for i, node in enumerate(made.program.nodes) if node.op == op]
    return index


def operation(
    node: int | None,
    inputs: tuple[float, ...],
    exact_inputs: tuple[float, ...],
    result: float,
    exact: float,
    phase: Phase = "forward",
    name: str = "op",
) -> Operation:
    error = abs(result - exact) if np.isfinite(result) and np.isfinite(exact) else INF
    return Operation(name, phase, node, (), inputs, exact_inputs, result, exact, error)


def test_what_lies_below_all_of_float64_is_no_subnormal_number() -> None:
    made = traces("x * y", {"x": 1e-200, "y": 1e-200}, dtype="float64")
    inputs = (1e-200, 1e-200)
    for exact, word in ((5e-324, "underflow"), (1e-310, "subnormal flush")):
        op = operation(at(made, "multiply"), inputs, inputs, 0.0, exact)
        assert kind_of(made, op) == word


def test_every_word_has_a_sentence() -> None:
    assert set(CAUSES) == set(get_args(CauseKind))
    for sentence in CAUSES.values():
        assert sentence[0].isupper() or sentence[0].isdigit()
        assert sentence.endswith(".")
        assert "  " not in sentence


# formula, inputs, the row that is looked at, its numbers: in, exactly in, out, exactly out
FORWARD: list[tuple[str, str, dict[str, Any], str, tuple[Any, ...]]] = [
    ("overflow", "1 / exp(x)", {"x": 100.0}, "exp", ((100.0,), (100.0,), INF, 2.69e43)),
    ("overflow", "1 / exp(x)", {"x": 1e4}, "exp", ((1e4,), (1e4,), INF, BEYOND)),
    # what came in was infinite only because it did not fit
    ("overflow", "y / x", {"x": 1.0, "y": 1.0}, "divide", ((INF, INF), (1e40, 1e41), NAN, 0.1)),
    (
        "underflow",
        "x * y",
        {"x": 1e-30, "y": 1e-30},
        "multiply",
        ((1e-30,) * 2, (1e-30,) * 2, 0.0, 1e-60),
    ),
    (
        "underflow",
        "y / x",
        {"x": 1.0, "y": 1.0},
        "divide",
        ((0.0, 0.0), (5e-324, 5e-324), NAN, 0.5),
    ),
    ("subnormal flush", "exp(x)", {"x": -100.0}, "exp", ((-100.0,), (-100.0,), 0.0, 3.72e-44)),
    ("subnormal flush", "log(x)", {"x": 1e-40}, "log", ((1e-40,), (1e-40,), -90.0, -92.1)),
    (
        "cancellation",
        "x - y",
        {"x": 1.0, "y": 1.0},
        "subtract",
        ((1.0, 1.0), (1.0, 1 - 5e-9), 0.0, 5e-9),
    ),
    ("absorption", "x + y", {"x": 1.0, "y": 1.0}, "add", ((3.0, 1.0), (3.0, 1.0), 4.001, 4.0)),
    ("0*inf", "x * y", {"x": 0.0, "y": 1.0}, "multiply", ((0.0, INF), (0.0, INF), NAN, NAN)),
    (
        "indeterminate form",
        "y / x",
        {"x": 0.0, "y": 0.0},
        "divide",
        ((0.0, 0.0), (0.0, 0.0), NAN, NAN),
    ),
    (
        "indeterminate form",
        "x - y",
        {"x": 1.0, "y": 1.0},
        "subtract",
        ((-INF, -INF), (-INF, -INF), NAN, NAN),
    ),
    ("domain edge", "log(x)", {"x": 0.0}, "log", ((0.0,), (0.0,), -INF, -INF)),
    ("domain edge", "acos(x)", {"x": 1.0}, "acos", ((1.0000001,), (0.99999999,), NAN, 1.4e-4)),
    ("absorption", "log(1 + x)", {"x": 2e-9}, "log", ((1.0,), (1.000000002,), 0.0, 2e-9)),
    ("absorbed epsilon", "log(x + 1e-9)", {"x": 1.0}, "log", ((1.0,), (1.000000001,), 0.0, 1e-9)),
    ("absorbed epsilon", "log(x + 1e-50)", {"x": 0.0}, "log", ((0.0,), (0.0,), -INF, -INF)),
    ("sensitivity", "sin(x)", {"x": 1e7 / 3}, "sin", ((3333333.25,), (1e7 / 3,), -0.81, -0.856)),
    ("sensitivity", "cholesky(x)", {"x": np.eye(2)}, "cholesky", ((NAN,), (NAN,), 0.25, 0.26)),
    # its argument is a number of the dtype, and harmless
    ("inaccurate kernel", "exp(x)", {"x": 1.0}, "exp", ((1.0,), (1.0,), 2.7, 2.718281828)),
]


@pytest.mark.parametrize(
    ("kind", "formula", "inputs", "row", "numbers"),
    FORWARD,
    ids=[f"{kind}: {formula}" for kind, formula, *_ in FORWARD],
)
def test_forward(
    kind: str, formula: str, inputs: Mapping[str, Any], row: str, numbers: tuple[Any, ...]
) -> None:
    made = traces(formula, inputs)
    assert kind_of(made, operation(at(made, row), *numbers)) == kind


@pytest.mark.parametrize(
    ("target", "kind"), [(1e39, "genuine overflow"), (INF, "genuine overflow")]
)
def test_what_the_dtype_cannot_hold_at_all(target: float, kind: str) -> None:
    made = traces("exp(x)", {"x": 100.0}, target=target)
    assert kind_of(made, operation(at(made, "exp"), (100.0,), (100.0,), INF, 2.69e43)) == kind


SILENT: list[tuple[str, str, Callable[[Traces], Mapping[int, float]]]] = [
    ("masked branch", "where(x < 0, exp(x), x)", lambda t: {at(t, "exp"): 0.0}),
    ("masked branch", "minimum(exp(x), x)", lambda t: {at(t, "exp"): 0.0}),
    (
        "masked branch",
        "stack([exp(x), x])[1]",
        lambda t: {at(t, "exp"): 0.0, at(t, "stack"): [0.0, 1.0]},
    ),
    ("0*inf", "0 * exp(x)", lambda t: {at(t, "exp"): 0.0}),
    # a zero that is only what underflow left of it
    ("overflow", "1 / exp(x)", lambda t: {at(t, "exp"): 0.0}),
    ("overflow", "exp(x) + x", lambda t: {}),
]


@pytest.mark.parametrize(("kind", "formula", "cotangents"), SILENT, ids=[row[1] for row in SILENT])
def test_a_value_that_nothing_depends_on(
    kind: str, formula: str, cotangents: Callable[[Traces], Mapping[int, float]]
) -> None:
    made = traces(formula, {"x": 100.0})
    made = traces(formula, {"x": 100.0}, cotangents=cotangents(made))
    assert kind_of(made, operation(at(made, "exp"), (100.0,), (100.0,), INF, 2.69e43)) == kind


# formula, x, the row, in, exactly in, out, exactly out; cotangents are 1
BACKWARD: list[tuple[str, str, float, str, tuple[Any, ...]]] = [
    (
        "square inside the derivative",
        "1 / exp(x)",
        60.0,
        "divide",
        ((1.14e26, 1.14e26), (1.14e26, 1.14e26), INF, 1.3e52),
    ),
    (
        "square inside the derivative",
        "1 / exp(x)",
        60.0,
        "divide",
        ((8.8e-27, 8.8e-27), (8.8e-27, 8.8e-27), 0.0, 7.7e-53),
    ),
    # a kernel of one piece: nothing of what is seen leaves the range
    (
        "square inside the derivative",
        "asinh(x)",
        1e22,
        "asinh",
        ((1.0, 1e22), (1.0, 1e22), 0.0, 1e-22),
    ),
    ("overflow", "x * 1e30", 1.0, "multiply", ((1e30, 1e30), (1e30, 1e30), INF, 1e60)),
    ("saturation", "tanh(x)", 10.0, "tanh", ((0.5, 1.0), (0.5, 1 - 4e-9), 0.0, 4.1e-9)),
    ("saturation", "expm1(x)", -40.0, "expm1", ((-1.0, 1.0), (-1 + 4e-18, 1.0), 0.0, 4.2e-18)),
    (
        "cancellation",
        "acos(x)",
        1 - 2.0**-24,
        "acos",
        ((-0.99999988, 1.0), (-0.9999999, 1.0), 1.2e-7, 1e-7),
    ),
    ("domain edge", "sqrt(x)", 0.0, "sqrt", ((1.0, 0.0), (1.0, 0.0), INF, INF)),
    ("0*inf", "sqrt(x)", 1.0, "sqrt", ((0.0, INF), (0.0, INF), NAN, NAN)),
    ("inaccurate kernel", "exp(x)", 1.0, "exp", ((1.0, 2.0), (1.0, 2.0), 2.5, 2.0)),
]


@pytest.mark.parametrize(
    ("kind", "formula", "x", "row", "numbers"), BACKWARD, ids=[f"{r[0]}: {r[1]}" for r in BACKWARD]
)
def test_backward(kind: str, formula: str, x: float, row: str, numbers: tuple[Any, ...]) -> None:
    made = traces(formula, {"x": x})
    node = at(made, row)
    handed = {made.program.nodes[node].args[0]: 1e60} if kind == "overflow" else {}
    made = traces(formula, {"x": x}, exact_cotangents=handed)
    assert kind_of(made, operation(node, *numbers, phase="backward")) == kind


def test_a_bound_that_rounding_reaches() -> None:
    """1 - 2e-9 is inside, 1 is not: there the derivative is zero."""
    made = traces("relu(1 - x)", {"x": 1 - 2.0**-24 * 0.25})
    op = operation(at(made, "relu"), (1.0, 0.0), (1.0, 1.5e-8), 0.0, 1.0, phase="backward")
    assert kind_of(made, op) == "clip that kills the gradient"


def test_a_tie_that_rounding_makes() -> None:
    made = traces("maximum(x, y)", {"x": 1.0, "y": 1 + 1e-9})
    op = operation(at(made, "maximum"), (1.0, 1.0), (1.0, 1.0), 0.5, 1.0, phase="backward")
    assert kind_of(made, op) == "tie"
    made = traces("max(x)", {"x": [1.0, 1 + 1e-9]})
    op = operation(at(made, "max"), (1.0, 1.0), (1.0, 1.0), 0.5, 1.0, phase="backward")
    assert kind_of(made, op) == "tie"


def test_slopes_that_only_change_are_no_other_branch() -> None:
    """A power has kinks, but none between 1 + 1e-4 and what that is rounded to."""
    made = traces("(1 + y) ** x", {"x": 0.3, "y": 1e-4})
    base = float(made.narrow.values[at(made, "add")])
    numbers = (np.log(base), np.log1p(1e-4))
    op = operation(at(made, "power"), (base,), (1 + 1e-4,), *numbers, phase="backward")
    assert numbers[0] != numbers[1]
    assert kind_of(made, op) not in ("tie", "clip that kills the gradient")


def test_parts_of_a_derivative_that_cancel() -> None:
    """The sum reads exp(x), which is the result of exp; but it is the sum of two uses of x."""
    made = traces("exp(x) - x", {"x": 1e-4})
    x = made.program.inputs["x"]
    e = float(made.narrow.values[at(made, "exp")])
    made = traces("exp(x) - x", {"x": 1e-4}, cotangents={x: e - 1})
    exact = np.expm1(1e-4)
    op = operation(at(made, "exp"), (e, -1.0), (exact + 1, -1.0), e - 1, exact, phase="backward")
    assert kind_of(made, op) == "cancellation"


def test_an_operation_of_no_node() -> None:
    made = traces("exp(x)", {"x": 1.0})
    assert kind_of(made, operation(None, (1e30, 1e30), (1e30, 1e30), INF, 1e60)) == "overflow"


def test_what_an_engine_chose_at_a_tie() -> None:
    made = traces("maximum(x, y) + exp(x)", {"x": 1.0, "y": 1.0})
    cause = blame_tie(made)
    assert cause is not None
    assert (cause.op, cause.kind, cause.text) == ("maximum", "tie", "maximum(x, y)")
    assert cause.detail == "exactly at a kink or a tie: maximum(1, 1)"
    assert not cause.proven
    # the same zero in both precisions is no rounding
    zero = operation(at(made, "maximum"), (1.0, 1.0), (1.0, 1.0), 0.0, 0.0, phase="backward")
    assert kind_of(made, zero) == "tie"


def test_no_tie_where_there_is_none() -> None:
    assert blame_tie(traces("maximum(x, y) + exp(x)", {"x": 1.0, "y": 2.0})) is None


def test_a_constant_that_the_dtype_does_not_have() -> None:
    cause = blame(traces("log(x + 1e-50)", {"x": 0.0}, target=None), "GC203")
    assert cause is not None
    assert (cause.op, cause.kind, cause.proven) == ("log", "absorbed epsilon", True)
    assert cause.proof == "the constant is zero in float32 before it is added"
