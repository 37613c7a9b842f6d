"""A forked worker is a worker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradcheck_cli.engines.entry_points import targets
from gradcheck_cli.run.workers.launch import mark_of
from tests import forked_workers

from .cli.calling import call_here


@pytest.mark.parametrize("name", ["reference", "numpy", "torch"])
def test_it_is_a_child_with_a_session_and_a_mark_of_its_own(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever other tests have left in the environment of this process.
    monkeypatch.setattr(forked_workers, "_VARIABLES", forked_workers._variables())
    worker = forked_workers._forked_or_spawned(targets()[name])
    assert worker.args == "forked"
    assert os.getsid(worker.pid) == worker.pid
    assert mark_of(worker)
    assert worker.stdin is not None
    worker.stdin.close()
    assert worker.wait(10) == 0
    for stream in (worker.stdout, worker.stderr):
        assert stream is not None
        stream.close()


def test_it_answers_as_one_that_was_started(tmp_path: Path) -> None:
    words = ("run", "-", "--engine", "reference", "--quiet")
    spec = "{inputs: {x: 100}, model: 1 / exp(x)}"
    forked = call_here(*words, cwd=tmp_path, stdin=spec)
    # With other settings of NumPy nothing is forked.
    started = call_here(*words, cwd=tmp_path, stdin=spec, env={"OMP_NUM_THREADS": "1"})
    assert str(forked) == str(started)
    assert forked.code == 1
