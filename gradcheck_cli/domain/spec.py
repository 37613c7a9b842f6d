"""A spec: what the user wants to check, after its file was read and validated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from gradcheck_cli.domain.implementation import ByDesign, Implementation
from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass

if TYPE_CHECKING:
    from gradcheck_cli.domain.dtypes import Array


@dataclass(frozen=True, slots=True)
class Input:
    """One input: its value (float64, int64 or bool), and its domain. `kind` is a property that the
    value must keep when a layer is called with it ("rotation"; empty: none). `is_complex`: the
    value has pairs along its last axis, the real and the imaginary part of each number."""

    name: str
    value: Array
    requires_grad: bool
    low: float = float("-inf")
    high: float = float("inf")
    seed: int | None = None
    kind: str = ""
    is_complex: bool = False


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The error that the user accepts: `ulps`, or `rtol` with `atol`. Keys are dtypes, "" is every
    dtype."""

    ulps: Mapping[str, float] = field(default_factory=dict)
    rtol: Mapping[str, float] = field(default_factory=dict)
    atol: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Allow:
    """A known and accepted finding; None matches anything. `shared`: a default of the file, which
    need not match anything in each spec."""

    code: str
    reason: str
    span: Span
    engine: str | None = None
    dtype: str | None = None
    input: str | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Train:
    """Gradient descent that every engine follows: `steps` steps of rate `rate` on `parameters`."""

    rate: float
    steps: int
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A formula as the user wrote it; `place(start, end)` returns the span of a stretch of it."""

    text: str
    place: Callable[[int, int], Span]


@dataclass(frozen=True, slots=True)
class Spec:
    """One YAML document. `points` has at least one entry: all inputs at each point.

    A spec with `implementations` is about the user's layers. Its `program` is a placeholder
    (`layer.as_program`), and `wrt` is empty if the user gave none. `model` is the formula that the
    layers should equal, as written, with the place of its every character; it is parsed when the
    parameters are known.
    """

    name: str
    source: Source
    span: Span
    program: Program
    points: tuple[Mapping[str, Input], ...]
    wrt: tuple[str, ...]
    description: str = ""
    dtypes: tuple[str, ...] | None = None
    engines: tuple[str, ...] | None = None
    modes: tuple[str, ...] | None = None
    order: int = 1
    tolerance: Tolerance | None = None
    allow: tuple[Allow, ...] = ()
    train: Train | None = None
    timeout: float | None = None
    search: float | None = None  # seconds; 0: the domain is not searched
    pointed: bool = False  # the file has a `points` list
    implementations: tuple[Implementation, ...] = ()
    by_design: tuple[ByDesign, ...] = ()
    model: Model | None = None
    constants: Mapping[str, bool | int | float] = field(default_factory=dict)
    power: float | None = None
    memory: float | None = None  # gigabytes
    device: str | None = None
    matmul_precision: str | None = None
    device_span: Span | None = None
    engine_spans: tuple[Span, ...] = ()  # of `engines`, or else of `implementations`
    identity: str = ""  # in fingerprints: its name, or without one what it checks
    called: str = ""  # the command that runs it again; empty: `gradcheck run` with its file

    @property
    def inputs(self) -> Mapping[str, Input]:
        """The inputs at the first point."""
        return self.points[0]
