"""The interface of an executor. It examines the specs of a run, either on this machine (`local`) or
on a `cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gradcheck_cli.domain.events import EngineReady, LayerUnderWay, Notice
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.spec import Spec


@dataclass(frozen=True, slots=True)
class Examined:
    """The result of the spec with this number."""

    number: int
    result: SpecResult


class Executor(Protocol):
    """Examines many specs at a time, and returns their results in any order."""

    @property
    def ahead(self) -> int:
        """How many specs may be submitted before the first of them must be finished."""

    def start(self) -> None:
        """Starts everything that does not depend on the first spec. Raises UsageError."""

    def submit(self, number: int, spec: Spec) -> None:
        """Submits a spec. Raises UsageError, as `make_plan` does."""

    def next(self) -> Examined | EngineReady | LayerUnderWay | Notice:
        """The next event. Blocks; at least one spec must be under way."""

    def engines(self) -> Mapping[str, str]:
        """The engines of all submitted specs, with their versions."""

    def close(self) -> None:
        """Ends in good order, after every spec is finished."""

    def kill(self) -> None:
        """Ends at once. Specs that are under way are lost."""
