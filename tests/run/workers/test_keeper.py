"""Workers that die, hang and shout: each costs its own task, in bounded time, and nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import Evaluation, Problem
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.run.workers import keeper as keeper_module
from gradcheck_cli.run.workers import process as process_module
from gradcheck_cli.run.workers.pool import Pool
from gradcheck_cli.run.workers.task import Done, Imported, Task
from tests.forked_workers import origins

pytestmark = pytest.mark.usefixtures("forked")

START_S = 30.0  # for a worker to start on a busy machine; it takes 0.2 s on an idle one


def _problem(input_name: str = "x") -> Problem:
    """x^2 at 3; a fake engine misbehaves where the input is called `bad`."""
    program = parse(f"{input_name} ** 2", inputs={input_name: Argument(())}).program
    assert program is not None
    values = {input_name: np.array(3.0)}
    return Problem(program, values, (input_name,), "float64", "float64", "reverse")


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool()
    yield made
    made.kill()


def _collect(pool: Pool, count: int) -> list[Done]:
    found: list[Done] = []
    while len(found) < count:
        message = pool.results.get(timeout=START_S)
        if isinstance(message, Done):
            found.append(message)
    return found


def _run(pool: Pool, fakes: dict[str, str], name: str, timeout: float = START_S) -> list[Done]:
    """A task with a good and a bad question, and then a good task."""
    pool.start(name, fakes[name])
    pool.submit(Task("first", name, [_problem(), _problem("bad")], timeout))
    pool.submit(Task("second", name, [_problem()], timeout))
    return _collect(pool, 2)


def _is_six(answer: Any) -> bool:
    assert isinstance(answer, Evaluation)
    (gradient,) = answer.gradients.values()
    return bool(gradient.values[0, 0] == 6.0)


def test_exception_of_an_engine_is_an_answer(pool: Pool, fakes: dict[str, str]) -> None:
    first, second = _run(pool, fakes, "raising")
    assert first.failure is None
    assert _is_six(first.answers[0])
    assert first.answers[1].failure.kind == "raised"
    assert first.answers[1].failure.message == "RuntimeError: the framework says no"
    assert _is_six(second.answers[0])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("segfault", "the worker process was killed by SIGSEGV"),
        ("aborting", "the worker process was killed by SIGABRT"),
        ("gone", "the worker process exited with code 7"),
    ],
)
def test_death_costs_only_what_was_not_answered(
    pool: Pool, fakes: dict[str, str], name: str, words: str
) -> None:
    first, second = _run(pool, fakes, name)
    assert _is_six(first.answers[0])
    assert len(first.answers) == 1
    assert first.failure is not None
    assert (first.failure.kind, first.failure.message) == ("crashed", words)
    assert second.failure is None
    assert _is_six(second.answers[0])


def test_death_costs_no_question_after_it(
    pool: Pool, fakes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["x", "bad", "x", "bad", "x"]
    monkeypatch.setattr(keeper_module, "_MOST_CRASHES", 2)
    pool.start("segfault", fakes["segfault"])
    pool.submit(Task("all", "segfault", [_problem(name) for name in names], START_S))
    pool.submit(Task("too often", "segfault", [_problem("bad")] * 4, START_S))
    done, hopeless = _collect(pool, 2)
    assert done.failure is None
    for name, answer in zip(names, done.answers, strict=True):
        if name == "bad":
            words = "the worker process was killed by SIGSEGV"
            assert (answer.failure.kind, answer.failure.message) == ("crashed", words)
        else:
            assert _is_six(answer)
    assert len(hopeless.answers) == 2
    assert hopeless.failure is not None


def test_a_crash_of_a_compiled_engine_has_its_way_round(pool: Pool, fakes: dict[str, str]) -> None:
    pool.start("torch-compile", fakes["segfault"])
    pool.submit(Task("one", "torch-compile", [_problem("bad")], START_S))
    (done,) = _collect(pool, 1)
    assert done.failure is not None
    assert done.failure.message == (
        "the worker process was killed by SIGSEGV; `--engine torch` checks the same without its "
        "compiler"
    )


def test_last_words_are_kept(pool: Pool, fakes: dict[str, str]) -> None:
    failure = _run(pool, fakes, "aborting")[0].failure
    assert failure is not None
    assert "last words" in failure.detail
    assert "misbehave" in failure.detail  # the traceback of faulthandler


def test_what_is_no_exception_of_a_fault_is_an_answer_too(
    pool: Pool, fakes: dict[str, str]
) -> None:
    first, second = _run(pool, fakes, "exiting")
    assert first.answers[1].failure.message == "it called sys.exit(7)"
    assert _is_six(second.answers[0])


def test_memory_has_a_limit(pool: Pool, fakes: dict[str, str]) -> None:
    pool.start("hoarding", fakes["hoarding"])
    pool.submit(Task("few", "hoarding", [_problem("bad")], START_S, memory=0.05))
    pool.submit(Task("enough", "hoarding", [_problem("bad")], START_S, memory=1.0))
    first, second = _collect(pool, 2)
    assert first.failure is not None
    assert first.failure.kind == "out-of-memory"
    assert first.failure.message == "took more than 0.05 GB of memory"
    assert _is_six(second.answers[0])


def test_a_machine_that_runs_out_of_memory_ends_who_takes_it(
    pool: Pool, fakes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "NOTABLE", 5e7)
    monkeypatch.setattr(process_module.memory, "is_scarce", lambda: True)
    pool.start("hoarding", fakes["hoarding"])
    pool.submit(Task("bad", "hoarding", [_problem("bad")], START_S, memory=16.0))
    (done,) = _collect(pool, 1)
    assert done.failure is not None
    assert done.failure.kind == "out-of-memory"
    assert done.failure.message.endswith("and the machine has almost none left")


def test_what_a_compiler_takes_does_not_count(
    pool: Pool, fakes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.start("compiler", fakes["compiler"])
    pool.submit(Task("warm", "compiler", [_problem()], START_S))
    _collect(pool, 1)
    pool.submit(Task("long", "compiler", [_problem("bad"), _problem(), _problem("bad")], 1.0))
    (done,) = _collect(pool, 1)
    assert done.failure is None
    assert all(map(_is_six, done.answers))
    monkeypatch.setattr(process_module, "COMPILING_LIMIT_S", 0.3)  # nor is it without end
    pool.submit(Task("stuck", "compiler", [_problem("bad")], 1.0))
    (done,) = _collect(pool, 1)
    assert done.failure is not None
    assert done.failure.kind == "timed-out"


@pytest.mark.parametrize(
    ("name", "line"),
    [("hanging", "time.sleep(3600)"), ("deaf", "ctypes.PyDLL(None).sleep(3600)")],
)
def test_time_is_up(pool: Pool, fakes: dict[str, str], name: str, line: str) -> None:
    pool.start(name, fakes[name])
    pool.submit(Task("warm", name, [_problem()], START_S))
    _collect(pool, 1)
    start = time.monotonic()
    pool.submit(Task("hang", name, [_problem(), _problem("bad")], 0.5))
    (done,) = _collect(pool, 1)
    assert 0.4 < time.monotonic() - start < 5.0
    assert done.failure is not None
    assert (done.failure.kind, done.failure.message) == ("timed-out", "gave no answer within 0.5 s")
    assert done.failure.place is not None
    assert done.failure.place.text == line
    assert "in misbehave" in done.failure.detail
    assert _is_six(done.answers[0])


def test_what_hung_once_gets_less_time_again(pool: Pool, fakes: dict[str, str]) -> None:
    pool.start("hanging", fakes["hanging"])
    for group in (1, 1, 1, 2):
        pool.submit(Task(group, "hanging", [_problem("bad")], 0.4, group=group))
    found = [done.failure.message for done in _collect(pool, 4) if done.failure]
    limits = [f"gave no answer within {limit} s" for limit in ("0.4", "0.2", "0.4")]
    limits.insert(2, "was skipped: it had already timed out 2 times")
    assert found == limits


def test_import_does_not_count_for_the_time_of_a_task(pool: Pool, fakes: dict[str, str]) -> None:
    pool.start("slow", fakes["slow"])  # it takes 1.5 s to start, and a millisecond for x^2
    pool.submit(Task("quick", "slow", [_problem()], 1.0))
    (done,) = _collect(pool, 1)
    assert done.failure is None


def test_flood_of_prints_breaks_nothing(
    pool: Pool, fakes: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    first, second = _run(pool, fakes, "chatty")
    assert _is_six(first.answers[1])
    assert _is_six(second.answers[0])
    assert capfd.readouterr() == ("", "")


def test_prints_are_shown_on_standard_error_when_asked(
    fakes: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    pool = Pool(show_output=True)
    try:
        _run(pool, fakes, "chatty")
    finally:
        pool.close()
    out, err = capfd.readouterr()
    assert out == ""
    assert "out out" in err
    assert "fd one" in err
    assert "fd two" in err


def test_channel_cannot_be_faked(pool: Pool, fakes: dict[str, str]) -> None:
    first, second = _run(pool, fakes, "vandal")
    assert first.failure is not None
    assert first.failure.kind == "crashed"
    assert "channel" in first.failure.message
    assert _is_six(second.answers[0])


@pytest.mark.parametrize("name", ["forging", "announcing"])
def test_what_is_no_answer_runs_nothing_here(pool: Pool, fakes: dict[str, str], name: str) -> None:
    first, second = _run(pool, fakes, name)
    assert first.failure is not None
    assert first.failure.kind == "crashed"
    assert "broke its channel" in first.failure.message
    assert _is_six(second.answers[0])


def test_a_child_that_comes_back_from_a_fork_answers_nothing(
    pool: Pool, fakes: dict[str, str]
) -> None:
    pool.start("forking", fakes["forking"])
    for key in range(20):  # each forks, and asks another question
        pool.submit(Task(key, "forking", [_power("bad", key), _power("x", key)], START_S))
    for done in _collect(pool, 20):
        assert done.failure is None
        for answer in done.answers:
            assert answer.gradients[next(iter(answer.gradients))].values[0, 0] == done.task.key


def _power(name: str, factor: int) -> Problem:
    """Its gradient is the factor."""
    program = parse(f"{name} * {factor}", inputs={name: Argument(())}).program
    assert program is not None
    values = {name: np.array(3.0)}
    return Problem(program, values, (name,), "float64", "float64", "reverse")


def test_an_answer_to_another_question_is_not_taken(pool: Pool, fakes: dict[str, str]) -> None:
    first, second = _run(pool, fakes, "repeating")
    assert _is_six(first.answers[0])
    assert first.failure is not None
    assert "its answer matches no question" in first.failure.message
    assert _is_six(second.answers[0])


def test_a_crash_is_blamed_on_who_crashes_alone(pool: Pool, fakes: dict[str, str]) -> None:
    """What the questions of one spec left in the worker is not the next one's fault."""
    pool.start("burdened", fakes["burdened"])
    pool.submit(Task(1, "burdened", [_problem("bad")], START_S, group=1))
    pool.submit(Task(2, "burdened", [_problem()], START_S, group=2))
    first, second = _collect(pool, 2)
    assert first.failure is None
    assert second.failure is None
    assert _is_six(second.answers[0])


def test_a_crash_at_a_later_question_is_not_lost_beside_others(
    pool: Pool, fakes: dict[str, str]
) -> None:
    """A worker of its own is asked all that the spec asked before, and crashes there again."""
    pool.start("tired", fakes["tired"])
    pool.submit(Task(1, "tired", [_problem()], START_S, group=1))
    pool.submit(Task(2, "tired", [_problem("bad")], START_S, group=2))
    pool.submit(Task(3, "tired", [_problem("bad")], START_S, group=2))
    first, second, third = _collect(pool, 3)
    assert first.failure is None
    assert second.failure is None
    assert third.failure is not None
    assert third.failure.kind == "crashed"


def test_memory_is_that_of_children_too(pool: Pool, fakes: dict[str, str]) -> None:
    pool.start("growing", fakes["growing"])
    pool.submit(Task("few", "growing", [_problem("bad")], START_S, memory=0.1))
    (done,) = _collect(pool, 1)
    assert done.failure is not None
    assert done.failure.kind == "out-of-memory"


@pytest.mark.parametrize("how", ["close", "kill", "crash"])
def test_what_has_left_its_session_ends_with_the_worker(
    fakes: dict[str, str],
    tmp_path: Path,
    alive: Callable[[int], bool],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    monkeypatch.setenv("RUNAWAY", how)
    pool = Pool()
    try:
        _run(pool, fakes, "runaway")
        child = int((tmp_path / "child_pid").read_text())
        assert how == "crash" or alive(child)
        if how == "close":
            pool.close()
    finally:
        if how != "close":
            pool.kill()
    _wait_until(lambda: not alive(child))


def test_worker_is_started_again_only_for_further_tasks(
    pool: Pool, fakes: dict[str, str], tmp_path: Path
) -> None:
    pool.start("counted", fakes["counted"])
    pool.submit(Task(1, "counted", [_problem("bad")], START_S))
    _collect(pool, 1)
    time.sleep(0.3)  # nothing happens
    assert (tmp_path / "imports").read_text().count("imported") == 1
    pool.submit(Task(2, "counted", [_problem()], START_S))
    assert _is_six(_collect(pool, 1)[0].answers[0])
    assert (tmp_path / "imports").read_text().count("imported") == 2


def test_death_at_import_fails_every_task_and_does_not_loop(
    pool: Pool, fakes: dict[str, str], tmp_path: Path
) -> None:
    first, second = _run(pool, fakes, "stillborn")
    for done in (first, second):
        assert done.answers == []
        assert done.failure is not None
        assert done.failure.kind == "crashed"
        assert done.failure.message == (
            "the worker process was killed by SIGSEGV while stillborn was being imported"
        )
    assert (tmp_path / "imports").read_text().count("imported") == 2


def test_exception_at_import_fails_every_task(pool: Pool, fakes: dict[str, str]) -> None:
    for done in _run(pool, fakes, "unloadable"):
        assert done.failure is not None
        assert done.failure.kind == "raised"
        assert done.failure.message == (
            "unloadable cannot be imported: "
            "ImportError: libfake.so.3: cannot open shared object file"
        )


def test_import_has_a_limit(
    pool: Pool, fakes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "IMPORT_LIMIT_S", 0.0)
    first, _ = _run(pool, fakes, "counted")
    assert first.failure is not None
    assert first.failure.kind == "timed-out"
    assert first.failure.message == "counted was not imported within 0 s"


def test_ready_is_told_once(pool: Pool, fakes: dict[str, str]) -> None:
    pool.start("segfault", fakes["segfault"])
    pool.submit(Task(1, "segfault", [_problem("bad")], START_S))
    pool.submit(Task(2, "segfault", [_problem()], START_S))
    kinds = [type(pool.results.get(timeout=START_S)) for _ in range(3)]
    assert kinds == [Imported, Done, Done]


def test_lower_priority_goes_first(pool: Pool, fakes: dict[str, str]) -> None:
    pool.start("raising", fakes["raising"])
    for number in (3, 1, 2):  # before the worker can be ready
        pool.submit(Task(number, "raising", [_problem()], START_S, priority=number))
    assert [done.task.key for done in _collect(pool, 3)] == [1, 2, 3]


def test_engines_work_at_the_same_time(pool: Pool, fakes: dict[str, str]) -> None:
    for name in ("hanging", "deaf"):
        pool.start(name, fakes[name])
        pool.submit(Task("warm", name, [_problem()], START_S))
    _collect(pool, 2)
    start = time.monotonic()
    for name in ("hanging", "deaf"):
        pool.submit(Task("slow", name, [_problem("bad")], 2.0))
    _collect(pool, 2)
    assert time.monotonic() - start < 3.5  # and not four seconds


def test_what_a_worker_started_dies_with_it(
    pool: Pool, fakes: dict[str, str], tmp_path: Path, alive: Callable[[int], bool]
) -> None:
    pool.start("parent", fakes["parent"])
    pool.submit(Task(1, "parent", [_problem("bad")], 2.0))
    (done,) = _collect(pool, 1)
    assert done.failure is not None
    assert done.failure.kind == "timed-out"
    child = int((tmp_path / "child_pid").read_text())
    _wait_until(lambda: not alive(child))


def test_kill_leaves_no_process(fakes: dict[str, str], alive: Callable[[int], bool]) -> None:
    others = _children()  # of tests before
    pool = Pool()
    for name in ("hanging", "deaf", "raising"):
        pool.start(name, fakes[name])
        pool.submit(Task(name, name, [_problem("bad")], START_S))
    _collect(pool, 1)  # raising has answered; the others hang, or are about to
    start = time.monotonic()
    mine = _children() - others
    pool.kill()
    assert time.monotonic() - start < 5.0
    assert mine
    assert not [pid for pid in mine if alive(pid)]


def test_close_leaves_no_process(fakes: dict[str, str], alive: Callable[[int], bool]) -> None:
    others = _children()
    pool = Pool()
    _run(pool, fakes, "raising")
    mine = _children() - others
    pool.close()
    assert mine
    assert not [pid for pid in mine if alive(pid)]


def test_questions_that_cannot_travel_fail_their_task_only(
    pool: Pool, fakes: dict[str, str]
) -> None:
    pool.start("raising", fakes["raising"])
    pool.submit(Task(1, "raising", [lambda: None], START_S))
    pool.submit(Task(2, "raising", [_problem()], START_S))
    first, second = _collect(pool, 2)
    assert first.failure is not None
    assert "could not be asked" in first.failure.message
    assert _is_six(second.answers[0])


def test_large_questions_and_answers_pass(pool: Pool, fakes: dict[str, str]) -> None:
    size = 300_000  # several times what a pipe holds, in both directions
    program = parse("x * x", inputs={"x": Argument((size,))}).program
    assert program is not None
    x = np.arange(float(size))
    rows = np.ones((1, size))
    problem = _problem()
    big = Problem(
        program, {"x": x}, ("x",), "float64", "float64", "reverse", type(problem.projection)(rows)
    )
    pool.start("raising", fakes["raising"])
    pool.submit(Task(1, "raising", [big, big], START_S))
    (done,) = _collect(pool, 1)
    assert done.failure is None
    np.testing.assert_array_equal(done.answers[1].gradients["x"].values[0], 2 * x)


@pytest.mark.parametrize("end", [Pool.kill, Pool.close])
def test_a_pool_whose_workers_have_ended_starts_fresh_ones(
    pool: Pool, fakes: dict[str, str], end: Callable[[Pool], None]
) -> None:
    others = _children()
    assert _run(pool, fakes, "raising")[1].failure is None
    end(pool)
    assert _children() <= others
    first, second = _run(pool, fakes, "raising")
    assert (first.task.key, second.task.key) == ("first", "second")
    assert _is_six(second.answers[0])


def _children() -> set[int]:
    """Those of this process, but for what stays for all tests, which one of them starts."""
    found = set()
    for thread in Path(f"/proc/{os.getpid()}/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that ended since
            found |= {int(pid) for pid in (thread / "children").read_text().split()}
    return found - origins


def _wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
