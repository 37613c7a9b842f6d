"""The results of a run. Report formats print them and compute nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from gradcheck_cli.domain.behaviour import OtherRun
from gradcheck_cli.domain.codes import Codes, Severity
from gradcheck_cli.domain.place import Place, Source, Span
from gradcheck_cli.domain.records import dataclass

if TYPE_CHECKING:
    from gradcheck_cli.domain.curve import Curve
    from gradcheck_cli.domain.dtypes import Array
    from gradcheck_cli.domain.evaluation import Failure, Mode
    from gradcheck_cli.domain.graph import Graph
    from gradcheck_cli.domain.search import Search, SearchedFix, SearchResult

Status = Literal["passed", "failed", "error"]

SHOWN_ENTRIES = 10
"""The number of entries that a finding shows, the worst first; the others are counted."""

LISTED = 4096
"""The largest number of random directions' numbers that a finding keeps for its script."""

UNUSABLE = "cannot be used"
"""The text by which a note reports a broken engine. Only one result of a run has this note, and
chance decides which."""

CauseKind = Literal[
    "overflow",
    "genuine overflow",
    "underflow",
    "subnormal flush",
    "cancellation",
    "absorption",
    "absorbed epsilon",
    "0*inf",
    "indeterminate form",
    "masked branch",
    "saturation",
    "square inside the derivative",
    "clip that kills the gradient",
    "tie",
    "domain edge",
    "sensitivity",
    "inaccurate kernel",
    "narrowing cast",
    "wrong rule",
    "detached path",
    "gradient hook",
    "recomputed forward",
    "iterative solution",
    "reparameterised sample",
    "operation's rule",
    "convention at a kink",
    "lone branch",
]
"""What can spoil a gradient; `explain.blame.wording` has a sentence for each."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The operation to blame: where it is, and what happened there.

    `span` is a place in `source`, a file of the user's code; None: in the spec's file. `op` is the
    row of the op table, `node` its place in the program, `engine_op` the operation that the engine
    executed ("aten.div.Tensor"; None if unknown). A cause is `proven` if a run confirmed it:
    `proof` describes the run in a sentence, and `repaired` is the entry's error in that run in
    ulps, if the cause is about an entry.
    """

    op: str
    phase: Literal["forward", "backward"]
    span: Span
    text: str  # the stretch of the formula
    detail: str  # short, for the caret line: "overflows float32: exp(100) = 2.69e+43 > 3.40e+38"
    story: str  # for the `why` line: "forward: exp(100) = inf, 1/inf = 0; backward: 0 * inf = nan"
    kind: CauseKind
    node: int | None = None
    engine_op: str | None = None
    proven: bool = False
    proof: str = ""  # "with only `exp` exact, the gradient is right"
    repaired: float | None = None
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Fix:
    """A stable form that the engine of the finding tried, in its dtype and mode.

    `before` and `after` are the formulas of the part that differs, `model` is the whole new
    formula, `rules` are the rewrites in order. The two are equal where `condition` is true (empty:
    wherever the old one has a value). `kink` is the new derivative where the old formula has none.
    `custom`: the formula stays, and an operation gets a custom gradient. `value` is the new result
    for the worst entry, with an error of `ulps_after`. The fix was tried at `points` fresh points
    and was right at `right` of them. `code` is Python by framework. `place`: the place of `before`
    in the user's file, for a layer; `after` is code of its framework then. `searched` is the result
    of searching the domain with it.
    """

    before: str
    after: str
    model: str
    rules: tuple[str, ...]
    condition: str
    kink: str
    custom: bool
    value: float | None
    ulps_before: float | None
    ulps_after: float | None
    points: int
    right: int
    code: Mapping[str, str] = field(default_factory=dict)
    place: Place | None = None
    searched: SearchedFix | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One judged number. `index` begins with the output's index, unless the output is a scalar.
    `rounding` is the cost of rounding every operation of a value (None: unknown)."""

    index: tuple[int, ...]
    computed: float | None
    truth: float | None = None
    truth_error: float | None = None
    finite_difference: float | None = None
    finite_difference_error: float | None = None
    ulps: float | None = None
    rounding: float | None = None


@dataclass(frozen=True, slots=True)
class Indexing:
    """The meaning of an index: `output_axes` numbers for the output come first, then those for the
    input. For products with `cotangents`, the first number counts the cotangents (if `output_axes`
    is 0, there is only one); for products with `directions`, the last number counts the directions.
    For complex arrays, the last number counts the real and the imaginary part."""

    output_axes: int
    cotangents: bool = False
    directions: bool = False
    complex_output: bool = False
    complex_input: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One failure: a code, where it was seen, the worst entries (worst first) and how many more.

    `search` is the search that led to it, or that says where else it happens; `at` is its point if
    that is not a point of the spec ("x=90"). `span` is in the spec's file; `place` is the cause's
    place in a file of the user's code.
    """

    code: str
    severity: Severity
    message: str
    span: Span
    engine: str | None = None
    dtype: str | None = None
    mode: str | None = None
    input: str | None = None
    point: int | None = None
    entries: tuple[Entry, ...] = ()
    more: int = 0
    indexing: Indexing | None = None  # of the entries of a first derivative
    truth_source: str | None = None  # "confirmed", "finite-difference", "undecided", ...
    cause: Cause | None = None
    pattern: str | None = None
    fix: Fix | None = None
    no_fix: str = ""  # why no fix was found
    detail: str = ""  # e.g. a short traceback
    repeat: str = ""
    fingerprint: str = ""
    allowed: bool = False
    reason: str = ""  # of the `allow` entry, or why it does not count
    place: Place | None = None
    search: Search | None = None
    at: tuple[str, ...] = ()
    unseen: bool = False  # float32 would not show the error
    stage: str = ""  # the stage of a compiler that is to blame
    # The cotangents and directions that the numbers are products with, flattened; empty if there
    # are more than LISTED numbers, except for the single cotangent of a Hessian.
    cotangents: tuple[tuple[float, ...], ...] = ()
    firsts: tuple[tuple[float, ...], ...] = ()  # directions along the rows of a Hessian
    columns: tuple[tuple[float, ...], ...] = ()  # directions along the columns
    other_run: OtherRun | None = None  # the run that shows how the layer behaves
    along: tuple[tuple[str, tuple[float, ...]], ...] = ()  # `Case.along`, flattened

    @property
    def worst(self) -> Entry | None:
        """The entry that is furthest off."""
        return self.entries[0] if self.entries else None

    @property
    def way(self) -> Mode:
        """The mode whose rules computed the wrong number."""
        return "forward" if self.mode == "forward" else "reverse"

    def restated(self, said: str) -> str:
        """The message, with `said` about the same entries."""
        return f"{self.message.partition(':')[0]}: {said}"


Rule = Literal[
    "kink",
    "undefined point",
    "jump",
    "undecided",
    "lost output",
    "overflow",
    "flushed",
    "flushed input",
    "tolerance",
    "error bar",
    "conditioning",
    "rounding",
    "documented",
    "few digits",
    "some digits",
    "zero",
    "small",
    "invisible",
    "no gradient",
    "approximation",
    "products",
    "enclosed",
    "path",
    "none",
]
"""The rules by which a number may pass that differs from the truth by more than a few ulps;
`judge.gate` has a sentence for each."""


@dataclass(frozen=True, slots=True)
class Pass:
    """How many `entries` of a check passed by a rule, and the largest of their errors in ulps (None
    if one is not finite)."""

    rule: Rule
    entries: int
    ulps: float | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """The judgement of one engine, dtype, mode and input. `truth_error_ulps` is the widest error
    bar of the truth of a smooth entry, or the radius if the truth is certified. If not every entry
    was checked, an error of `caught` in any single entry would have been found with probability
    `power`. `passed_by` has the rules by which numbers passed that are more than a few ulps off."""

    engine: str
    dtype: str
    mode: str
    input: str
    status: Status
    point: int | None = None
    max_ulps: float | None = None
    passed_by: tuple[Pass, ...] = ()
    truth: str = "undecided"
    truth_error_ulps: float | None = None
    caught: float | None = None
    power: float | None = None
    forward: int = 0
    backward: int = 0
    batched: int = 0  # points of a layer's differences that were evaluated several in one call
    looped: int = 0  # points of a layer's differences that were evaluated one by one
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Accepted:
    """An intended deviation inside a layer that the spec declares (`layer.ByDesign`) and that was
    found: the number of `calls` in one run, and their `places`. `line` is the line of the
    declaration."""

    engine: str
    function: str
    detach: str
    surrogate: str | None
    reason: str
    line: int
    calls: int
    places: tuple[str, ...]


def internal_about(what: Check | Finding, failure: Failure, span: Span) -> Finding:
    """The finding GC706 about one check, or about one finding that could not be explained."""
    return Finding(
        code=Codes.INTERNAL,
        severity="error",
        message=failure.message,
        span=span,
        engine=what.engine,
        dtype=what.dtype,
        mode=what.mode,
        input=what.input,
        point=what.point,
        detail=failure.detail,
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The whole Jacobian by one input, entry by entry: every array of shape (rows, columns), the
    flattened output along the rows, the flattened input along the columns.

    `truth` is nan if there is no derivative or it is not known; `ulps` is the error of `computed`,
    nan if one of both is not finite. Shapes of complex arrays end with 2: the real and the
    imaginary part.
    """

    output_shape: tuple[int, ...]
    input_shape: tuple[int, ...]
    computed: Array
    truth: Array
    ulps: Array
    complex_output: bool = False
    complex_input: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """The numbers that one engine computed at one point, to be shown: arrays as nested lists, and
    by input a comparison of gradients with the truth."""

    engine: str
    dtype: str
    mode: str
    point: int | None
    output: object
    gradients: Mapping[str, object]
    compared: Mapping[str, Comparison] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The end of one engine's training path."""

    engine: str
    dtype: str
    steps: int
    loss: float
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SpecResult:
    """All results for one spec. `notes` are sentences for a person ("forward mode was left out
    ..."). `suppressed` are findings that do not count; their `reason` says why: "--ignore GC2",
    "--select GC1", "baseline known.json". `graphs` has the traced runs of the program, those of
    engines with findings first. `curve` is set if requested (`RunOptions.illustrated`). `cached`:
    an earlier run found all this. `compile_s` says how long each engine compiled, if it did. `line`
    is the line of the spec in its file, from 1."""

    spec: str
    source: Source
    status: Status
    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()
    readings: tuple[Reading, ...] = ()
    trainings: tuple[TrainingResult, ...] = ()
    unmatched_allows: tuple[str, ...] = ()
    by_design: tuple[Accepted, ...] = ()
    notes: tuple[str, ...] = ()
    duration_s: float = 0.0
    output_name: str = "output"  # what the formula calls its output
    suppressed: tuple[Finding, ...] = ()
    graphs: tuple[Graph, ...] = field(default=(), compare=False)
    curve: Curve | None = None
    cached: bool = False
    compile_s: Mapping[str, float] = field(default_factory=dict, compare=False)
    line: int = 0

    @property
    def allowed(self) -> int:
        """How many findings the spec allows."""
        return sum(finding.allowed for finding in self.findings)

    def fails_on(self, severity: str) -> bool:
        """Check whether a run fails because of this spec if findings from `severity` on count."""
        grave = {"error"} if severity == "error" else {"error", "warning"}
        return self.status != "passed" or any(
            finding.severity in grave and not finding.allowed for finding in self.findings
        )

    @property
    def ignored(self) -> Mapping[str, int]:
        """How many findings of each code do not count."""
        return dict(sorted(Counter(finding.code for finding in self.suppressed).items()))

    @property
    def unchecked(self) -> bool:
        """Whether nothing was judged and nothing went wrong, because there is no gradient to
        judge."""
        judged = self.checks or self.trainings or self.findings or self.suppressed
        return self.status == "passed" and not judged


@dataclass(frozen=True, slots=True)
class SpecError:
    """A mistake in a spec file. `path` is the file, `key` the path to the key
    ("inputs.x.shape")."""

    code: str
    path: str
    message: str
    span: Span | None = None
    source: Source | None = None
    key: str = ""
    help: str = ""  # what would be right, "did you mean `exp`?"


@dataclass(frozen=True, slots=True)
class Report:
    """One run. Findings from the severity `fail_on` on make it fail. `unchanged` counts the specs
    that were skipped because nothing in them had changed. `shard` says which part of the specs ran,
    "2/5", and `elsewhere` counts the specs of the other parts. A run of a `suite` lists in
    `refused` the operations without a sample, with the reasons; `elsewhere` counts operations
    then."""

    version: str
    engines: Mapping[str, str]
    seed: int
    duration_s: float
    results: Sequence[SpecResult] = ()
    errors: tuple[SpecError, ...] = ()
    interrupted: bool = False
    command: str = ""
    unchanged: int = 0
    signal: int = 2  # the signal that interrupted the run, if any; 2 is Ctrl-C
    fail_on: Severity = "error"
    shard: str = ""
    elsewhere: int = 0
    suite: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchReport:
    """The results of a command, the mistakes in its files, and whether it was interrupted."""

    results: tuple[SearchResult, ...]
    errors: tuple[SpecError, ...] = ()
    interrupted: bool = False
