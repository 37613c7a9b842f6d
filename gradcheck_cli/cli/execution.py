"""Follows a run: hands its events to listeners, and survives Ctrl-C with what is finished."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

from gradcheck_cli.domain.events import Event, Finished

if TYPE_CHECKING:
    from gradcheck_cli.domain.options import RunOptions
    from gradcheck_cli.domain.report import Report, SpecError
    from gradcheck_cli.domain.spec import Spec


class Listener(Protocol):
    def hear(self, event: Event) -> None: ...


def execute(
    specs: Iterable[Spec],
    options: RunOptions,
    listeners: Sequence[Listener],
    errors: list[SpecError],
    command: str,
) -> Report:
    """Runs `specs` and tells the listeners; `specs` may still be reading (`read_specs`).

    `errors` is the list to which reading adds the mistakes that it finds. The report of the last
    event has all of them. After the first Ctrl-C the report of what was finished
    is still handed over; the second one ends everything.
    """
    from gradcheck_cli.run import session

    events = cast("Generator[Event, None, None]", session.run(specs, options))
    told = interrupt = False
    while True:
        try:
            event = events.throw(KeyboardInterrupt()) if interrupt else next(events)
            interrupt = False
            if isinstance(event, Finished):
                event = Finished(replace(event.report, errors=tuple(errors), command=command))
            for listener in listeners:
                listener.hear(event)
        except KeyboardInterrupt:
            if told:
                raise
            told = interrupt = True  # the run ends its workers and hands over what it has
            continue
        if isinstance(event, Finished):
            return event.report


def read_specs(files: Iterable[str], errors: list[SpecError], seed: int = 0) -> Iterator[Spec]:
    """The specs of `files`, each file read when its turn comes; mistakes are added to `errors`.

    `seed` is for inputs that are drawn at random and have none of their own.
    """
    from gradcheck_cli import specfile

    for file in files:
        specs, mistakes = specfile.read(file, seed=seed)
        errors.extend(mistakes)
        yield from specs
