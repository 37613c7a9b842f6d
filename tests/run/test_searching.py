"""Searches of several specs, whose workers are played by this test."""

from __future__ import annotations

import queue
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.evaluation import Failure
from gradcheck_cli.domain.options import Layered
from gradcheck_cli.domain.placement import HOST, Placement
from gradcheck_cli.domain.search import Search, SearchAnswer, SearchProgress
from gradcheck_cli.engines import devices
from gradcheck_cli.run import searching
from gradcheck_cli.run.searching import SearchOptions, search
from gradcheck_cli.run.workers.task import Done, SoFar, Task
from tests.search.searched import spec_of

SPEC = spec_of("{x: {value: 1, domain: [0, 1]}}", "x * x")
OPTIONS = SearchOptions(
    engines=Layered(override=("reference",)),
    dtypes=Layered(override=("float32",)),
    kinds=("undefined",),
)
PROVEN = SearchAnswer((Search("reference", "float32", "undefined", "proven-absent"),))


class Interrupted(queue.SimpleQueue[Any]):
    """After the last message, somebody types Ctrl-C."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if self.empty():
            raise KeyboardInterrupt
        return super().get()


class Played:
    """A pool of which each task is answered as the test says, the last one first."""

    plays: dict[int, Any]

    def __init__(self, jobs: int | None = None, show_output: bool = False) -> None:
        self.results = Interrupted()
        self._tasks: list[Task] = []

    def start(self, engine: str, target: str, placement: Placement) -> None:
        assert engine == "reference" or placement != HOST
        self.started = engine, placement

    def submit(self, task: Task) -> None:
        assert (task.engine, task.placement) == self.started
        self._tasks.insert(0, task)
        if len(self._tasks) == len(self.plays):
            for one in self._tasks:
                if (play := self.plays[one.priority]) is not None:
                    self.results.put(play(one))

    def forget(self, group: object) -> None:
        pass

    def close(self) -> None:
        pass

    kill = close


def _played(monkeypatch: pytest.MonkeyPatch, *plays: Any) -> list[str]:
    monkeypatch.setattr(Played, "plays", dict(enumerate(plays)), raising=False)
    monkeypatch.setattr(searching, "Pool", Played)
    found = []
    heard: list[SearchProgress] = []
    try:
        for result in search([SPEC] * len(plays), OPTIONS, heard.append):
            found += [f"{one.verdict} {one.why}".strip() for one in result.searches]
    except KeyboardInterrupt:
        found.append("Ctrl-C")
    assert len(heard) == sum(one in (_done, _so_far) for one in plays)
    return found


def _done(task: Task) -> Done:
    return Done(task, [PROVEN])


def _crashed(task: Task) -> Done:
    return Done(task, failure=Failure("crashed", "the worker process was killed"))


def _so_far(task: Task) -> SoFar:
    return SoFar(task, PROVEN)


def test_results_come_in_the_order_of_the_specs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _played(monkeypatch, _done, _crashed)
    assert found == ["proven-absent", "undecided the worker process was killed"]


def test_what_a_journal_has_is_not_searched_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = replace(OPTIONS, resume=str(tmp_path / "journal"))
    monkeypatch.setattr("tests.run.test_searching.OPTIONS", kept)
    broken = "undecided the worker process was killed"
    assert _played(monkeypatch, _crashed) == [broken]  # another search may get further
    assert _played(monkeypatch, _done) == ["proven-absent"]
    monkeypatch.setattr(Played, "submit", None)
    assert [one.searches for one in search([SPEC], kept)] == [PROVEN.searches]


def test_an_interruption_leaves_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _played(monkeypatch, _done, None, _so_far)
    why = "undecided it was interrupted"
    assert found == ["proven-absent", why, "proven-absent", "Ctrl-C"]


@pytest.mark.parametrize(("engine", "searches"), [("torch", 1), ("reference", 0)])
def test_the_device_of_a_spec_is_the_one_that_is_searched(
    engine: str, searches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that has none searches on the CPU."""
    monkeypatch.setattr(devices, "cuda_devices", lambda: (1, ""))
    monkeypatch.setattr(Played, "plays", {0: _done}, raising=False)
    monkeypatch.setattr(searching, "Pool", Played)
    on_a_gpu = replace(SPEC, device="cuda")
    options = replace(OPTIONS, engines=Layered(override=(engine,)))
    (found,) = search([on_a_gpu], options)
    assert [one.verdict for one in found.searches] == ["proven-absent"]
    assert list(found.notes) == ["computed on cuda; float32 products in full precision"] * searches


def test_a_device_that_is_not_there_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cuda_devices", lambda: (0, "there is none"))
    with pytest.raises(UsageError, match="there is no device `cuda` here: there is none"):
        list(search([replace(SPEC, device="cuda")], OPTIONS))
