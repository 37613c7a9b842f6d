"""The parent's end of a worker: whatever the worker does, the parent has an answer or an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import Evaluation, Problem
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.run.workers import channel
from gradcheck_cli.run.workers.process import Died, Process, TimedOut

START_S = 60.0
REFERENCE = "gradcheck_cli.engines.reference.engine:ReferenceEngine"


def problem(name: str = "x") -> Problem:
    program = parse(f"{name} ** 2", inputs={name: Argument(())}).program
    assert program is not None
    return Problem(program, {name: np.array(3.0)}, (name,), "float64", "float64", "reverse")


@pytest.fixture
def start() -> Iterator[Callable[[str], Process]]:
    made: list[Process] = []

    def started(target: str) -> Process:
        made.append(Process(target, show_output=False))
        assert isinstance(made[-1].receive(time.monotonic() + START_S), channel.Ready)
        return made[-1]

    yield started
    for one in made:
        one.release()


def ask(process: Process, *questions: Problem) -> object:
    process.ask(questions)
    return process.answer(time.monotonic() + START_S)


def test_answers_come_in_the_order_of_the_questions(start: Callable[[str], Process]) -> None:
    process = start(REFERENCE)
    first = ask(process, problem("x"), problem("y"))
    second = process.answer(time.monotonic() + START_S)
    assert isinstance(first, Evaluation)
    assert isinstance(second, Evaluation)
    assert list(first.gradients) == ["x"]
    assert list(second.gradients) == ["y"]


def test_a_worker_that_dies_says_how_and_what_it_printed_last(
    start: Callable[[str], Process], fakes: dict[str, str]
) -> None:
    process = start(fakes["aborting"])
    with pytest.raises(Died, match="SIGABRT"):
        ask(process, problem("bad"))
    assert "last words" in process.last_words


def test_a_code_of_exit_is_told(start: Callable[[str], Process], fakes: dict[str, str]) -> None:
    with pytest.raises(Died, match="exited with code 7"):
        ask(start(fakes["gone"]), problem("bad"))


def test_one_that_hangs_is_given_up_at_the_deadline_and_killed_at_once(
    start: Callable[[str], Process], fakes: dict[str, str]
) -> None:
    process = start(fakes["hanging"])
    process.ask([problem("bad")])
    with pytest.raises(TimedOut):
        process.answer(time.monotonic() + 0.2)
    process.kill()
    process.kill()  # may be called again
    with pytest.raises(Died, match="SIGKILL"):
        process.receive(time.monotonic() + START_S)
