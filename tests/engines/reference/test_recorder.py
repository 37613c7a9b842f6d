"""What is written down of the reference engine: rows of the op table, below its tapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcheck_cli.domain.evaluation import Problem, TraceRequest
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.execution import Execution
from gradcheck_cli.engines.kit import run_traced
from gradcheck_cli.engines.kit.adapter import ProgramEngine

X = np.array([0.3, -1.2, 2.1])


def _recorded(
    engine: Engine, program: Callable[..., Any], text: str, mode: Any
) -> tuple[Any, Execution]:
    assert isinstance(engine, ProgramEngine)
    made = program(text, {"x": X})
    problem = Problem(
        made,
        {"x": X},
        ("x",),
        "float32",
        "float32",
        mode,
        trace=TraceRequest(input="x", target=0.0),
    )
    framework, prepared = engine._prepare(made, "float32", "float32")
    assert problem.trace is not None
    return made, run_traced.recorded(framework, prepared, problem, problem.trace)


def test_rules_run_for_the_node_that_they_differentiate(
    engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> None:
    text = "a = tanh(x)\nsum(a / (1 + a * a))"
    made, execution = _recorded(engine_called("reference"), program, text, "reverse")
    needed = [execution.steps[i] for i in execution.needed()]
    places = {(s.name, made.nodes[s.node].text) for s in needed if s.phase == "backward"}
    assert ("sech_squared", "tanh(x)") in places
    assert ("divide", "a / (1 + a * a)") in places
    assert {text for _, text in places} >= {"a * a", "sum(a / (1 + a * a))"}
    forward = [(s.name, made.nodes[s.node].text) for s in needed if s.phase == "forward"]
    assert forward[0] == ("tanh", "tanh(x)")


def test_tangents_are_told_from_values(
    engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> None:
    _, execution = _recorded(engine_called("reference"), program, "exp(x) * sin(x)", "forward")
    phases = [(step.name, step.phase) for step in execution.steps]
    assert ("exp", "forward") in phases
    assert ("sin", "forward") in phases
    assert ("cos", "tangent") in phases


def test_what_is_written_down_is_what_runs(
    engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> None:
    """To the last bit, in both modes."""
    engine = engine_called("reference")
    text = "sum(softmax(x * 3) * log1p(x * x)) * norm(x)"
    for mode in ("reverse", "forward"):
        made, execution = _recorded(engine, program, text, mode)
        plain = engine.evaluate(
            Problem(made, {"x": X}, ("x",), "float32", "float32", mode)  # type: ignore[arg-type]
        )
        wanted = plain.gradients["x"].values
        assert wanted is not None
        assert execution.target is not None
        got = execution.values(execution.target).ravel()[execution.place]
        # the problem's values are those of float64; both runs round them alike
        assert got == wanted[0, 0]
