"""Shared by all tests: the whole decision about one formula at one point, in this process."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import hypothesis
import numpy as np
import pytest

from gradcheck_cli.checks.protocol import Ask, drive
from gradcheck_cli.domain.case import Case, TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Evaluation, Mode, Problem, Projection
from gradcheck_cli.domain.fixes import FixRequest, Screened
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.report import Check, Finding
from gradcheck_cli.domain.spec import Input, Spec, Tolerance
from gradcheck_cli.domain.truth import Truth
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.registry import engines as registered_engines
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.run.plan import make_plan
from gradcheck_cli.run.spec_state import Work
from gradcheck_cli.truth import compute

# A change is judged by its own faults: the same code has the same draws. `make draws` takes others.
hypothesis.settings.register_profile("the same draws", derandomize=True)
if "FRESH_DRAWS" not in os.environ:
    hypothesis.settings.load_profile("the same draws")

np.seterr(all="ignore")  # as inside the functions through which a room is entered
os.environ["GRADCHECK_NO_CACHE"] = "1"  # a test of a run is about that run
# PyTorch's threads share the processors with other tests: they are not to spin while they wait.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

TESTS = os.path.dirname(os.path.abspath(__file__))
KINDS = {"f": "float", "i": "int", "b": "bool"}


@dataclass(frozen=True)
class Judged:
    """One formula at one point in one dtype, judged and explained."""

    case: Case
    checks: tuple[Check, ...]
    findings: tuple[Finding, ...]

    @property
    def codes(self) -> list[str]:
        """The codes that were found, each once, sorted."""
        return sorted({finding.code for finding in self.findings})

    @property
    def passed(self) -> bool:
        """Whether no check failed and every finding is a note."""
        worse = any(finding.severity != "note" for finding in self.findings)
        return not worse and all(check.status == "passed" for check in self.checks)

    def of(self, code: str, **where: str) -> list[Finding]:
        """The findings with this code and, if given, this engine, mode or input."""
        return [
            finding
            for finding in self.findings
            if finding.code == code and all(getattr(finding, k) == v for k, v in where.items())
        ]


@cache
def loaded(name: str) -> Engine:
    """An engine with its framework imported, once in each process. The framework is frozen for the
    garbage collector."""
    engine = registered_engines()[name].engine
    assert engine is not None
    engine.load()
    gc.freeze()
    return engine


def array(value: Any) -> np.ndarray:
    """The value as a spec reads it: a plain number is floating, an array keeps its kind."""
    return np.asarray(float(value) if isinstance(value, int | float) else value)


def program_of(
    formula: str, inputs: Mapping[str, Any], constants: Mapping[str, float] | None = None
) -> Program:
    """The program of a formula whose inputs have these values."""
    arrays = {name: array(value) for name, value in inputs.items()}
    arguments = {n: Argument(a.shape, KINDS[a.dtype.kind]) for n, a in arrays.items()}
    parsed = parse(formula, inputs=arguments, constants=constants)
    assert parsed.program is not None, [error.message for error in parsed.errors]
    return parsed.program


def truth_of(
    formula: str,
    inputs: Mapping[str, Any],
    *,
    dtype: str = "float64",
    modes: Sequence[Mode] = ("reverse",),
    projections: Mapping[Mode, Projection] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    wrt: Sequence[str] | None = None,
    constants: Mapping[str, float] | None = None,
    conditioning: bool = False,
    known: Truth | None = None,
    suspects: Mapping[tuple[str, str], Any] | None = None,
    seed: int = 0,
) -> Truth:
    """The truth of a formula: its whole Jacobian or Hessian, unless projections are given."""
    arrays = {name: array(value) for name, value in inputs.items()}
    fmt = FORMATS[dtype]
    floats = [name for name, a in arrays.items() if a.dtype.kind == "f"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return compute(
            TruthRequest(
                program=program_of(formula, inputs, constants),
                values={n: fmt.round(a) if n in floats else a for n, a in arrays.items()},
                bounds=bounds or {},
                wrt=tuple(wrt or floats),
                dtype=dtype,
                projections=projections or {mode: Projection() for mode in modes},
                seed=seed,
                conditioning=conditioning,
                known=known,
                suspects=suspects,
            )
        )


def spec_of(
    formula: str,
    inputs: Mapping[str, Any],
    *,
    engines: Sequence[str] = ("reference",),
    modes: Sequence[str] = ("reverse",),
    order: int = 1,
    tolerance: Tolerance | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    wrt: Sequence[str] | None = None,
    constants: Mapping[str, float] | None = None,
) -> Spec:
    """The spec that a file with this formula would give."""
    arrays = {name: array(value) for name, value in inputs.items()}
    floats = [name for name, a in arrays.items() if a.dtype.kind == "f"]
    limits = bounds or {}
    point = {
        name: Input(name, a, name in floats, *limits.get(name, (-np.inf, np.inf)))
        for name, a in arrays.items()
    }
    return Spec(
        name="judged",
        source=Source("judged.yaml", formula),
        span=Span(1, 1, 1, 2),
        program=program_of(formula, inputs, constants),
        points=(point,),
        wrt=tuple(wrt or floats),
        engines=tuple(engines),
        modes=tuple(modes),
        order=order,
        tolerance=tolerance,
    )


Change = Callable[[Evaluation], Evaluation]


def decide(
    spec: Spec, dtype: str, *, seed: int = 0, named: bool = True, change: Change | None = None
) -> Judged:
    """The examination of a run, but in this process, and without fixes.

    `change` may alter every answer of an engine, as an engine with a bug would. With `named`, the
    engines and modes count as requested by name.
    """
    known = registered_engines()
    plan = make_plan(spec, RunOptions(dtypes=Layered(override=(dtype,)), seed=seed), known)
    (look,) = Work(plan).looks
    if not named:
        look.case = replace(look.case, named=frozenset(), named_modes=frozenset())

    def answer(ask: Ask) -> Any:
        if isinstance(ask.question, TruthRequest):
            return compute(ask.question)
        if isinstance(ask.question, FixRequest):
            return Screened(())
        assert isinstance(ask.question, Problem)
        answered = loaded(ask.engine or "reference").evaluate(ask.question)
        return change(answered) if change and ask.engine else answered

    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error", RuntimeWarning)
        drive(look.steps(), answer)
    assert not look.mistakes, look.mistakes
    return Judged(look.case, look.checks, look.findings)


@pytest.fixture
def judged() -> Callable[..., Judged]:
    """judged(formula, inputs, dtype=..., engines=..., modes=..., order=..., tolerance=...)."""

    def judge_it(
        formula: str,
        inputs: Mapping[str, Any],
        *,
        dtype: str = "float32",
        engines: Sequence[str] = ("reference", "torch"),
        modes: Sequence[str] = ("reverse",),
        seed: int = 0,
        named: bool = True,
        change: Change | None = None,
        **spec: Any,
    ) -> Judged:
        made = spec_of(formula, inputs, engines=engines, modes=modes, **spec)
        return decide(made, dtype, seed=seed, named=named, change=change)

    return judge_it


@pytest.fixture
def forked() -> Iterator[None]:
    """Give runs of the test forked workers (`forked_workers`)."""
    from tests.forked_workers import forked_workers

    with forked_workers():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Keep what pytest compiles from the tests, even if an image forbids Python to keep bytecode:
    compiling takes longer than reading everything. The garbage collector is off meanwhile, because
    frameworks and tests are not garbage."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    gc.disable()
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = before
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Start each call with fresh settings. Hypothesis's plugin derives new settings from the old
    ones in each call of a parametrized test, and after a thousand calls their chain is too deep to
    be read."""
    test = getattr(item, "obj", None)
    before = getattr(test, "_hypothesis_internal_use_settings", None)
    result = yield
    if before is not None:
        test._hypothesis_internal_use_settings = before
    return result
