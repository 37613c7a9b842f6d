"""The executor of a cluster: specs are examined on the nodes of Dask, by our workers there."""

from __future__ import annotations

import pickle
import queue
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gradcheck_cli.domain.codes import CODES, Codes
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.events import EngineReady, Notice
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.report import Finding, SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.wire import decode
from gradcheck_cli.engines.registry import engines, usual
from gradcheck_cli.run import node
from gradcheck_cli.run.cores import cores
from gradcheck_cli.run.executor import Examined
from gradcheck_cli.run.finalize import Found, settle
from gradcheck_cli.run.plan import Plan, make_plan
from gradcheck_cli.run.shipping import shipped
from gradcheck_cli.version import VERSION

LOCAL = "local"
_CONNECT_S = 30.0
_AHEAD = 256  # specs for each node: Dask takes what it is given at once


class Cluster:
    """Examines specs on the nodes of `options.cluster`: the address of a Dask scheduler, or `local`
    for a cluster of `options.jobs` nodes on this machine that ends with the run.

    A spec goes, with the code that its layers reach, to a node that has its engines. Dask gives it
    to another where a node is lost.
    """

    def __init__(self, options: RunOptions) -> None:
        self._address = options.cluster
        self._jobs = options.jobs or cores()
        self._options = replace(options, cluster="", resume="", jobs=1)
        self._run = uuid.uuid4().hex
        self._registered = engines()
        self._plans: dict[int, Plan] = {}  # of specs that are under way
        self._arrived: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._notices: list[Notice] = []
        self._nodes: dict[str, Mapping[str, str]] = {}
        self._used: dict[str, str] = {}
        self._client: Any = None
        self._own: Any = None  # cluster

    @property
    def ahead(self) -> int:
        return _AHEAD * max(len(self._nodes), 1)

    def start(self) -> None:
        try:
            from distributed import Client, LocalCluster
        except ImportError as error:
            raise UsageError(
                "--cluster needs dask.distributed, which is not installed",
                "pip install 'gradcheck-cli[cluster]'",
            ) from error
        address: Any = self._address
        if address == LOCAL:
            address = self._own = LocalCluster(
                n_workers=self._jobs,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                silence_logs="ERROR",
            )
        try:
            self._client = Client(address, timeout=_CONNECT_S, set_as_default=False)
            answers = self._client.run(node.engines_here)
        except (OSError, ValueError) as error:
            raise UsageError(f"--cluster: {self._address} cannot be reached: {error}") from error
        if not answers:
            raise UsageError(f"--cluster: {self._address} has no nodes")
        for name, (version, there) in answers.items():
            if version != VERSION:
                raise UsageError(f"{name} has gradcheck {version}, and this is {VERSION}")
            self._nodes[name] = there

    def submit(self, number: int, spec: Spec) -> None:
        plan = self._plans[number] = make_plan(spec, self._options, self._registered)
        able = [name for name, there in self._nodes.items() if there.keys() >= set(plan.engines)]
        for engine in plan.engines:
            self._use(engine)
        if not able:
            wanted = ", ".join(plan.engines)
            raise UsageError(f"no node of the cluster has all engines of `{spec.name}`: {wanted}")
        parcel = pickle.dumps((self._run, self._options, shipped(spec)))
        future = self._client.submit(
            node.examine,
            parcel,
            key=f"gradcheck-{self._run}-{number}",
            pure=False,
            workers=None if len(able) == len(self._nodes) else able,
            priority=-number,
        )
        future.add_done_callback(lambda done: self._arrived.put((number, done)))

    def next(self) -> Examined | EngineReady | Notice:
        if self._notices:
            return self._notices.pop()
        number, future = self._arrived.get()
        plan = self._plans.pop(number)
        from distributed import KilledWorker

        try:
            result = decode(future.result())
        except KilledWorker as error:
            return Examined(number, self._lost(plan, str(error)))
        future.release()
        if not isinstance(result, SpecResult):
            raise TypeError(f"a node answered with a {type(result).__name__}")
        return Examined(number, result)

    def engines(self) -> Mapping[str, str]:
        return dict(self._used)

    def close(self) -> None:
        for part in (self._client, self._own):
            if part is not None:
                part.close()

    def kill(self) -> None:
        self.close()

    def _use(self, engine: str) -> None:
        """Notes an engine, and once which nodes have none."""
        if engine in self._used:
            return
        there = {name: have[engine] for name, have in self._nodes.items() if engine in have}
        self._used[engine] = next(iter(there.values()), "")
        without = sorted(self._nodes.keys() - there.keys())
        if without and there:
            self._notices.append(Notice(f"{engine} is missing on {', '.join(without)}"))

    def _lost(self, plan: Plan, detail: str) -> SpecResult:
        """A spec whose nodes were lost each time, as those are that it takes all memory of."""
        row = CODES[Codes.ENGINE_CRASHED]
        words = "every node that examined it was lost"
        finding = Finding(row.code, row.severity, words, plan.spec.span, detail=detail)
        return settle(plan, self._options, usual(self._registered), Found(findings=[finding]))
