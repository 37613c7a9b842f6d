"""Searches in the tests' own process, on the reference engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from gradcheck_cli import specfile
from gradcheck_cli.checks.protocol import Steps, drive
from gradcheck_cli.domain.search import KINDS, GradientRequest, Kind, Search
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.kit.gradient_program import engine_program
from gradcheck_cli.engines.reference.engine import ReferenceEngine
from gradcheck_cli.search.box import Domain, domain_of
from gradcheck_cli.search.searching import Searching


def spec_of(inputs: str, model: str) -> Spec:
    """A spec. `inputs` is YAML of one line."""
    (spec,), mistakes = specfile.read("here.yaml", f"inputs: {inputs}\nmodel: {model}\n")
    assert not mistakes
    return spec


def domain_in(spec: Spec, dtype: str = "float32") -> Domain:
    """The domain of the spec in this dtype."""
    found = domain_of(spec.inputs, dtype)
    assert found is not None
    return found


def searched(
    spec: Spec,
    dtype: str = "float32",
    budget: float = 10.0,
    seed: int = 0,
    kinds: Sequence[Kind] = KINDS,
    whole: bool = False,
) -> dict[str, Search]:
    """The results of a search, by kind; if `whole`, with regions and simplified witnesses."""
    searching = Searching(spec, "reference", domain_in(spec, dtype), kinds, budget, seed)
    answering(searching.steps() if whole else searching.look())
    return {one.kind: one for one in searching.so_far().searches}


def answering(steps: Steps[Any]) -> Any:
    """The result of steps whose questions the reference engine answers."""
    return drive(steps, lambda ask: answer_of(ask.question))


def answer_of(question: Any, engine: Engine | None = None) -> Any:
    """The answer of an engine; of the reference engine by default."""
    engine = engine or reference()
    if isinstance(question, GradientRequest):
        return engine_program(engine, question.problem)
    return engine.evaluate(question)


@cache
def reference() -> ReferenceEngine:
    """The engine, loaded."""
    engine = ReferenceEngine()
    engine.load()
    return engine
