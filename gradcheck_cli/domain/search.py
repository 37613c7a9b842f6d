"""The request and the results of a search over the domain of a spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal, get_args

from gradcheck_cli.domain.evaluation import Problem
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass

if TYPE_CHECKING:
    from gradcheck_cli.domain.dtypes import Array
    from gradcheck_cli.domain.spec import Spec

Kind = Literal[
    "undefined",
    "value-nonfinite",
    "gradient-nonfinite",
    "gradient-underflow-to-zero",
    "gradient-inaccurate",
    "value-inaccurate",
]
"""A way in which a formula or its gradient may fail at a point."""

KINDS: tuple[Kind, ...] = get_args(Kind)

SEARCH_S = 10.0
"""The default time in seconds for one spec; its engines and dtypes share it."""

WAIT = 2.0
"""The longest time by the clock of a search with regions and fixes, as a multiple of its budget,
which is processor time. On a busy machine a search may do less, and nobody waits longer."""

SLACK_S = 60.0
"""Further seconds for one search: regions, fixes, and the start of an engine."""

Verdict = Literal["found", "proven-absent", "undecided"]


@dataclass(frozen=True, slots=True)
class GradientRequest:
    """Requests the operations that an engine executes for the value and the whole gradient of a
    problem, as a program of the op table."""

    problem: Problem


@dataclass(frozen=True, slots=True)
class GradientProgram:
    """The answer to a GradientRequest. The outputs of `program` are the value and, for each row of
    the problem's projection, one gradient for each input of its `wrt` (None: there is none). Its
    inputs are the inputs of the problem and `constants`, by name. Without a program, `reason` says
    why."""

    program: Program | None = None
    constants: Mapping[str, Array] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Witness:
    """A point at which a kind of failure happens.

    `values` has each searched input. `entry` names the number that fails ("x[0]", or "value"),
    `computed` is the engine's result for it and `truth` the exact number, nan if there is none.
    `genuine`: the truth itself does not fit the dtype. `value_lost`: the value is not finite, and a
    run reports nothing else at this point. `size` says how bad the failure is: digits lost, or
    orders of magnitude beyond the limit of the kind.
    """

    values: Mapping[str, Array]
    entry: str
    computed: float
    truth: float
    genuine: bool = False
    size: float = 0.0
    value_lost: bool = False


Box = Mapping[str, tuple["Array", "Array"]]
"""The least and the largest value of every searched element, by input."""


@dataclass(frozen=True, slots=True)
class Region:
    """Where a kind fails. Every failing point lies in one of `boxes` or in one of the `open` boxes.
    Each of `boxes` has a failing point; for the open ones this is unknown. If nothing is known,
    `boxes` is None. Every point of `inner` fails. `fraction` is the share of the domain, by volume,
    of boxes and open ones."""

    boxes: tuple[Box, ...] | None = None
    inner: tuple[Box, ...] = ()
    predicate: str = ""
    fraction: float | None = None
    open: tuple[Box, ...] = ()

    @property
    def whole(self) -> tuple[Box, ...] | None:
        """The boxes that contain every failing point; None if nothing is known."""
        return None if self.boxes is None else (*self.boxes, *self.open)


@dataclass(frozen=True, slots=True)
class Search:
    """The result for one kind, engine and dtype. `boxes` and `runs` count the work; `why` is a
    sentence about the verdict, `repeat` the command that shows the witness."""

    engine: str
    dtype: str
    kind: Kind
    verdict: Verdict
    witness: Witness | None = None
    region: Region = field(default_factory=Region)
    assumptions: tuple[str, ...] = ()
    boxes: int = 0
    runs: int = 0
    seconds: float = 0.0
    why: str = ""
    repeat: str = ""


@dataclass(frozen=True, slots=True)
class SearchedFix:
    """A formula `model` that may replace the failing one, made by the `rules` of the catalogue and
    searched over the same domain: the kinds that are `proven` absent, and the failures `found`."""

    engine: str
    dtype: str
    model: str
    rules: tuple[str, ...]
    proven: tuple[Kind, ...]
    found: tuple[Search, ...]


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """Errors along a line through a witness, on which one element moves: `name` ("x[0]") takes the
    values `numbers`, and `errors` are the errors of the gradient there relative to its largest
    entry, from 0 (right) to 1 (no digit is right)."""

    engine: str
    dtype: str
    name: str
    numbers: tuple[float, ...]
    errors: tuple[float, ...]
    witness: float


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """Requests a search of the domain of a spec in one dtype on one engine, `budget` seconds long.
    With `fixes`, rewrites of a failing formula are searched, too; with `drawn`, the errors along a
    line are computed."""

    spec: Spec
    dtype: str
    kinds: tuple[Kind, ...]
    budget: float
    seed: int
    fixes: bool = True
    drawn: bool = False

    @property
    def limit(self) -> float:
        """Seconds after which the search counts as timed out."""
        return WAIT * self.budget + SLACK_S


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The results of a search, at its end or so far. `open_boxes` counts the boxes that are not yet
    proven; `proven` is the proven part of the domain, as an average over the kinds that were not
    found."""

    searches: tuple[Search, ...]
    fix: SearchedFix | None = None
    open_boxes: int = 0
    proven: float = 0.0
    line: ErrorLine | None = None


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """The results so far for one spec on one engine in one dtype."""

    spec: str
    engine: str
    dtype: str
    known: SearchAnswer


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The searches of one spec, a fix for each engine and dtype with failures, and notes for people
    about omissions. `domain` has the bounds of each searched input; `lines` are drawn beside the
    regions."""

    spec: str
    file: str
    searches: tuple[Search, ...]
    notes: tuple[str, ...] = ()
    fixes: tuple[SearchedFix, ...] = ()
    domain: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    lines: tuple[ErrorLine, ...] = ()
