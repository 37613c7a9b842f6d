"""A run as its listeners see it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.events import EngineReady, Event, Finished, SpecFinished, Started
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import Report, SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines import devices
from gradcheck_cli.run.executors import local
from gradcheck_cli.run.session import run
from gradcheck_cli.run.workers import crew
from gradcheck_cli.run.workers.pool import Pool

Read = Callable[[str], Spec]
GOOD = "name: good\ninputs: {x: 2.0}\nmodel: x ** 2\n"
BAD = "name: bad\ninputs: {bad: 2.0}\nmodel: bad ** 2\n"  # a fake engine misbehaves here
WRONG = """
name: wrong
inputs: {x: 1.0}
model: |
  def f_vjp(upstream, x):
      return -upstream * exp(x)
  @custom_gradient(f_vjp)
  def f(x):
      return exp(x)
  f(x)
"""

pytestmark = pytest.mark.usefixtures("forked")


def _options(*engines: str, **settings: Any) -> RunOptions:
    return RunOptions(engines=Layered(override=engines), **settings)


def _events(specs: Iterable[Spec], options: RunOptions) -> list[Event]:
    return list(run(specs, options))


def _report(events: Iterable[Event]) -> Report:
    last = list(events)[-1]
    assert isinstance(last, Finished)
    return last.report


def _codes(result: SpecResult) -> set[tuple[str, str | None]]:
    return {(finding.code, finding.engine) for finding in result.findings}


def test_events_come_in_order(spec: Read) -> None:
    specs = [spec(GOOD.replace("good", f"spec{i}")) for i in range(5)]
    events = _events(specs, _options("reference"))
    assert isinstance(events[0], Started)
    assert (events[0].specs, events[0].engines) == (5, ("reference",))
    (ready,) = (event for event in events if isinstance(event, EngineReady))
    assert ready.engine == "reference"
    finished = [event.result for event in events if isinstance(event, SpecFinished)]
    assert [result.spec for result in finished] == [one.name for one in specs]
    report = _report(events)
    assert report.results == tuple(finished)
    assert list(report.engines) == ["reference"]
    assert not report.interrupted


def test_many_specs_finish_while_others_are_read(
    spec: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_AHEAD", 2)
    specs = [spec(GOOD.replace("good", f"spec{i}")) for i in range(6)]
    events = _events(specs, _options("reference", jobs=1))
    kinds = [type(event) for event in events if not isinstance(event, EngineReady)]
    assert kinds.index(Started) == 4
    finished = [event.result for event in events if isinstance(event, SpecFinished)]
    assert [result.spec for result in finished] == [one.name for one in specs]
    assert _report(events).results == tuple(finished)


DRAWN = """
inputs:
  x: {shape: [12, 3], distribution: normal}
  w: {shape: [3, 3], distribution: normal}
order: 2
model: sum(tanh(x @ w) ** 2)
"""  # inputs, and directions of second derivatives


@pytest.mark.exhaustive
def test_what_is_drawn_does_not_depend_on_the_number_of_workers(
    spec: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "USUAL_TASK_S", 100.0)  # a second worker pays at once
    specs = [spec(f"name: drawn{i}\n{DRAWN}") for i in range(3)]
    one, two, other = (
        [_without_times(result) for result in _report(run(specs, options)).results]
        for options in (
            _options("reference", jobs=1, seed=5),
            _options("reference", jobs=2, seed=5),
            _options("reference", jobs=1, seed=6),
        )
    )
    assert two == one != other


def _without_times(result: SpecResult) -> SpecResult:
    checks = tuple(replace(check, duration_s=0.0) for check in result.checks)
    return replace(result, duration_s=0.0, checks=checks)


def test_a_right_spec_passes_with_its_numbers(spec: Read) -> None:
    (result,) = _report(run([spec(GOOD)], _options("reference"))).results
    assert result.status == "passed"
    assert {(c.dtype, c.mode) for c in result.checks} == {
        (dtype, mode) for dtype in ("float32", "float64") for mode in ("reverse", "forward")
    }
    assert result.readings[0].output == 4.0
    assert result.readings[0].gradients == {"x": 4.0}


def test_a_wrong_spec_fails_and_can_be_repeated(spec: Read) -> None:
    (result,) = _report(run([spec(WRONG)], _options("reference"))).results
    assert result.status == "failed"
    assert _codes(result) == {("GC101", "reference")}
    assert all("--engine reference" in finding.repeat for finding in result.findings)


def test_pictures_are_made_of_the_first_point_where_they_are_requested(spec: Read) -> None:
    text = "inputs: {x: 100.0}\nmodel: 1 / exp(x)\npoints: [{x: 1.0}, {x: 100.0}]"
    (plain,) = _report(run([spec(GOOD)], _options("reference"))).results
    assert (plain.graphs, plain.curve) == ((), None)
    drawn = _options("reference", illustrated=True)
    right, unstable = _report(run([spec(GOOD), spec(text)], drawn)).results
    (graph,) = right.graphs
    assert (graph.engine, graph.dtype, graph.mode) == ("reference", "float64", "reverse")
    assert float(graph.derivatives[graph.program.inputs["x"]]) == 4
    assert right.curve is not None
    assert [line.scheme for line in right.curve.lines] == ["forward", "central"]
    assert unstable.curve is not None
    assert {graph.point for graph in unstable.graphs} == {0, 1}  # of the second, of an engine


def test_of_a_layer_the_pictures_are_those_of_its_lift(spec: Read) -> None:
    text = "inputs: {x: [0.5, 2.0]}\nimplementations: {torch: 'torch:sinh'}"
    (result,) = _report(run([spec(text)], _options("torch", illustrated=True))).results
    (graph,) = result.graphs
    assert (graph.lifted, graph.engine, graph.dtype) == ("torch", "reference", "float64")
    assert graph.derivatives[graph.program.inputs["x"]] == pytest.approx(np.cosh([0.5, 2.0]))
    assert result.curve is not None
    errors = {line.scheme: line.best[1] for line in result.curve.lines if line.best}
    assert errors["central"] < errors["forward"] < 1e-6


@pytest.mark.parametrize(
    ("engine", "code", "words"),
    [
        ("raising", "GC701", "RuntimeError: the framework says no"),
        ("segfault", "GC702", "the worker process was killed by SIGSEGV"),
        ("hanging", "GC703", "gave no answer within 1 s"),
        ("unloadable", "GC701", "unloadable cannot be imported: ImportError: libfake.so.3"),
        ("refused", "GC701", "refused cannot be used: its framework is built without CUDA"),
    ],
)
def test_a_failing_engine_is_a_finding_and_the_rest_stands(
    spec: Read, fakes: dict[str, str], engine: str, code: str, words: str
) -> None:
    options = _options("reference", engine, timeout=Layered(override=1.0))
    first, second = _report(run([spec(BAD), spec(GOOD)], options)).results
    assert _codes(first) == {(code, engine)}
    assert first.findings[0].message.startswith(words)
    passed = {c.engine for c in first.checks if c.status == "passed"}
    assert passed == {"reference"}
    assert len([r for r in first.readings if r.engine == "reference"]) == 4
    if engine not in ("unloadable", "refused"):  # the next spec has a new worker
        assert second.status == "passed"
        assert {c.engine for c in second.checks} == {"reference", engine}


def test_training_reports_where_it_ended(spec: Read) -> None:
    text = (
        "name: trained\ninputs: {w: 1.0}\nmodel: w ** 2\n"
        "train: {optimizer: {sgd: {lr: 0.25}}, steps: 2, parameters: [w]}\n"
    )
    (result,) = _report(run([spec(text)], _options("reference"))).results
    assert result.status == "passed"
    assert [t.dtype for t in result.trainings] == ["float32", "float64"]
    assert result.trainings[1].parameters == {"w": 0.25}
    assert result.trainings[1].loss == 0.0625
    assert result.trainings[1].steps == 2


def test_engine_that_dies_in_training_is_a_finding(spec: Read, fakes: dict[str, str]) -> None:
    text = BAD + "train: {optimizer: {sgd: {lr: 0.25}}, steps: 2, parameters: [bad]}\n"
    (result,) = _report(run([spec(text)], _options("reference", "segfault"))).results
    assert ("GC702", "segfault") in _codes(result)
    assert {t.engine for t in result.trainings} == {"reference"}


def test_truth_needs_the_reference_worker_only(spec: Read, fakes: dict[str, str]) -> None:
    report = _report(run([spec(WRONG)], _options("raising")))
    assert list(report.engines) == ["raising"]
    assert _codes(report.results[0]) == {("GC101", "raising")}


def test_fail_fast_stops_after_the_first_failure(spec: Read) -> None:
    specs = [spec(GOOD), spec(WRONG), spec(GOOD)]
    events = _events(specs, _options("reference", fail_fast=True))
    results = [event.result.spec for event in events if isinstance(event, SpecFinished)]
    assert results == ["good", "wrong"]
    assert [result.spec for result in _report(events).results] == ["good", "wrong"]


def test_no_specs_at_all() -> None:
    events = _events([], _options("reference"))
    assert [type(event) for event in events] == [Started, Finished]


def test_unknown_engine_stops_before_anything_runs(spec: Read) -> None:
    with pytest.raises(UsageError, match="unknown engine `refrence`"):
        _events([spec(GOOD)], _options("refrence"))
    with pytest.raises(UsageError, match="unknown engine `refrence`"):
        _events([replace(spec(GOOD), engines=("refrence",))], RunOptions())


def test_broken_entry_point_is_told_once(
    spec: Read, fakes: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = tmp_path / "fakes" / "fake_engines-1.0.dist-info" / "entry_points.txt"
    points.write_text("[gradcheck.engines]\ngone = fake_engines:Nowhere\n")
    monkeypatch.setattr("gradcheck_cli.run.plan.default_engines", lambda _: ["reference"])
    specs = [spec(GOOD + "modes: [reverse]\n"), spec(GOOD + "modes: [reverse]\n")]
    first, second = _report(run(specs, RunOptions(dtypes=Layered(override=("float64",))))).results
    assert first.status == second.status == "passed"
    assert [note for note in first.notes if "`gone` cannot be used" in note]
    assert second.notes == ()


def test_each_device_has_a_worker_of_its_own(
    spec: Read, fakes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "cuda_devices", lambda: (2, ""))
    far = "inputs: {far: 2.0}\nmodel: far ** 2\ndevice: cuda:1\nmatmul_precision: tf32\n"
    report = _report(_events([spec(far), spec(GOOD)], _options("ongpu")))
    assert [_codes(result) for result in report.results] == [set(), set()]
    assert [result.notes for result in report.results] == [
        ("computed on cuda:1; float32 products in tf32 precision",),
        (),
    ]


def test_refused_mode_is_an_error_where_it_was_named(spec: Read, fakes: dict[str, str]) -> None:
    options = _options("onemode", modes=Layered(override=("forward",)))
    (result,) = _report(run([spec(GOOD)], options)).results
    assert _codes(result) == {("GC705", "onemode")}
    assert result.status == "failed"


def test_interruption_hands_over_what_is_done(spec: Read, fakes: dict[str, str]) -> None:
    specs = [spec(GOOD), spec(BAD), spec(GOOD)]
    events = run(specs, _options("reference", "hanging"))
    seen = []
    for event in events:
        seen.append(event)
        if isinstance(event, SpecFinished):
            break
    start = time.monotonic()
    last = events.throw(KeyboardInterrupt())  # type: ignore[attr-defined]
    assert time.monotonic() - start < 5.0
    assert isinstance(last, Finished)
    assert last.report.interrupted
    assert [result.spec for result in last.report.results] == ["good"]
    with pytest.raises(StopIteration):
        next(events)


def test_a_pool_serves_the_run_after_a_bad_one(spec: Read) -> None:
    def broken() -> Iterator[Spec]:
        yield spec(GOOD)
        raise RuntimeError("unreadable")

    options = _options("reference")
    pool = Pool()
    with pytest.raises(RuntimeError, match="unreadable"):
        list(run(broken(), options, pool))
    report = _report(run([spec(GOOD)], options, pool))
    pool.close()
    assert [result.status for result in report.results] == ["passed"]


def test_interruption_while_specs_are_read(spec: Read) -> None:
    def specs() -> Iterator[Spec]:
        yield spec(GOOD)
        raise KeyboardInterrupt

    report = _report(run(specs(), _options("reference")))
    assert report.interrupted


_SCRIPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # else a background job is deaf
from gradcheck_cli import specfile
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.events import EngineReady, Finished
from gradcheck_cli.run.session import run
specs, _ = specfile.read(sys.argv[1])
for event in run(specs, RunOptions(engines=Layered(override=(sys.argv[2], "reference")))):
    if isinstance(event, EngineReady):
        print("ready", flush=True)
    if isinstance(event, Finished):
        print("interrupted", event.report.interrupted, flush=True)
"""


def _started(engine: str, path: str) -> subprocess.Popen[str]:
    """A run in a process of its own, with both of its workers ready and one of them stuck."""
    script = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, path, engine],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert script.stdout is not None
    assert [script.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
    time.sleep(0.5)  # for the task to arrive
    return script


def _workers(pid: int) -> list[int]:
    found = [
        child
        for thread in Path(f"/proc/{pid}/task").iterdir()
        for child in (thread / "children").read_text().split()
    ]
    return [int(child) for child in found]


def _all_gone(pids: list[int], alive: Callable[[int], bool]) -> bool:
    deadline = time.monotonic() + 5.0
    while any(alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("engine", ["hanging", "deaf"])
@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGINT])
def test_no_orphan_is_left(
    spec: Read,
    fakes: dict[str, str],
    alive: Callable[[int], bool],
    engine: str,
    deadly: signal.Signals,
) -> None:
    script = _started(engine, spec(BAD).source.path)
    workers = _workers(script.pid)
    assert len(workers) == 2
    script.send_signal(deadly)
    out, _ = script.communicate(timeout=10)
    if deadly == signal.SIGINT:
        assert out == "interrupted True\n"
    assert _all_gone(workers, alive)


UNSTABLE = "name: unstable\ninputs: {x: 100.0}\nmodel: 3 * (1 / exp(x))\ndtypes: [float32]\n"


def test_a_defect_comes_with_a_fix_that_every_engine_tried(spec: Read) -> None:
    (result,) = _report(_events([spec(UNSTABLE)], _options("reference", "torch"))).results
    fixes = {finding.engine: finding.fix for finding in result.findings}
    assert set(fixes) == {"reference", "torch"}
    for fix in fixes.values():
        assert fix is not None
        assert fix.model == "3 * exp(-x)"
        assert fix.right == fix.points == 8


def test_a_screening_that_breaks_is_an_error_beside_the_finding(
    spec: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradcheck_cli.explain.fixes import trials

    def broken(*parts: object) -> object:
        return "no request"

    monkeypatch.setattr(trials, "request", broken)
    (result,) = _report(_events([spec(UNSTABLE)], _options("reference"))).results
    assert _codes(result) == {("GC201", "reference"), ("GC706", None)}
    assert all(finding.fix is None for finding in result.findings)


def test_a_judge_that_breaks_is_an_error_of_that_spec_alone(
    spec: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradcheck_cli.checks import protocol

    honest = protocol.judge

    def broken(case: Case) -> object:
        return 1 / 0 if case.spec.name == "good" else honest(case)

    monkeypatch.setattr(protocol, "judge", broken)
    good, wrong = _report(_events([spec(GOOD), spec(WRONG)], _options("reference"))).results
    assert (good.status, wrong.status) == ("failed", "failed")
    assert _codes(good) == {("GC706", None)}
    assert _codes(wrong) == {("GC101", "reference")}
    (message,) = {finding.message for finding in good.findings}
    assert message.startswith("the numbers could not be judged: ZeroDivisionError")


def test_a_training_that_cannot_be_judged_is_an_error_of_that_spec_alone(
    spec: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradcheck_cli.checks import training

    def broken(case: object) -> object:
        return 1 / 0

    monkeypatch.setattr(training, "judge_training", broken)
    trained = GOOD + "train: {optimizer: {sgd: {lr: 0.25}}, steps: 2, parameters: [x]}\n"
    first, second = _report(_events([spec(trained), spec(GOOD)], _options("reference"))).results
    assert (first.status, second.status) == ("failed", "passed")
    assert _codes(first) == {("GC706", None)}
    assert [finding.dtype for finding in first.findings] == ["float32", "float64"]


def test_a_truth_that_breaks_in_its_worker_is_an_error(
    spec: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradcheck_cli.run import plan

    honest = plan.TruthRequest

    def nobody(*parts: Any, **named: Any) -> object:
        return replace(honest(*parts, **named), wrt=("nobody",))

    monkeypatch.setattr(plan, "TruthRequest", nobody)
    (result,) = _report(_events([spec(GOOD)], _options("reference"))).results
    assert result.status == "failed"
    assert _codes(result) == {("GC706", None)}
    assert not any(check.status == "passed" for check in result.checks)
    assert any("KeyError" in finding.detail for finding in result.findings)
