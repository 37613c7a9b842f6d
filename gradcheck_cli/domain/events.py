"""The events of a run. Progress bars and reports listen to them."""

from __future__ import annotations

from gradcheck_cli.domain.layer import LayerProgress
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Report, SpecResult


@dataclass(frozen=True, slots=True)
class Started:
    """The run knows how many specs and which engines there are."""

    specs: int
    engines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EngineReady:
    """An engine's worker has imported its framework."""

    engine: str
    version: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence about the run that a person wants to know."""

    text: str


@dataclass(frozen=True, slots=True)
class LayerUnderWay:
    """The progress of a slow large layer."""

    spec: str
    engine: str
    progress: LayerProgress


@dataclass(frozen=True, slots=True)
class SpecFinished:
    """All engines have answered for one spec, and the spec is judged."""

    result: SpecResult


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of the run, also after an interruption."""

    report: Report


Event = Started | EngineReady | Notice | LayerUnderWay | SpecFinished | Finished
