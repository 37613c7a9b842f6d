"""Workers that start before the run does."""

from __future__ import annotations

from gradcheck_cli.engines.entry_points import targets
from gradcheck_cli.run.workers.launch import adopt, prewarm_named


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
