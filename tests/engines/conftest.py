"""Engines in this process, and a short way to ask them about a formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Evaluation, Problem, Projection, TraceRequest
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import Engine, make
from gradcheck_cli.formula import Argument, parse

TARGETS = {
    "reference": "gradcheck_cli.engines.reference.engine:ReferenceEngine",
    "torch": "gradcheck_cli.engines.torch.engine:TorchEngine",
    "tensorflow": "gradcheck_cli.engines.tensorflow.engine:TensorFlowEngine",
}
# A compiler takes seconds for every formula. JAX compiles every operation for every shape, or a
# whole derivative, so a few separate tests cover what all engines have in common.
COMPILING = {
    "jax": "gradcheck_cli.engines.jax.engine:JaxEngine",
    "torch-compile": "gradcheck_cli.engines.torch.engine:TorchCompileEngine",
    "torch-compiled-autograd": "gradcheck_cli.engines.torch.engine:TorchCompiledAutogradEngine",
    "tensorflow-xla": "gradcheck_cli.engines.tensorflow.engine:TensorFlowXlaEngine",
    "jax-jit": "gradcheck_cli.engines.jax.engine:JaxJitEngine",
}


@cache
def _loaded(name: str) -> Engine:
    engine = make({**TARGETS, **COMPILING}[name])
    engine.load()
    return engine


@pytest.fixture
def engine_called() -> Callable[[str], Engine]:
    """An engine by name, with its framework imported once in each process."""
    return _loaded


@pytest.fixture(params=list(TARGETS))
def engine(request: pytest.FixtureRequest) -> Engine:
    """Every engine in turn."""
    return _loaded(request.param)


def _program(text: str, values: Mapping[str, np.ndarray]) -> Program:
    kinds = {"f": "float", "i": "int", "b": "bool"}
    arguments = {name: Argument(v.shape, kinds[v.dtype.kind]) for name, v in values.items()}
    parsed = parse(text, inputs=arguments)
    assert parsed.program is not None, [error.message for error in parsed.errors]
    return parsed.program


@pytest.fixture
def program() -> Callable[[str, Mapping[str, np.ndarray]], Program]:
    """A formula and the values of its inputs as a Program."""
    return _program


@pytest.fixture
def ask() -> Callable[..., Evaluation]:
    """ask(engine, formula, x=..., y=..., mode=..., dtype=...): the engine's evaluation."""

    def evaluate(
        engine: Engine,
        text: str,
        /,
        mode: str = "reverse",
        dtype: str = "float64",
        rounding: str | None = None,
        wrt: tuple[str, ...] | None = None,
        projection: Projection | None = None,
        trace: TraceRequest | None = None,
        along: Mapping[str, Any] | None = None,
        **inputs: Any,
    ) -> Evaluation:
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        floats = tuple(name for name, array in arrays.items() if array.dtype.kind == "f")
        fmt = FORMATS[rounding or dtype]
        rounded = {n: fmt.round(a) if n in floats else a for n, a in arrays.items()}
        return engine.evaluate(
            Problem(
                program=_program(text, arrays),
                values=rounded,
                wrt=floats if wrt is None else wrt,
                dtype=dtype,
                rounding=rounding or dtype,
                mode=mode,  # type: ignore[arg-type]
                projection=projection or Projection(),
                trace=trace,
                along=along,
            )
        )

    return evaluate
