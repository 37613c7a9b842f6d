"""What an explanation costs, in runs of the program; and that one that is not needed costs none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.engines.kit import run_traced
from gradcheck_cli.engines.trace import culprits
from gradcheck_cli.explain import findings
from gradcheck_cli.specfile import read
from tests.acceptance.test_blame import CASES
from tests.conftest import decide

ENGINES = ("reference", "torch")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a program was written down, the list run again, or run exactly."""
    counted: Counter[str] = Counter()

    def counting(owner: Any, name: str, what: str) -> None:
        function = getattr(owner, name)

        def counts(*args: Any, **keywords: Any) -> Any:
            counted[what] += 1
            return function(*args, **keywords)

        monkeypatch.setattr(owner, name, counts)

    counting(run_traced, "_reverse", "recorded")
    counting(culprits, "shadow", "exact")
    counting(culprits._Search, "_entry", "again")
    counting(culprits._Search, "_rounded", "again")
    counting(findings, "blame", "blamed")
    return counted


LOOKS = 2  # once more in the dtype, and once in another precision
MOST = 10


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("formula", "x"),
    [
        ("1 / exp(x)", 100.0),
        ("1 / exp(x)", 60.0),
        ("(exp(x) - 1) / x", 1e-4),
        ("log(1 + exp(x))", 100.0),
        ("sum(1 / exp(x))", np.array([1.0, 100.0, 3.0])),
    ],
)
def test_an_explanation_costs_less_than_ten_runs(
    judged: Callable[..., Any], runs: Counter[str], formula: str, x: Any, engine: str
) -> None:
    made = judged(formula, {"x": x}, engines=(engine,))
    assert made.findings[0].cause.proven
    assert runs["blamed"] == len(made.findings)
    assert LOOKS + runs["recorded"] + runs["again"] < MOST
    assert 1 <= runs["exact"] <= 2  # in float64, and in balls where that will not do


@pytest.mark.parametrize("name", CASES)
def test_nor_does_one_of_a_long_program(runs: Counter[str], name: str) -> None:
    specs, problems = read(f"{name}.yaml", CASES[name].text.strip() + "\n")
    assert problems == []
    spec = replace(specs[0], engines=("reference",), modes=("reverse",))
    assert decide(spec, "float32").findings
    assert LOOKS + runs["recorded"] + runs["again"] < MOST
    assert 1 <= runs["exact"] <= 2


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_right_is_run_once(
    judged: Callable[..., Any], runs: Counter[str], engine: str
) -> None:
    made = judged("tanh(x) * exp(-x)", {"x": 1.0}, engines=(engine,))
    assert made.findings == ()
    assert runs == Counter()


def test_the_search_is_given_no_more() -> None:
    assert LOOKS + 1 + culprits.RUNS < MOST
