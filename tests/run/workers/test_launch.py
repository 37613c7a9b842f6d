"""Workers that start before the run does."""

from __future__ import annotations

import pytest

from gradcheck_cli.engines.entry_points import targets
from gradcheck_cli.run.workers.launch import adopt, environment_of_worker, prewarm_named


def test_engines_that_are_named_start_at_once() -> None:
    prewarm_named(["finite-difference", "no-such-engine"])
    process = adopt(targets()["finite-difference"])
    assert process is not None
    assert process.poll() is None
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream is not None
        stream.close()
    assert adopt(targets()["finite-difference"]) is None, "each is taken over once"


def test_a_worker_has_few_threads_that_do_not_spin_unless_we_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY", "THP_MEM_ALLOC_ENABLE"):
        monkeypatch.delenv(name, raising=False)
    quiet = environment_of_worker()
    assert (quiet["OPENBLAS_NUM_THREADS"], quiet["OMP_WAIT_POLICY"]) == ("1", "passive")
    assert quiet["THP_MEM_ALLOC_ENABLE"] == "1"
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert environment_of_worker()["OMP_WAIT_POLICY"] == "active"
