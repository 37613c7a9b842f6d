"""Several workers of one engine: one queue, and the same answers as from one worker."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import Problem
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.run.workers import crew
from gradcheck_cli.run.workers.crew import Crew
from gradcheck_cli.run.workers.keeper import How
from gradcheck_cli.run.workers.pool import Pool
from gradcheck_cli.run.workers.task import Done, Task

pytestmark = pytest.mark.usefixtures("forked")

START_S = 30.0


def _problem(name: str = "x") -> Problem:
    program = parse(f"{name} ** 2", inputs={name: Argument(())}).program
    assert program is not None
    return Problem(program, {name: np.array(3.0)}, (name,), "float64", "float64", "reverse")


def _collect(pool: Pool, count: int) -> list[Done]:
    found: list[Done] = []
    while len(found) < count:
        message = pool.results.get(timeout=START_S)
        if isinstance(message, Done):
            found.append(message)
    return found


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(jobs=2)
    yield made
    made.kill()


@pytest.fixture
def growing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are thought to take long."""
    monkeypatch.setattr(crew, "USUAL_TASK_S", 100.0)


def _imports(tmp_path: Path) -> int:
    return (tmp_path / "imports").read_text().count("imported")


def test_a_worker_that_nobody_needed_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, pool: Pool, fakes: dict[str, str]
) -> None:
    """As where every spec has a mistake: the framework is still being imported."""
    monkeypatch.setenv("IMPORT_S", "3600")
    pool.start("slow", fakes["slow"])
    closing = Thread(target=pool.close, daemon=True)
    closing.start()
    closing.join(START_S)
    assert not closing.is_alive()


def test_short_work_starts_no_further_worker(
    pool: Pool, fakes: dict[str, str], tmp_path: Path
) -> None:
    pool.start("counted", fakes["counted"])
    short_s = 1e-9  # beside the start of a worker, even of one that is forked
    for number in range(20):
        task = Task(number, "counted", [_problem()], START_S, group=number, expected=short_s)
        pool.submit(task)
    assert all(done.failure is None for done in _collect(pool, 20))
    pool.close()
    assert _imports(tmp_path) == 1


@pytest.mark.usefixtures("growing")
def test_long_work_is_shared_and_a_death_costs_one_task(
    pool: Pool, fakes: dict[str, str], tmp_path: Path
) -> None:
    pool.start("hanging", fakes["hanging"])
    for number in range(2):  # each worker has one
        pool.submit(Task(("hangs", number), "hanging", [_problem("bad")], 2.0, group=number))
    for number in range(2, 12):
        pool.submit(Task(("fine", number), "hanging", [_problem()], START_S, group=number))
    kinds = {done.task.key: done.failure and done.failure.kind for done in _collect(pool, 12)}
    assert {key for key, kind in kinds.items() if kind} == {("hangs", 0), ("hangs", 1)}


class _Idle:
    """A worker that takes no tasks by itself."""

    is_ready = True
    held_bytes = 0

    def __init__(self, *_: object) -> None:
        self.forgotten: list[object] = []

    def start(self) -> None:
        pass

    def forget(self, group: object) -> None:
        self.forgotten.append(group)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> Crew:
    """A crew of two workers that are ready, with two tasks of each of two groups."""
    monkeypatch.setattr(crew, "USUAL_TASK_S", 100.0)
    monkeypatch.setattr(crew, "Keeper", _Idle)
    made = Crew(How("reference", ""), queue.SimpleQueue(), lambda count: count < 2)
    for group in (1, 2):
        for part in "ab":
            made.submit(Task(f"{group}{part}", "reference", [], 1.0, priority=group, group=group))
    return made


def _taken(idle: Crew, worker: int) -> str:
    task = idle.take(idle._keepers[worker])
    assert task is not None
    return str(task.key)


def test_one_long_task_that_waits_pays_for_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "Keeper", _Idle)
    made = Crew(How("reference", ""), queue.SimpleQueue(), lambda count: count < 2)
    made.submit(Task("short", "reference", [], 1.0, group=1))
    assert len(made._keepers) == 1
    made.submit(Task("long", "reference", [], 20.0, group=2, expected=10.0))
    assert len(made._keepers) == 2


def test_a_group_stays_with_the_worker_that_took_its_first_task(idle: Crew) -> None:
    assert [_taken(idle, 0), _taken(idle, 1)] == ["1a", "2a"]
    idle.submit(Task("1c", "reference", [], 1.0, priority=1, group=1))
    assert [_taken(idle, 1), _taken(idle, 0), _taken(idle, 0)] == ["2b", "1b", "1c"]


def test_who_leaves_hands_on_all_that_it_has(idle: Crew) -> None:
    first, _ = idle._keepers
    task = idle.take(first)
    assert idle.leave(first, task)
    assert [_taken(idle, 0) for _ in range(4)] == ["1a", "1b", "2a", "2b"]
    assert not idle.leave(idle._keepers[0])


def test_a_group_that_is_forgotten_is_nobodys(idle: Crew) -> None:
    _taken(idle, 0)
    idle.forget(1)
    assert idle._owners == {}
    assert _taken(idle, 1) == "1b"


def test_no_further_worker_without_memory(monkeypatch: pytest.MonkeyPatch, idle: Crew) -> None:
    idle._may_grow = lambda _: True
    monkeypatch.setattr(crew.memory, "available", lambda: 1.5 * crew.USUAL_BYTES)
    idle.submit(Task("more", "reference", [], 1.0, group=3))
    assert len(idle._keepers) == 2


@pytest.mark.usefixtures("growing")
def test_a_worker_that_cannot_start_leaves_its_tasks_to_the_others(
    pool: Pool, fakes: dict[str, str]
) -> None:
    pool.start("late", fakes["late"])
    for number in range(8):
        pool.submit(Task(number, "late", [_problem()], START_S, group=number))
    assert all(done.failure is None for done in _collect(pool, 8))


@pytest.mark.usefixtures("growing")
def test_what_is_forgotten_was_met_all_the_same(pool: Pool, fakes: dict[str, str]) -> None:
    """A crash is not counted where the worker has met another spec."""
    pool.start("burdened", fakes["burdened"])
    pool.submit(Task(1, "burdened", [_problem("bad")], START_S, group=1))
    _collect(pool, 1)
    pool.forget(1)
    pool.submit(Task(2, "burdened", [_problem()], START_S, group=2))
    (done,) = _collect(pool, 1)
    assert done.failure is None
