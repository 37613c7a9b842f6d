"""A run on a cluster of two nodes on this machine is a run like any other."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import distributed
import pytest
from distributed import KilledWorker

from gradcheck_cli import specfile
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.events import EngineReady, Finished, Notice
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.report import Check, Report, SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run.executor import Examined
from gradcheck_cli.run.executors.cluster import Cluster, _Queue
from gradcheck_cli.run.session import run
from gradcheck_cli.version import VERSION

LAYERS = """
class Scale:
    def forward(self, x):
        return 2 * x

    def backward(self, y_bar, x):
        return 3 * y_bar
"""
SPEC = "name: s{0}\ninputs: {{x: {0}.5}}\nmodel: 1 / exp(100 * x)\nengines: [reference]\n"
LAYER = "name: layer\ninputs: {x: [1.0, 2.0]}\nimplementations: {numpy: layers.py:Scale}\n"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs="ERROR",
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("project")
    (made / "layers.py").write_text(LAYERS)
    (made / "specs.yaml").write_text("---\n".join([*map(SPEC.format, range(4)), LAYER]))
    return made


@pytest.fixture
def specs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Spec]:
    monkeypatch.chdir(folder)
    found, errors = specfile.read("specs.yaml")
    assert not errors
    return list(found)


_here: list[Report] = []


def _local(specs: list[Spec]) -> Report:
    """What a run on this machine finds, run once."""
    if not _here:
        _here.append(_report(specs))
    return _here[0]


def _report(specs: list[Spec], **settings: Any) -> Report:
    *_, last = run(specs, RunOptions(**settings))
    assert isinstance(last, Finished)
    return last.report


def _lasting(results: Iterable[SpecResult]) -> list[str]:
    """Without times."""
    return [repr(replace(one, duration_s=0.0, checks=_timeless(one))) for one in results]


def _timeless(result: SpecResult) -> tuple[Check, ...]:
    return tuple(replace(check, duration_s=0.0) for check in result.checks)


@pytest.mark.exhaustive
def test_the_report_is_that_of_a_local_run(address: str, specs: list[Spec]) -> None:
    here, there = _local(specs), _report(specs, cluster=address)
    assert _lasting(there.results) == _lasting(here.results)
    assert there.engines == here.engines


def _examined(
    executor: Cluster, specs: list[Spec], after_first: Callable[[], None] = lambda: None
) -> tuple[list[SpecResult], list[str]]:
    """Results in order, and notices."""
    for number, spec in enumerate(specs):
        executor.submit(number, spec)
    found: dict[int, SpecResult] = {}
    notices = []
    while len(found) < len(specs):
        message = executor.next()
        if isinstance(message, Notice):
            notices.append(message.text)
        if isinstance(message, Examined):
            if not found:
                after_first()
            found[message.number] = message.result
    executor.close()
    return [found[number] for number in sorted(found)], notices


@pytest.mark.exhaustive
def test_an_engine_that_a_node_lacks_is_used_on_the_other(address: str, specs: list[Spec]) -> None:
    executor = Cluster(RunOptions(cluster=address))
    executor.start()
    poor, other = executor._nodes
    rich = executor._nodes
    executor._nodes = {name: {"reference": VERSION} for name in rich}
    with pytest.raises(UsageError, match="no node of the cluster has all engines of `layer`"):
        executor.submit(0, specs[-1])
    executor._nodes[other] = rich[other]
    executor._used.clear()
    found, notices = _examined(executor, specs)
    assert notices == [f"numpy is missing on {poor}"]
    assert _lasting(found) == _lasting(_local(specs).results)


@pytest.mark.exhaustive
def test_the_specs_of_a_node_that_is_lost_run_on_another(address: str, specs: list[Spec]) -> None:
    executor = Cluster(RunOptions(cluster=address))
    executor.start()
    nodes = executor._client.run(os.getpid)
    victim = next(iter(nodes.values()))
    found, _ = _examined(executor, specs, lambda: os.kill(victim, signal.SIGKILL))
    assert _lasting(found) == _lasting(_local(specs).results)


class Losing:
    """A client whose nodes are lost with every batch. Notes how many specs each has."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def nthreads(self) -> dict[str, int]:
        return {"node": 1}

    def submit(self, examine: object, parcel: bytes, **where: object) -> Future[Any]:
        self.sizes.append(len(pickle.loads(parcel)[2].specs))
        lost: Future[Any] = Future()
        lost.release = lambda: None  # type: ignore[attr-defined]
        lost.set_exception(KilledWorker("batch", SimpleNamespace(address="node"), 3))
        return lost


def test_specs_that_nodes_are_lost_with_go_one_by_one(specs: list[Spec]) -> None:
    executor = Cluster(RunOptions(cluster="there"))
    executor._client = client = Losing()
    executor._threads, executor._nodes = {"node": 1}, {"node": {"reference": VERSION}}
    for number in range(8):
        executor.submit(number, specs[number % 4])
    ready, *found = [executor.next() for _ in range(9)]
    assert ready == EngineReady("reference", VERSION, 0.0)
    assert max(client.sizes) > 1
    assert client.sizes.count(1) == 8
    assert {one.number for one in found if isinstance(one, Examined)} == set(range(8))
    codes = {f.code for one in found if isinstance(one, Examined) for f in one.result.findings}
    assert codes == {Codes.ENGINE_CRASHED}


def test_batches_grow_with_what_waits_and_shrink_with_what_a_spec_takes() -> None:
    queue = _Queue(("reference",))
    queue.waiting.extend(range(400))
    assert queue.size(threads=2) == 20  # nothing is known of the time
    queue.done, queue.spent_s = 20, 0.2
    assert queue.size(threads=2) == 100
    queue.spent_s = 60.0
    assert queue.size(threads=2) == 1


@pytest.mark.exhaustive
def test_a_cluster_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradcheck_cli.run.executors.cluster._CONNECT_S", 0.2)
    with pytest.raises(UsageError, match=r"--cluster: tcp://127.0.0.1:9 cannot be reached"):
        Cluster(RunOptions(cluster="tcp://127.0.0.1:9")).start()


@pytest.mark.exhaustive
@pytest.mark.usefixtures("address")
def test_a_cluster_here_is_quiet_beside_another(
    specs: list[Spec], recwarn: pytest.WarningsRecorder
) -> None:
    report = _report(specs[:1], cluster="local", jobs=1)
    assert [str(one.message) for one in recwarn] == []
    assert len(report.results) == 1


@pytest.mark.exhaustive
def test_nodes_here_ignore_an_interrupt_of_the_terminal() -> None:
    """All its processes are sent one, and the run ends its nodes itself."""
    before = signal.getsignal(signal.SIGINT)
    cluster = Cluster(RunOptions(cluster="local", jobs=1))
    cluster.start()
    try:
        there = cluster._client.run(signal.getsignal, signal.SIGINT)
        assert set(there.values()) == {signal.SIG_IGN}
        assert signal.getsignal(signal.SIGINT) == before
    finally:
        cluster.close()


@pytest.mark.exhaustive
def test_an_interrupt_while_a_cluster_here_starts_ends_it_when_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = distributed.LocalCluster

    def interrupted(**settings: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return real(**settings)

    monkeypatch.setattr(distributed, "LocalCluster", interrupted)
    cluster = Cluster(RunOptions(cluster="local", jobs=1))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # xdist ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            cluster.start()
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(cluster._own.workers) == 1
    cluster.kill()
    assert not cluster._own.workers
