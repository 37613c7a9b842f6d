"""Problems about layers, solved in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.examination import examine
from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.domain.dtypes import Array, as_pairs
from gradcheck_cli.domain.evaluation import FIRST_ORDER, Mode
from gradcheck_cli.domain.implementation import Implementation, Surrogate
from gradcheck_cli.domain.layer import POWER, LayerAnswer, LayerProblem, word_of
from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.report import Cause
from gradcheck_cli.domain.spec import Input, Spec
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.layer.lifting import Lifted
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from gradcheck_cli.engines.torch.engine import TorchEngine
from gradcheck_cli.truth.plain import PlainFunction

SPAN = Span(1, 1, 1, 2)
PLANTED = Path(__file__).parents[2] / "specs" / "planted"


@cache
def torch_engine() -> TorchEngine:
    engine = TorchEngine()
    engine.load()
    return engine


def layer_problem(
    layer: Any,
    inputs: Mapping[str, npt.ArrayLike],
    *,
    args: Sequence[Any] = (),
    surrogates: tuple[Surrogate, ...] = (),
    dtype: str = "float64",
    modes: tuple[Mode, ...] = FIRST_ORDER,
    behaviour: bool = False,
    domain: tuple[float, float] = (-np.inf, np.inf),
    power: float = POWER,
    engine: str = "torch",
) -> LayerProblem:
    """The problem of a layer, which is the object itself, or a target next to the planted specs."""
    target, live = (layer, None) if isinstance(layer, str) else (str(layer), layer)
    implementation = Implementation(
        engine, target, str(PLANTED), SPAN, tuple(args), surrogates=surrogates, live=live
    )
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    spec = Spec(
        name="layer",
        source=Source("layer.yaml", ""),
        span=SPAN,
        program=Program((), {}, (), ""),
        points=({name: _input(name, value, domain) for name, value in arrays.items()},),
        wrt=(),
        implementations=(implementation,),
    )
    return LayerProblem(spec, implementation, 0, dtype, modes, behaviour=behaviour, power=power)


def _input(name: str, value: Array, domain: tuple[float, float]) -> Input:
    if value.dtype.kind == "c":
        return Input(name, as_pairs(value), True, is_complex=True)
    return Input(name, value, value.dtype.kind == "f", *domain)


def examined(
    layer: Any, inputs: Mapping[str, npt.ArrayLike], *, blaming: bool = True, **settings: Any
) -> LayerAnswer:
    """The answer of `examine` to `layer_problem`. Without `blaming`, causes are not searched for,
    which take most of the time if a layer is wrong."""
    return examine(torch_engine(), layer_problem(layer, inputs, **settings), blaming=blaming)


def causes_of(
    engine: Engine, name: str, layer: Any, x: Any, dtype: str, mode: Mode = "reverse"
) -> set[Cause]:
    """The causes of all errors that an engine of this name finds. Every error must have one."""
    problem = layer_problem(layer, {"x": x}, dtype=dtype, modes=(mode,), engine=name)
    answer = examine(engine, problem)
    assert answer.failure is None
    found = {finding.cause for finding in answer.findings if finding.severity == "error"}
    assert found
    assert None not in found
    return {cause for cause in found if cause is not None}


def stretch(cause: Cause) -> str:
    """The text that the cause points at."""
    assert cause.source is not None
    line = cause.source.line(cause.span.line)
    return line[cause.span.column - 1 : cause.span.end_column - 1]


def subject_of(engine: Engine, layer: Any, **inputs: npt.ArrayLike) -> Subject:
    """A layer of this engine, in float64."""
    engine.load()
    problem = layer_problem(layer, inputs, engine=engine.capabilities.name)
    return Subjects(engine, problem).bound("float64")


def assert_computes(
    lifted: Lifted,
    subject: Subject,
    moved: Mapping[str, Array],
    rtol: float = 1e-12,
    atol: float = 1e-14,
) -> None:
    """Assert that the program has the layer's value when these leaves are moved."""
    own = {leaf.name: leaf.value for leaf in subject.leaves}
    given = {word_of(name): value for name, value in {**own, **moved}.items()}
    value = PlainFunction(lifted.program, "float64")({**given, **lifted.constants})
    np.testing.assert_allclose(value.ravel(), subject.value(moved), rtol=rtol, atol=atol)


def behaviour(layer: Any, inputs: Mapping[str, npt.ArrayLike], **settings: Any) -> dict[str, str]:
    """The findings of the checks of behaviour: code -> message."""
    answer = examined(layer, inputs, behaviour=True, **settings)
    assert answer.failure is None
    found = {finding.code: finding.message for finding in answer.findings}
    assert len(found) == len(answer.findings), "a code is told once"
    return found


def bound_layer(layer: Any, inputs: Mapping[str, npt.ArrayLike], **settings: Any) -> BoundLayer:
    """A NumPy layer, an object with `forward` and `backward`, as it is examined."""
    problem = layer_problem(layer, inputs, **settings)
    mine = replace(problem.implementation, engine="numpy", target="layer")
    problem = replace(problem, implementation=mine)
    subjects = Subjects(NumpyEngine(), problem)
    narrow = subjects.bound(problem.dtype)
    return BoundLayer("numpy", problem, narrow, subjects.highest(narrow), subjects.bound)
