"""Examinations of one spec go in step: what they ask is asked together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.evaluation import Evaluation, Failure, Problem, TrainingProblem
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.plan import make_plan
from gradcheck_cli.run.spec_state import Batch, Work

Read = Callable[[str], Spec]
SQUARE = "name: good\ninputs: {x: 2.0}\nmodel: x ** 2\n"


def work_on(spec: Spec) -> Work:
    registered = {"reference": engines()["reference"]}
    return Work(make_plan(spec, RunOptions(modes=Layered(override=("reverse",))), registered))


def answer(dtype: str) -> Evaluation:
    return Evaluation("reference", dtype, dtype, "reverse", output=np.array(4.0))


def kinds(batch: Batch) -> list[type]:
    return [type(question) for question in batch.questions]


def test_every_engine_and_the_truth_are_asked_once_about_all_looks(spec: Read) -> None:
    work = work_on(spec(SQUARE))
    own, truth = work.next_batches()
    assert (own.engine, truth.engine) == ("reference", None)
    assert kinds(own) == [Problem, Problem]
    assert kinds(truth) == [TruthRequest, TruthRequest]
    assert not work.done


def test_training_paths_are_asked_with_the_first_look(spec: Read) -> None:
    trained = SQUARE + "train: {optimizer: {sgd: {lr: 0.25}}, steps: 2, parameters: [x]}\n"
    own, truth = work_on(spec(trained)).next_batches()
    assert kinds(own) == [Problem] * 2 + [TrainingProblem] * 2
    assert kinds(truth) == [TruthRequest] * 2 + [TrainingProblem] * 4


def test_an_answer_reaches_the_look_that_asked(spec: Read) -> None:
    work = work_on(spec(SQUARE))
    own, truth = work.next_batches()
    for place, dtype in zip(own.places, ("float32", "float64"), strict=True):
        work.keep(place, answer(dtype))
    for place in truth.places:
        work.keep(place, Failure("timed-out", "gave no answer within 60 s"))
    assert work.next_batches() == []
    assert work.done
    assert [[one.dtype for one in look.case.evaluations] for look in work.looks] == [
        ["float32"],
        ["float64"],
    ]


def test_what_is_said_of_several_looks_is_one_note_each(spec: Read) -> None:
    work = work_on(spec(SQUARE))
    own, truth = work.next_batches()
    for place, dtype in zip(own.places, ("float32", "float64"), strict=True):
        work.keep(place, replace(answer(dtype), compile_s=1.25))
    for place in truth.places:
        work.keep(place, Failure("timed-out", "gave no answer within 60 s"))
    work.next_batches()
    assert list(dict.fromkeys(work.found().notes)) == [
        "the truth could not be computed: gave no answer within 60 s",
        "reference: compiled in 2.5 s",
    ]
