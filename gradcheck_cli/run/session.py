"""A run, from specs to events: an executor examines the specs, and the results come in order."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.events import Event, Finished, SpecFinished, Started
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.report import UNUSABLE, Report, SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.executor import Examined, Executor
from gradcheck_cli.run.executors.local import Local
from gradcheck_cli.run.kept_results import KeptResults
from gradcheck_cli.run.plan import choose_engines
from gradcheck_cli.run.workers.pool import Pool
from gradcheck_cli.version import VERSION


def run(specs: Iterable[Spec], options: RunOptions, pool: Pool | None = None) -> Iterator[Event]:
    """Checks `specs` and yields events: Started, EngineReady, SpecFinished (in the order of the
    specs), Finished.

    `specs` may still be reading files: each spec goes to the engines as soon as it is read, and
    Started follows when all are known. If there are more specs than the executor accepts ahead
    (`Executor.ahead`), the first finish before that. After KeyboardInterrupt, even between two
    events, Finished follows at once with what was done. Raises UsageError if an engine that was
    named is not available, and under `python -OO`.

    The run uses the workers of `pool`. If it ends in good order they stay for the caller; after any
    other end the pool is empty, and the next run starts new ones. `options` must be those that the
    pool was made with.
    """
    if sys.flags.optimize > 1:
        raise UsageError(
            "gradcheck cannot run under `python -OO`, which strips docstrings: its rewrite rules "
            "are written in them",
            "run it under `python` or `python -O`, and without PYTHONOPTIMIZE=2",
        )
    return _Session(options, pool).events(specs)


def _executor(options: RunOptions, pool: Pool | None) -> Executor:
    """The executor of a run. Raises UsageError if the journal cannot be written."""
    executor: Executor = Local(options, pool)
    if options.cluster:
        from gradcheck_cli.run.executors.cluster import Cluster

        executor = Cluster(options)
    if not options.resume:
        return executor
    from gradcheck_cli.run.journal import Journal, Journaled  # few runs have one

    return Journaled(executor, Journal(options.resume, options))


class _Session:
    def __init__(self, options: RunOptions, pool: Pool | None) -> None:
        self._options = options
        self._executor = _executor(options, pool)
        self._start = time.monotonic()
        self._submitted = 0
        self._early: dict[int, SpecResult] = {}  # those before them are not finished
        self._results = KeptResults()
        self._stopped = False  # by a spec that failed
        self._unnamed: int | None = None  # the first spec that names no engines

    def events(self, specs: Iterable[Spec]) -> Iterator[Event]:
        interrupted = False
        in_order = False
        try:
            self._executor.start()
            yield from self._follow(specs)
            in_order = len(self._results) == self._submitted
        except KeyboardInterrupt:
            interrupted = True
            for number in sorted(self._early):
                self._results.append(self._early[number])
        finally:
            (self._executor.close if in_order else self._executor.kill)()
        yield Finished(self._report(interrupted))

    def _follow(self, specs: Iterable[Spec]) -> Iterator[Event]:
        for spec in specs:
            self._executor.submit(self._submitted, spec)
            if self._unnamed is None:
                _, named = choose_engines(spec, self._options, engines())
                self._unnamed = None if named else self._submitted
            self._submitted += 1
            while self._submitted - len(self._results) > self._executor.ahead:
                yield from self._next_events()
                if self._stopped:
                    return
        yield Started(self._submitted, tuple(self._executor.engines()))
        while len(self._results) < self._submitted and not self._stopped:
            yield from self._next_events()

    def _next_events(self) -> Iterator[Event]:
        """The next event, and the results that need not wait any longer."""
        message = self._executor.next()
        if not isinstance(message, Examined):
            yield message
            return
        self._early[message.number] = message.result
        while not self._stopped and len(self._results) in self._early:
            result = self._early.pop(len(self._results))
            if len(self._results) == self._unnamed:
                result = replace(result, notes=(*result.notes, *_broken_engines()))
            self._results.append(result)
            self._stopped = self._options.fail_fast and result.status == "failed"
            yield SpecFinished(result)

    def _report(self, interrupted: bool) -> Report:
        return Report(
            version=VERSION,
            engines=self._executor.engines(),
            seed=self._options.seed,
            duration_s=time.monotonic() - self._start,
            results=self._results,
            interrupted=interrupted,
            fail_on=self._options.fail_on,
        )


def _broken_engines() -> list[str]:
    """Notes about entry points that cannot be used, once per run. To name such an engine is an
    error."""
    broken = {name: found.fault for name, found in engines().items() if found.engine is None}
    return [f"the engine `{name}` {UNUSABLE}: {fault}" for name, fault in broken.items()]
