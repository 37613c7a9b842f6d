"""The interface of an executor, which examines the specs of a run: on this machine (`local`), or on
a `cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gradcheck_cli.domain.events import EngineReady, LayerUnderWay, Notice
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.spec import Spec


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found about the spec of that number."""

    number: int
    result: SpecResult


class Executor(Protocol):
    """Examines specs, many at a time, and gives what it found of each in any order."""

    @property
    def ahead(self) -> int:
        """How many specs it is given before the first of them must be finished."""
        ...

    def start(self) -> None:
        """Starts what need not wait for the first spec. Raises UsageError."""
        ...

    def submit(self, number: int, spec: Spec) -> None:
        """Raises UsageError, as `make_plan` does."""
        ...

    def next(self) -> Examined | EngineReady | LayerUnderWay | Notice:
        """What comes next. Blocks; a spec must be under way."""
        ...

    def engines(self) -> Mapping[str, str]:
        """The engines of all specs that were submitted, with their versions."""
        ...

    def close(self) -> None:
        """The end in good order: every spec is finished."""
        ...

    def kill(self) -> None:
        """The end at once. What is under way is lost."""
        ...
