"""A run that takes what earlier runs found, and keeps what it finds for later ones."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gradcheck_cli.cli.streams import talk
from gradcheck_cli.domain.events import Event, Finished, SpecFinished, Started
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.place import STDIN
from gradcheck_cli.domain.report import Report, SpecResult
from gradcheck_cli.run.result_cache import Recalled, ResultCache
from gradcheck_cli.version import VERSION

if TYPE_CHECKING:
    from gradcheck_cli.domain.spec import Spec


class Recall:
    """The files of a run: those whose results are known, and those that have to run (`files`).
    `options` are those of the run; what known results take of a baseline is taken from it."""

    def __init__(self, options: RunOptions, files: Iterable[str], *, user_code: bool) -> None:
        self._cache = ResultCache(options)
        self._order: dict[str, Recalled | None] = {}
        self._specs: dict[str, list[Spec]] = {}
        self._fresh: dict[str, list[SpecResult]] = {}
        baseline = Counter(options.baseline)
        for file in files:
            known = self._known(file)
            if known and (not _taken(known) <= baseline or (known.layers and not user_code)):
                known = None
            self._order[file] = known
            if known is None:
                continue
            baseline -= _taken(known)
            if options.fail_fast and any(one.status == "failed" for one in known.results):
                break
        self.files = [file for file, known in self._order.items() if known is None]
        self.code = [file for known in self._order.values() if known for file in known.code]
        self.options = replace(options, baseline=dict(baseline))

    def _known(self, file: str) -> Recalled | None:
        if file == STDIN:
            return None
        try:
            with open(file, "rb") as stream:
                text = stream.read()
        except OSError:
            return None  # the reader says why
        return self._cache.recall(file, text)

    def noted(self, specs: Iterable[Spec]) -> Iterator[Spec]:
        """The specs that run, which are noted by their files."""
        for spec in specs:
            self._specs.setdefault(spec.source.path, []).append(spec)
            yield spec

    def events(self, run: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """The events of a run with those of recalled specs among them, in the order of the files.
        What is thrown in between two events is handed on to the run."""
        told: list[SpecResult] = []
        thrown: BaseException | None = None
        while True:
            event = run.throw(thrown) if thrown else next(run)
            thrown = None
            for one in self._among(event, told):
                if isinstance(one, SpecFinished):
                    told.append(one.result)
                try:
                    yield one
                except KeyboardInterrupt as error:
                    thrown = error
                    break
            if isinstance(event, Finished):
                return

    def _among(self, event: Event, told: Sequence[SpecResult]) -> Iterator[Event]:
        """The event, and what goes with it."""
        if isinstance(event, Started):
            known = sum(len(one.results) for one in self._order.values() if one)
            yield replace(event, specs=event.specs + known)
            yield from self._recalled(told)
        elif isinstance(event, SpecFinished):
            result = event.result
            self._fresh.setdefault(result.source.path, []).append(result)
            yield event
            if not (self.options.fail_fast and result.status == "failed"):
                yield from self._recalled(told)
        elif isinstance(event, Finished):
            versions = dict(event.report.engines)
            for recalled in filter(None, self._order.values()):
                versions |= recalled.engines
            yield Finished(replace(event.report, engines=versions, results=tuple(told)))
        else:
            yield event

    def _recalled(self, told: Sequence[SpecResult]) -> Iterator[SpecFinished]:
        """The results that follow those that were told, up to the next file that runs."""
        met = {result.source.path for result in told}
        for file, known in self._order.items():
            if known is None:
                if len(self._fresh.get(file, ())) < len(self._specs.get(file, ())):
                    return
            elif file not in met:
                yield from map(SpecFinished, known.results)

    def keep(self, report: Report) -> None:
        """Keeps what was found, of files without a mistake all of whose specs were finished."""
        broken = {error.path for error in report.errors}
        try:
            for file, results in self._fresh.items():
                specs = self._specs[file]
                if file not in broken and len(results) == len(specs):
                    self._cache.keep(specs, results, report.engines)
            if self._fresh:
                self._cache.forget_old()
        except OSError as error:
            talk(f"results are not kept in {self._cache.folder}: {error.strerror}")


def nothing_to_run(options: RunOptions) -> Generator[Event, None, None]:
    """The events of a run without specs, for which no engine starts."""
    start = time.monotonic()
    yield Started(0, ())
    yield Finished(Report(VERSION, {}, options.seed, time.monotonic() - start))


def _taken(known: Recalled) -> Counter[str]:
    """What its results take of a baseline."""
    return Counter(
        finding.fingerprint
        for result in known.results
        for finding in result.suppressed
        if finding.reason.startswith("baseline ")
    )
