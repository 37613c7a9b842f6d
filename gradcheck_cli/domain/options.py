"""The options of a run, from the command line, the environment and the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Generic, TypeVar

from gradcheck_cli.domain.codes import Severity
from gradcheck_cli.domain.evaluation import Difference, modes_in
from gradcheck_cli.domain.records import dataclass, replace

T = TypeVar("T")

LOCAL = "local"
"""The cluster on this machine that ends with the run."""


@dataclass(frozen=True, slots=True)
class Layered(Generic[T]):
    """A setting that a spec may contain, too. The command line and the environment take precedence
    over the spec, the spec over the configuration, and the configuration over the default."""

    override: T | None = None
    fallback: T | None = None

    def resolve(self, stated: T | None, default: T) -> T:
        for value in (self.override, stated, self.fallback):
            if value is not None:
                return value
        return default


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of `gradcheck run` that do not concern printing. `baseline` counts each fingerprint
    in the file `baseline_file`."""

    engines: Layered[tuple[str, ...]] = field(default_factory=Layered)
    dtypes: Layered[tuple[str, ...]] = field(default_factory=Layered)
    modes: Layered[tuple[str, ...]] = field(default_factory=Layered)
    timeout: Layered[float] = field(default_factory=Layered)  # seconds
    memory: Layered[float] = field(default_factory=Layered)  # gigabytes
    power: Layered[float] = field(default_factory=Layered)
    device: Layered[str] = field(default_factory=Layered)
    search: Layered[float] = field(default_factory=Layered)  # seconds; 0: none
    difference: Difference = field(default_factory=Difference)
    seed: int = 0
    at: tuple[str, ...] = ()  # "x=1.5": a point that replaces the points of the specs
    jobs: int | None = None
    fail_fast: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: Severity = "error"
    baseline: Mapping[str, int] = field(default_factory=dict)
    baseline_file: str = ""
    show_framework_output: bool = False
    cluster: str = ""  # the address of a Dask scheduler, or LOCAL
    resume: str = ""  # the file of the journal
    illustrated: bool = False  # with a graph with numbers and a curve of differences per formula

    def only(self, engine: str | None, dtype: str | None, mode: str | None) -> RunOptions:
        """The options for a run of one engine, dtype and mode; None leaves that option unchanged. A
        composition is replaced by its first-order modes: the order of the spec requests it
        again."""
        modes = tuple(dict.fromkeys(modes_in(mode or "")))
        return replace(
            self,
            engines=self.engines if engine is None else Layered(override=(engine,)),
            dtypes=self.dtypes if dtype is None else Layered(override=(dtype,)),
            modes=self.modes if mode is None else Layered(override=modes),
        )
