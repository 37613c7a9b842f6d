"""The worker: what cannot be loaded is said, what is raised is a failure, what travels is ours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.evaluation import Evaluation, Projection
from gradcheck_cli.domain.truth import Truth
from gradcheck_cli.run.workers import channel
from gradcheck_cli.run.workers.process import Process
from tests.conftest import program_of
from tests.run.workers.test_process import REFERENCE, START_S, problem


@contextmanager
def worker(target: str) -> Iterator[tuple[Process, channel.Message]]:
    process = Process(target, show_output=False)
    try:
        yield process, process.receive(time.monotonic() + START_S)
    finally:
        process.release()


def test_an_engine_that_does_not_exist_is_unusable_with_the_reason() -> None:
    with worker("gradcheck_cli.engines.reference.engine:Nobody") as (_, message):
        assert isinstance(message, channel.Unusable)
        assert "Nobody" in message.message


def test_what_an_engine_raises_is_a_failure_and_the_next_question_is_answered(
    fakes: dict[str, str],
) -> None:
    with worker(fakes["raising"]) as (process, message):
        assert isinstance(message, channel.Ready)
        process.ask([problem("bad"), problem("x")])
        bad, good = (process.answer(time.monotonic() + START_S) for _ in range(2))
    assert isinstance(bad, Evaluation)
    assert bad.failure is not None
    assert "the framework says no" in bad.failure.message
    assert isinstance(good, Evaluation)
    assert good.failure is None


def test_the_reference_engine_s_worker_computes_the_truth() -> None:
    program = program_of("x ** 2", {"x": 3.0})
    request = TruthRequest(
        program, {"x": np.array(3.0)}, {}, ("x",), "float64", {"reverse": Projection()}
    )
    with worker(REFERENCE) as (process, _):
        process.ask([request])
        truth = process.answer(time.monotonic() + START_S)
    assert isinstance(truth, Truth)
    assert truth.blocks["reverse", "x"].value.item() == 6.0


def test_a_failure_of_the_truth_is_our_own(fakes: dict[str, str]) -> None:
    program = program_of("x ** 2", {"x": 3.0})
    request = TruthRequest(program, {}, {}, ("x",), "float64", {"reverse": Projection()})
    with worker(REFERENCE) as (process, _):
        process.ask([request])
        failure = process.answer(time.monotonic() + START_S)
    assert "the truth could not be computed" in str(failure)
