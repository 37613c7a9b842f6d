"""Executes a run: passes its events to listeners, and keeps the finished part after a signal."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from gradcheck_cli.cli.signals import install, restore
from gradcheck_cli.cli.streams import talk
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.errors import GradcheckError, Stopped, interruption
from gradcheck_cli.domain.events import Event, Finished, Notice
from gradcheck_cli.domain.records import dataclass

if TYPE_CHECKING:
    from gradcheck_cli.cli.changed import Changes
    from gradcheck_cli.cli.recalling import Recall
    from gradcheck_cli.cli.shard import Shard
    from gradcheck_cli.domain.options import Layered, RunOptions
    from gradcheck_cli.domain.report import Report, SpecError
    from gradcheck_cli.domain.spec import Spec
    from gradcheck_cli.run.suite import Suite


class Listener(Protocol):
    def hear(self, event: Event) -> None: ...


@dataclass(frozen=True, slots=True)
class Selection:
    """Why a run does not have all specs of its files. With `recall`, it has only files without
    known results; with `changes`, specs that these affect; with `shard`, the specs of one part;
    with `suite`, the samples of its operations."""

    recall: Recall | None = None
    changes: Changes | None = None
    shard: Shard | None = None
    suite: Suite | None = None

    def events(self, specs: Iterable[Spec], options: RunOptions) -> Generator[Event, None, None]:
        """The events of the run, including those of recalled results."""
        from gradcheck_cli.run import session

        if self.recall is None:
            pool = [] if self.suite is None else [self.suite.pool]
            return cast("Generator[Event, None, None]", session.run(specs, options, *pool))
        if self.recall.files:
            run = session.run(self.recall.record(specs), options)
            return self.recall.events(cast("Generator[Event, None, None]", run))
        from gradcheck_cli.cli.recalling import nothing_to_run
        from gradcheck_cli.run.workers.launch import end_prewarmed

        end_prewarmed()
        return self.recall.events(nothing_to_run(options))

    def with_counts(self, report: Report) -> Report:
        """The report with the numbers of specs that were left out, and why."""
        changes, shard, suite = self.changes, self.shard, self.suite
        return replace(
            report,
            unchanged=0 if changes is None else changes.left_out,
            shard="" if shard is None else shard.name,
            elsewhere=0 if shard is None else shard.left_out.total(),
            suite="" if suite is None else suite.name,
            refused={} if suite is None else suite.refused,
        )


def execute(
    specs: Iterable[Spec],
    options: RunOptions,
    listeners: Sequence[Listener],
    errors: list[SpecError],
    command: str,
    interrupts: Interrupts | None = None,
    selection: Selection | None = None,
) -> Report:
    """Run `specs` and pass the events to the listeners. `specs` may still be reading
    (`read_specs`).

    Reading adds its mistakes to the list `errors`; the report of the last event has all of them.
    After the first Ctrl-C, SIGTERM or SIGHUP, the report of the finished part is still delivered;
    the second signal ends everything. `interrupts` may have noted a signal before.
    """
    interrupts = interrupts or Interrupts()
    selection = selection or Selection()
    events = selection.events(_until(interrupts, specs), options)
    begun = told = False
    with interrupts:
        interrupts.raises = True
        while True:
            try:
                while True:  # a signal may also arrive between two events
                    if interrupts.pending and begun and not told:
                        told = True  # the run ends its workers and reports what it has
                        event = events.throw(KeyboardInterrupt())
                    else:
                        begun = True
                        event = next(events)
                    if isinstance(event, Finished):
                        report = replace(event.report, errors=tuple(errors), command=command)
                        report = replace(selection.with_counts(report), signal=interrupts.signal)
                        event = Finished(report)
                    if isinstance(event, Notice):
                        talk(event.text)
                    for listener in listeners:
                        listener.hear(event)
                    if isinstance(event, Finished):
                        return event.report
            except KeyboardInterrupt:
                if told:
                    raise
                interrupts.pending = True


def _until(interrupts: Interrupts, specs: Iterable[Spec]) -> Iterator[Spec]:
    """The specs until an interrupt. The interrupt may have come before the run, or its exception
    may have been lost or replaced while specs were read."""
    if interrupts.pending:
        raise KeyboardInterrupt
    try:
        for spec in specs:
            if interrupts.pending:
                raise KeyboardInterrupt
            yield spec
    except Exception as error:
        if interrupts.pending or interruption(error):  # the results of other specs are kept
            raise KeyboardInterrupt from error
        raise


class Interrupts:
    """Remembers a signal that ends the run, besides raising KeyboardInterrupt for it.

    The exception alone can get lost: NumPy asks the classes of its operands for attributes, and
    takes an exception in that code for a missing attribute. Before the run, no exception is raised
    (`raises` is false), because it would hit an import, and the run itself checks first. The second
    signal always raises one. If the exception was lost and caused another one, the end of this
    context raises Stopped instead.
    """

    def __init__(self) -> None:
        self.pending = False
        self.raises = False
        self.signal: int = signal.SIGINT  # the first one
        self._before: Mapping[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if not self._before:
            self._before = install(self._note)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        restore(self._before)
        self._before = {}
        ours = isinstance(error, GradcheckError)  # a report that cannot be written, for example
        if self.pending and isinstance(error, Exception) and not ours:
            raise Stopped(self.signal) from error

    def _note(self, number: int, frame: object) -> None:
        again = self.pending
        if not again:
            self.pending, self.signal = True, number
        if self.raises or again:
            raise Stopped(number)


def read_specs(
    files: Iterable[str],
    errors: list[SpecError],
    seed: int = 0,
    device: Layered[str] | None = None,
    engines: Layered[tuple[str, ...]] | None = None,
    texts: Mapping[str, str] | None = None,
    *,
    user_code: bool = True,
) -> Iterator[Spec]:
    """The specs of `files`, each of which is read when its turn comes. Mistakes are added to
    `errors`.

    `seed` is for inputs that are drawn at random without a seed of their own. Without `user_code`,
    a spec that would run a user's code is a mistake. So is a spec with a device that this machine
    lacks, unless `device` overrides it, and, given `engines`, a spec that names an engine that
    cannot run here, unless `engines` overrides it. `texts` has the contents of files that do not
    exist on disk.
    """
    from gradcheck_cli import specfile

    overruled = device is not None and device.override is not None

    for file in files:
        specs, mistakes = specfile.read(file, (texts or {}).get(file), seed=seed)
        errors.extend(mistakes)
        for spec in specs:
            if spec.implementations and not user_code:
                errors.append(_refusal(spec))
            elif not overruled and (lack := _lacking_device(spec)):
                errors.append(_without_device(spec, lack))
            elif engines is not None and (lacks := _without_engines(spec, engines)):
                errors.extend(lack for lack in lacks if lack not in errors)  # shared defaults
            else:
                yield spec


def _lacking_device(spec: Spec) -> str:
    """Why this machine lacks the device that a spec names; empty if it has it."""
    if spec.device in (None, "cpu"):
        return ""
    from gradcheck_cli.domain.placement import Placement
    from gradcheck_cli.engines.devices import lacking

    assert spec.device is not None
    return lacking(Placement(spec.device))


def _without_device(spec: Spec, lack: str) -> SpecError:
    from gradcheck_cli.domain.report import SpecError
    from gradcheck_cli.engines.devices import HELP

    message = f"there is no device `{spec.device}` here: {lack}"
    path, span = spec.source.path, spec.device_span
    return SpecError(Codes.SPEC_SCHEMA, path, message, span, spec.source, "device", HELP)


def _without_engines(spec: Spec, engines: Layered[tuple[str, ...]]) -> list[SpecError]:
    """Mistakes for the engines that a spec names, or that its layers need, and that cannot run
    here."""
    named, key = spec.engines, "engines"
    if not named and not engines.fallback:
        named, key = tuple(layer.engine for layer in spec.implementations), "implementations"
    if engines.override or not named:
        return []
    from gradcheck_cli.domain.report import SpecError
    from gradcheck_cli.engines import registry
    from gradcheck_cli.run.plan import lacking

    return [
        SpecError(Codes.SPEC_SCHEMA, spec.source.path, message, span, spec.source, key, help)
        for name, span in zip(named, spec.engine_spans, strict=True)
        for message, help in lacking(name, registry.engines())
    ]


def _refusal(spec: Spec) -> SpecError:
    from gradcheck_cli.domain.report import SpecError

    first = spec.implementations[0]
    return SpecError(
        Codes.SPEC_SCHEMA,
        spec.source.path,
        f"`{spec.name}` would run {first.target}, but this run must not run user code",
        first.span,
        spec.source,
        "implementations",
        "it runs without --no-user-code (GRADCHECK_NO_USER_CODE, no-user-code)",
    )
