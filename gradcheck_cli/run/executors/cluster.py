"""The executor of a cluster: the nodes of Dask examine specs, each with workers of its own."""

from __future__ import annotations

import math
import multiprocessing
import pickle
import queue
import signal
import threading
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

from gradcheck_cli.domain.codes import CODES, Codes
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.events import EngineReady, Notice
from gradcheck_cli.domain.options import LOCAL, RunOptions
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding, SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.registry import default_engines, engines
from gradcheck_cli.run.executor import Examined
from gradcheck_cli.run.executors import node
from gradcheck_cli.run.executors.node import shipped
from gradcheck_cli.run.finalize import Found, settle
from gradcheck_cli.run.plan import make_plan
from gradcheck_cli.run.workers.pool import cores
from gradcheck_cli.version import VERSION

_CONNECT_S = 30.0
# Nodes of this machine are forks of a process that imports Dask once; Windows has none.
_FORKS = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_AHEAD = 256  # specs for each node
_SENT = 2  # batches for each thread of a node: the next is there when one is done
_BATCH_S = 2.0  # a batch: what is reported at once, and what is lost with a node
_USUAL_SPEC_S = 0.1  # until some were examined


def _start_forks() -> None:
    """Starts the process that nodes of this machine are forked from, while this one imports Dask:
    it imports Dask and gradcheck, once for all nodes. It and the nodes ignore Ctrl-C, which every
    process of a terminal is sent: this one ends them."""
    from multiprocessing import forkserver

    forkserver.set_forkserver_preload(["distributed", node.__name__])
    if threading.current_thread() is not threading.main_thread():  # which alone may set handlers
        forkserver.ensure_running()
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """The first signal that ends a run, such as Ctrl-C, arrives at the end of the block: Dask
    cannot close a cluster that is not there yet."""
    arrived: list[int] = []
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # which alone may set handlers
        numbers = [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")]
        for number in filter(None, numbers):
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, lambda which, _: arrived.append(which))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])


@dataclass(slots=True)
class _Queue:
    """The specs that need the same engines: which of them wait, how many batches are on nodes, and
    how many seconds the finished specs took."""

    engines: tuple[str, ...]
    waiting: deque[int] = field(default_factory=deque)
    sent: int = 0
    done: int = 0
    spent_s: float = 0.0

    def size(self, threads: int) -> int:
        """How many specs the next batch has. Batches shrink with the number of waiting specs, so
        that all nodes finish together (guided self-scheduling, Polychronopoulos and Kuck 1987)."""
        fair = math.ceil(len(self.waiting) / (_SENT * threads))
        spec_s = self.spent_s / self.done if self.done else _USUAL_SPEC_S
        return max(1, min(fair, int(_BATCH_S / max(spec_s, 1e-3))))


class Cluster:
    """Examines specs on the nodes of `options.cluster`. This is the address of a Dask scheduler, or
    `local` for a cluster of `options.jobs` nodes on this machine that ends with the run.

    Specs travel in batches, together with the code of their layers, to nodes that have their
    engines. If a node is lost, Dask gives its batches to other nodes.
    """

    def __init__(self, options: RunOptions) -> None:
        self._address = options.cluster
        self._jobs = options.jobs or cores()
        self._options = replace(options, cluster="", resume="", jobs=1)
        self._run = uuid.uuid4().hex
        self._registered = engines()
        self._specs: dict[int, Spec] = {}  # that are not finished
        self._queues: dict[tuple[str, ...], _Queue] = {}  # by engines
        self._arrived: queue.SimpleQueue[tuple[_Queue, Sequence[int], Any]] = queue.SimpleQueue()
        self._finished: deque[Examined] = deque()
        self._news: deque[EngineReady | Notice] = deque()
        self._nodes: dict[str, Mapping[str, str]] = {}  # engines with their versions
        self._threads: Mapping[str, int] = {}  # of each node
        self._used: dict[str, str] = {}
        self._client: Any = None
        self._own: Any = None  # cluster

    @property
    def ahead(self) -> int:
        return _AHEAD * max(len(self._nodes), 1)

    def start(self) -> None:
        if self._address == LOCAL and _FORKS == "forkserver":
            _start_forks()
        try:
            import dask
            from distributed import Client, LocalCluster
        except ImportError as error:
            raise UsageError(
                "--cluster needs dask.distributed, which is not installed",
                "pip install 'gradcheck-cli[cluster]'",
            ) from error
        address: Any = self._address
        if address == LOCAL:
            settings = {
                "distributed.worker.profile.enabled": False,
                "distributed.nanny.pre-spawn-environ": {},  # as many threads as in any other run
                "distributed.worker.multiprocessing-method": _FORKS,
            }
            with dask.config.set(settings), _signals_wait():
                address = self._own = LocalCluster(
                    n_workers=self._jobs,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",  # another cluster may have the usual port
                    scheduler_kwargs={"dashboard": False},
                    silence_logs="ERROR",
                )
        try:
            self._client = Client(address, timeout=_CONNECT_S, set_as_default=False)
            self._meet_nodes()
        except (OSError, ValueError) as error:
            raise UsageError(f"--cluster: {self._address} cannot be reached: {error}") from error
        if not self._nodes:
            raise UsageError(f"--cluster: {self._address} has no nodes")

    def _meet_nodes(self) -> None:
        """Updates the list of nodes, because a cluster may still be growing."""
        self._threads = self._client.nthreads()
        self._nodes = {name: self._nodes[name] for name in self._nodes if name in self._threads}
        new = [name for name in self._threads if name not in self._nodes]
        if not new:
            return
        answers = self._client.run(node.installed_versions, workers=new, on_error="return")
        for name, answer in answers.items():
            if isinstance(answer, OSError):  # it is lost again
                continue
            if isinstance(answer, Exception):
                raise answer
            version, there = answer
            if version != VERSION:
                raise UsageError(f"the node {name} runs gradcheck {version}, but this is {VERSION}")
            self._nodes[name] = there

    def _able(self, engines: Sequence[str]) -> list[str]:
        return [name for name, there in self._nodes.items() if there.keys() >= set(engines)]

    def submit(self, number: int, spec: Spec) -> None:
        plan = make_plan(spec, self._options, self._registered)
        for engine in plan.engines:
            self._use(engine)
        if not self._able(plan.engines):
            wanted = ", ".join(plan.engines)
            raise UsageError(f"no node of the cluster has all engines of `{spec.name}`: {wanted}")
        self._specs[number] = spec
        queue = self._queues.setdefault(plan.engines, _Queue(plan.engines))
        queue.waiting.append(number)
        self._send(queue)

    def next(self) -> Examined | EngineReady | Notice:
        while not self._finished:
            if self._news:
                return self._news.popleft()
            self._receive(*self._arrived.get())
        return self._finished.popleft()

    def _send(self, queue: _Queue) -> None:
        """Sends waiting specs until no node with their engines is about to run out of work."""
        threads = sum(self._threads[name] for name in self._able(queue.engines))
        while queue.waiting and queue.sent < _SENT * max(threads, 1):
            size = queue.size(max(threads, 1))
            self._post(queue, [queue.waiting.popleft() for _ in range(size)])

    def _post(self, queue: _Queue, numbers: Sequence[int]) -> None:
        queue.sent += 1
        able = self._able(queue.engines)
        parcel = shipped([self._specs[number] for number in numbers])
        future = self._client.submit(
            node.examine,
            pickle.dumps((self._run, self._options, parcel)),
            key=f"gradcheck-{self._run}-{numbers[0]}-{len(numbers)}",
            pure=False,
            workers=None if len(able) == len(self._nodes) else able,
            priority=-numbers[0],
        )
        future.add_done_callback(lambda done: self._arrived.put((queue, numbers, done)))

    def _receive(self, queue: _Queue, numbers: Sequence[int], future: Any) -> None:
        """Takes the results of a batch. If nodes were lost with the batch, its specs are sent again
        one by one."""
        from distributed import KilledWorker

        queue.sent -= 1
        self._meet_nodes()
        try:
            seconds, results = future.result()
        except KilledWorker as error:
            if len(numbers) > 1:
                for number in numbers:
                    self._post(queue, [number])
                return
            seconds, results = 0.0, [self._result_of_lost(self._specs[numbers[0]], str(error))]
        future.release()
        for number, result in zip(numbers, results, strict=True):
            del self._specs[number]
            self._finished.append(Examined(number, result))
        queue.done += len(results)
        queue.spent_s += seconds
        self._send(queue)

    def engines(self) -> Mapping[str, str]:
        return dict(self._used)

    def close(self) -> None:
        for part in (self._client, self._own):
            if part is not None:
                part.close()

    def kill(self) -> None:
        self.close()

    def _use(self, engine: str) -> None:
        """Notes that an engine is in use, and once which nodes lack it. A node starts an engine
        when it first needs it."""
        if engine in self._used:
            return
        there = {name: have[engine] for name, have in self._nodes.items() if engine in have}
        self._used[engine] = next(iter(there.values()), "")
        self._news.append(EngineReady(engine, self._used[engine], 0.0))
        without = sorted(self._nodes.keys() - there.keys())
        if without and there:
            self._news.append(Notice(f"{engine} is missing on {', '.join(without)}"))

    def _result_of_lost(self, spec: Spec, detail: str) -> SpecResult:
        """The result of a spec whose node was lost at every attempt, as happens if the spec takes
        all memory of a node."""
        plan = make_plan(spec, self._options, self._registered)
        row = CODES[Codes.ENGINE_CRASHED]
        words = "every node that examined it was lost"
        finding = Finding(row.code, row.severity, words, spec.span, detail=detail)
        return settle(
            plan, self._options, default_engines(self._registered), Found(findings=[finding])
        )
