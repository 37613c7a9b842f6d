"""What a run makes of a search: findings of the usual codes, with their regions and their fixes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.checks.protocol import Ask, drive
from gradcheck_cli.domain.evaluation import Failure
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.search import KINDS, Region, Search, SearchAnswer, SearchRequest, Witness
from gradcheck_cli.engines.reference.engine import ReferenceEngine
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.finalize import Found, settle
from gradcheck_cli.run.plan import make_plan
from gradcheck_cli.run.searched import Searched
from gradcheck_cli.run.workers import worker
from tests.search.searched import spec_of

SPEC = spec_of("{x: {value: 1, domain: [-20, 100]}}", "1 / exp(x)")
OPTIONS = RunOptions(
    engines=Layered(override=("reference",)), dtypes=Layered(override=("float32",))
)
REGION = Region(predicate="x >= 88.72284", fraction=0.094)


def _search(kind: str, verdict: str, **more: Any) -> Search:
    return Search("reference", "float32", kind, verdict, **more)  # type: ignore[arg-type]


def _answer(request: SearchRequest) -> Any:
    """Of the formula a failure at 90, of its fix a proof, as far as it goes."""
    if request.spec.program.text != SPEC.program.text:
        return SearchAnswer(tuple(_search(kind, "proven-absent") for kind in KINDS))
    witness = Witness({"x": np.array(90.0)}, "x", float("nan"), -8e-40)
    return SearchAnswer(
        (
            _search("gradient-nonfinite", "found", witness=witness, region=REGION),
            _search("undefined", "proven-absent"),
            _search("value-inaccurate", "undecided"),
        )
    )


def _searched(answer: Any = _answer) -> Searched:
    engine = ReferenceEngine()
    engine.load()

    def answered(ask: Ask) -> Any:
        if isinstance(ask.question, SearchRequest):
            return answer(ask.question)
        return worker._answer(engine, ask.question, lambda value: None)

    found = Searched(SPEC, 1.0, OPTIONS, engines())
    drive(found.steps(), answered)
    return found


def test_a_witness_is_judged_and_its_fix_is_searched() -> None:
    searched = _searched()
    plan = make_plan(SPEC, OPTIONS, engines())
    result = settle(plan, OPTIONS, (), Found(findings=searched.added_to([])))
    broken, unproven = result.findings
    assert (broken.code, broken.at) == ("GC201", ("x=90",))
    assert broken.repeat.endswith("--dtype float32 --mode reverse --at x=90 --seed 0")
    assert broken.search is not None
    assert broken.search.region == REGION
    assert broken.fix is not None
    assert broken.fix.searched is not None
    assert (broken.fix.after, broken.fix.searched.proven) == ("exp(-x)", KINDS)
    assert (unproven.code, unproven.severity) == ("GC504", "note")
    assert "value-inaccurate" in unproven.message
    assert searched.notes == ["reference float32: proven absent for every number: undefined"]


def test_what_a_point_shows_already_gets_the_region() -> None:
    searched = _searched()
    new = searched.added_to([])[0]
    known = replace(new, search=None, at=(), fix=None)
    other = replace(known, input="y")
    found: list[Finding] = searched.added_to([other, known])
    assert [one.at for one in found] == [(), (), ()]
    assert [one.search is not None for one in found] == [False, True, True]


def test_a_search_without_an_answer_proves_nothing() -> None:
    searched = _searched(lambda request: Failure("timed-out", "gave no answer within 70 s"))
    (found,) = searched.added_to([])
    assert found.code == "GC504"
    assert found.message.endswith("all six kinds of failure: gave no answer within 70 s")
