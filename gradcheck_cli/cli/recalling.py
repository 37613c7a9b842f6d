"""A run that reuses cached results, and caches its own for later runs."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gradcheck_cli.cli.shard import Shard
from gradcheck_cli.cli.streams import talk
from gradcheck_cli.domain.events import EngineReady, Event, Finished, SpecFinished, Started
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.report import Report, SpecResult
from gradcheck_cli.run.kept_results import KeptResults
from gradcheck_cli.run.result_cache import Recalled, ResultCache
from gradcheck_cli.version import VERSION

if TYPE_CHECKING:
    from gradcheck_cli.domain.report import SpecError
    from gradcheck_cli.domain.spec import Spec


class Recall:
    """The files of a run: those with known results, and those that must run (`files`). `options`
    are those of the run; findings in known results are subtracted from the baseline. `errors` are
    the mistakes in files that were read; nothing is kept of such a file. `shard` is the part of the
    specs that runs."""

    def __init__(
        self,
        options: RunOptions,
        files: Iterable[str],
        errors: Sequence[SpecError],
        shard: Shard,
        *,
        user_code: bool,
    ) -> None:
        self._cache = ResultCache(options, part=shard.name)
        self._elsewhere = shard.left_out
        self._errors = errors
        self._order: dict[str, Recalled | None] = {}
        self._specs: dict[str, list[Spec]] = {}  # by unfinished file
        self._fresh: dict[str, list[SpecResult]] = {}
        self._engines: dict[str, str] = {}
        self._told = KeptResults()
        self._keeps = True
        baseline = Counter(options.baseline)
        for file in files:
            known = self._recall_file(file)
            if known and (
                not _baseline_counts(known) <= baseline or (known.layers and not user_code)
            ):
                known = None
            self._order[file] = known
            if known is None:
                continue
            baseline -= _baseline_counts(known)
            self._elsewhere[file] = known.elsewhere
            if options.fail_fast and any(one.status == "failed" for one in known.results):
                break
        self._ahead = deque(self._order)  # files whose results are not reported yet
        self.files = [file for file, known in self._order.items() if known is None]
        self._reading = self.files[0] if self.files else None
        self.code = [file for known in self._order.values() if known for file in known.code]
        self.options = replace(options, baseline=dict(baseline))

    def _recall_file(self, file: str) -> Recalled | None:
        if not os.path.isfile(file):  # standard input, or a pipe: it can be read once
            return None
        try:
            with open(file, "rb") as stream:
                text = stream.read()
        except OSError:
            return None  # the reader says why
        return self._cache.recall(file, text)

    def record(self, specs: Iterable[Spec]) -> Iterator[Spec]:
        """The specs that run, which are recorded by their files."""
        for spec in specs:
            self._reading = spec.source.path
            self._specs.setdefault(self._reading, []).append(spec)
            yield spec
        self._reading = None

    def events(self, run: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """The events of a run, together with those of recalled specs, in the order of the files. An
        exception that is thrown in between two events is passed on to the run."""
        thrown: BaseException | None = None
        while True:
            event = run.throw(thrown) if thrown else next(run)
            thrown = None
            for one in self._among(event):
                if isinstance(one, SpecFinished):
                    self._told.append(one.result)
                try:
                    yield one
                except KeyboardInterrupt as error:
                    thrown = error
                    break
            if isinstance(event, Finished):
                return

    def _among(self, event: Event) -> Iterator[Event]:
        """The event, together with the recalled events that belong next to it."""
        if isinstance(event, Started):
            known = sum(len(one.results) for one in self._order.values() if one)
            yield replace(event, specs=event.specs + known)
            yield from self._results_ahead()
        elif isinstance(event, SpecFinished):
            yield from self._results_ahead()
            yield event
            self._keep(event.result)
            if not (self.options.fail_fast and event.result.status == "failed"):
                yield from self._results_ahead()
        elif isinstance(event, Finished):
            versions = dict(event.report.engines)
            for recalled in filter(None, self._order.values()):
                versions |= recalled.engines
            yield Finished(replace(event.report, engines=versions, results=self._told))
        else:
            if isinstance(event, EngineReady):
                self._engines[event.engine] = event.version
            yield event

    def _results_ahead(self) -> Iterator[SpecFinished]:
        """The recalled results that follow the reported ones, up to the next file that runs."""
        while self._ahead:
            file = self._ahead[0]
            known = self._order[file]
            if known is None and (file == self._reading or file in self._specs):
                return
            self._ahead.popleft()
            if known is not None:
                yield from map(SpecFinished, known.results)

    def _keep(self, result: SpecResult) -> None:
        """Cache the results of a file when all of its specs are finished."""
        file = result.source.path
        results = self._fresh.setdefault(file, [])
        results.append(result)
        if file == self._reading or len(results) < len(self._specs[file]):
            return
        specs = self._specs.pop(file)
        del self._fresh[file]
        if self._keeps and not any(error.path == file for error in self._errors):
            try:
                self._cache.keep(specs, results, self._engines, self._elsewhere[file])
            except OSError as error:
                self._keeps = False
                talk(f"results cannot be cached in {self._cache.folder}: {error.strerror}")

    def close(self) -> None:
        """Remove old cache entries, after the run."""
        if self._engines and self._keeps:
            self._cache.forget_old()


def nothing_to_run(options: RunOptions) -> Generator[Event, None, None]:
    """The events of a run without specs, for which no engine starts."""
    start = time.monotonic()
    yield Started(0, ())
    yield Finished(Report(VERSION, {}, options.seed, time.monotonic() - start))


def _baseline_counts(known: Recalled) -> Counter[str]:
    """The findings in known results that count against a baseline."""
    return Counter(
        finding.fingerprint
        for result in known.results
        for finding in result.suppressed
        if finding.reason.startswith("baseline ")
    )
