"""What runs beside an engine's numbers: the same operations exactly, for every row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Mode, Problem, Projection, TraceRequest
from gradcheck_cli.engines.execution import Execution
from gradcheck_cli.engines.kit import run_traced
from gradcheck_cli.engines.kit.adapter import ProgramEngine
from gradcheck_cli.engines.trace.shadow import (
    FIRST_BITS,
    FLOAT64,
    Numbers,
    fits,
    shadow,
    sharp,
    to_float,
)
from reference_engine.arithmetic.arbs import objects, precision
from reference_engine.op import TABLE
from tests.checks.making import subject_of, torch_engine
from tests.every import by_family
from tests.reference_engine.samples import SAMPLES, Sample

SEED = 3


def _text(name: str, inputs: list[str], keywords: Mapping[str, Any]) -> str:
    arrays = ", ".join(inputs)
    if TABLE[name].arity < 0:
        arrays = f"[{arrays}]"
    return f"{name}({', '.join((arrays, *(f'{k}={v!r}' for k, v in keywords.items())))})"


def _stated(sample: Sample) -> bool:
    """Whether the keywords can be written into a formula: indices are written otherwise."""
    return "index" not in sample.keywords and bool(sample.shapes)


ROWS = {
    name: next(filter(_stated, samples))
    for name, samples in SAMPLES.items()
    if name in TABLE and TABLE[name].differentiable and any(map(_stated, samples))
}


def _problem(program: Any, values: dict[str, Any], name: str, mode: Mode) -> Problem:
    shape = program.result.shape
    rng = np.random.default_rng(SEED)
    return Problem(
        program=program,
        values=values,
        wrt=(name,),
        dtype="float64",
        rounding="float64",
        mode=mode,
        projection=Projection(rows=rng.standard_normal((1, *shape)))
        if mode == "reverse"
        else Projection(columns={name: rng.standard_normal((1, *values[name].shape))}),
        trace=TraceRequest(input=name, target=0.0),
    )


def _recorded(engine: ProgramEngine, problem: Problem) -> Execution:
    framework, prepared = engine._prepare(problem.program, "float64", "float64")
    assert problem.trace is not None
    with np.errstate(all="ignore"):
        return run_traced.recorded(framework, prepared, problem, problem.trace)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["reverse", "forward"])
@by_family(ROWS)
def test_exact_operations_are_the_engines(
    name: str, engine: ProgramEngine, program: Callable[..., Any], mode: Mode
) -> None:
    """Where an engine has the row: its derivative, every operation done exactly, is the one that
    the engine gives in float64."""
    sample = ROWS[name]
    values = {f"x{i}": array for i, array in enumerate(sample.arrays(SEED))}
    made = program(_text(name, list(values), sample.keywords), values)
    for given, value in values.items():
        if value.dtype.kind != "f" or made.result.kind != "float":
            continue
        problem = _problem(made, values, given, mode)
        if engine.evaluate(problem).failure is not None:
            continue  # it has no such operation, or no such derivative
        execution = _recorded(engine, problem)
        if execution.target is None or not execution.needed():
            continue  # no derivative, or a constant one
        with np.errstate(all="ignore"):
            exact = shadow(execution, execution.needed(), Numbers(FIRST_BITS))
        # a few dozen roundings, and constants that a kernel has in float32
        np.testing.assert_allclose(
            to_float(exact[execution.target]),
            execution.values(execution.target),
            rtol=1e-7,
            atol=1e-10,
        )
        if mode == "forward":
            break  # what the other arguments do is the same operations


def test_every_engine_has_most_rows_in_exact_operations(
    engine: ProgramEngine, program: Callable[..., Any]
) -> None:
    """Common formulas have no operation that must fall back on float64."""
    x = np.array([[0.3, -1.2], [2.1, 0.7]])
    for text in (
        "sum(exp(x) * tanh(x) / (1 + x * x)) + mean(sqrt(abs(x)))",
        "logsumexp(x)[0] + sum(softmax(x) * log_softmax(x))",
        "sum(where(x > 0, log(1 + x * x), sigmoid(x)) @ transpose(x))",
        "sum(maximum(x, 0.5) * sin(x) - softplus(x)) + max(x)",
    ):
        execution = _recorded(engine, _problem(program(text, {"x": x}), {"x": x}, "x", "reverse"))
        inexact = {
            execution.steps[i].name
            for i in execution.needed()
            if execution.steps[i].exact is None
            and any(execution.slots[k].format is not None for k in execution.steps[i].results)
        }
        assert not inexact - {"LogSumExp"}


def test_what_a_format_can_hold() -> None:
    single = FORMATS["float32"]
    numbers = np.array([0.0, 1.0, 1e38, 1e39, 1e-37, 1e-39, np.inf, np.nan])
    assert fits(numbers, single).tolist() == [True, True, True, False, True, False, True, True]
    beyond = objects(np.array([1e300]))
    with precision(100):
        assert fits(beyond * beyond, FORMATS["float64"]).tolist() == [False]
        assert fits(1 / (beyond * beyond), FORMATS["float64"]).tolist() == [False]


def test_sharp_is_narrower_than_the_last_digit() -> None:
    with precision(20):
        blunt = objects(np.array([2.0])) / 3
    with precision(100):
        narrow = objects(np.array([2.0])) / 3
    assert not sharp(blunt, 0, FORMATS["float32"])
    assert sharp(blunt, 0, FORMATS["bfloat16"])
    assert sharp(narrow, 0, FORMATS["float64"])


def test_float64_takes_numbers_as_they_are() -> None:
    assert FLOAT64.lift(np.array([1, 2])).dtype.kind == "i"
    assert FLOAT64.lift(np.float32([0.1])).tolist() == [float(np.float32(0.1))]


def test_integers_are_those_of_the_run() -> None:
    """A number that was cast to an index stays one, and moves numbers that are exact."""

    def layer(x: Any) -> Any:
        return torch.index_select(x, 0, torch.tensor([1.0, 0.0]).long()).exp()

    recording = subject_of(torch_engine(), layer, x=[0.3, -1.2]).record(np.ones(2))
    execution, output = recording.execution, recording.outputs[0]
    assert output is not None
    exact = shadow(execution, execution.needed([output]), Numbers(FIRST_BITS))
    np.testing.assert_allclose(to_float(exact[output]), np.exp([-1.2, 0.3]), rtol=1e-15)
