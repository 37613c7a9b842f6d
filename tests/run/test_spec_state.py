"""What comes back is kept where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.evaluation import Evaluation, Failure
from gradcheck_cli.domain.fixes import Screened
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.plan import make_plan
from gradcheck_cli.run.spec_state import Work, case_of, compilations, keep, new_work

Read = Callable[[str], Spec]


def work_on(spec: Spec) -> Work:
    registered = {"reference": engines()["reference"]}
    return new_work(make_plan(spec, RunOptions(modes=Layered(override=("reverse",))), registered))


def answer(mode: str = "reverse") -> Evaluation:
    return Evaluation("reference", "float32", "float32", mode, output=np.array(4.0))  # type: ignore[arg-type]


def test_a_case_has_what_was_kept_of_its_look(spec: Read) -> None:
    work = work_on(spec("name: good\ninputs: {x: 2.0}\nmodel: x ** 2\n"))
    assert case_of(work, 0).evaluations == ()
    keep(work, "first", 0, answer())
    keep(work, "traced", 0, answer())
    case = case_of(work, 0)
    assert [evaluation.engine for evaluation in case.evaluations] == ["reference"]
    assert ("reference", "reverse") in case.traced
    assert case_of(work, 1).evaluations == ()


def test_what_compiling_took_is_told_apart(spec: Read) -> None:
    work = work_on(spec("name: good\ninputs: {x: 2.0}\nmodel: x ** 2\n"))
    keep(work, "first", 0, answer())
    assert list(compilations(work)) == []
    keep(work, "first", 1, replace(answer(), compile_s=1.25))
    keep(work, "first", 1, replace(answer(), compile_s=0.5))
    assert list(compilations(work)) == ["reference: compiled in 1.8 s"]


def test_a_failed_second_look_leaves_the_first_as_it_is(spec: Read) -> None:
    work = work_on(spec("name: good\ninputs: {x: 2.0}\nmodel: x ** 2\n"))
    keep(work, "first", 0, answer())
    keep(work, "wide", 0, replace(answer(), failure=Failure("crashed", "gone")))
    assert case_of(work, 0).wide == {}
    assert len(case_of(work, 0).evaluations) == 1


def test_a_screening_that_failed_is_told_and_no_more(spec: Read) -> None:
    work = work_on(spec("name: good\ninputs: {x: 2.0}\nmodel: x ** 2\n"))
    keep(work, "screen", 0, Failure("timed-out", "gave no answer within 60 s"))
    assert list(work.notes) == ["no fix was tried: gave no answer within 60 s"]
    assert not work.screened
    keep(work, "screen", 1, Screened(()))
    assert set(work.screened) == {1}


def test_a_truth_that_is_late_is_told_and_one_that_crashes_is_a_mistake(spec: Read) -> None:
    work = work_on(spec("name: good\ninputs: {x: 2.0}\nmodel: x ** 2\n"))
    late, gone = (
        Failure("timed-out", "gave no answer within 60 s"),
        Failure("crashed", "was killed"),
    )
    keep(work, "truth", 0, late)
    keep(work, "truth", 1, gone)
    assert case_of(work, 0).no_truth == late
    assert case_of(work, 1).no_truth == replace(gone, kind="internal")
    assert len(work.notes) == 1
