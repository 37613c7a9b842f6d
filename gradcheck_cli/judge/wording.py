"""The messages of findings about entries, one for each verdict."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.evaluation import SECOND, Evaluation, order_of
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.truth import Documented, PointKind, TruthBlock
from gradcheck_cli.judge.kinks import misses
from gradcheck_cli.judge.measures import Mask, accepted_errors

DERIVATIVES = {1: "gradient", 2: "second derivative", 3: "third derivative"}


@dataclass(frozen=True, slots=True)
class About:
    """The subject of one finding: the entries at `places` (k, 2) of a block (rows, columns).

    `evaluation`, `ulps` and `in_float32` (`measures`) are None for a finding about the point and
    not about an engine.
    """

    case: Case
    mode: str
    name: str
    block: TruthBlock
    places: Array
    evaluation: Evaluation | None = None
    ulps: Array | None = None
    in_float32: Mask | None = None

    @property
    def at(self) -> tuple[Array, Array]:
        """The index of the entries in arrays of the block."""
        return self.places[:, 0], self.places[:, 1]

    @property
    def format(self) -> FloatFormat:
        return FORMATS[self.case.dtype]

    @property
    def errors(self) -> Array:
        """The errors of the entries in ulps, (k,)."""
        assert self.ulps is not None
        return self.ulps[self.at]

    @property
    def entries(self) -> str:
        """The entries in words: "3 of 8 entries of the gradient of `x`"."""
        what = f"the {DERIVATIVES[order_of(self.mode)]} of `{self.name}`"
        size = self.block.value.size
        return what if size == 1 else f"{len(self.places)} of {size} entries of {what}"


def wrong(about: About) -> str:
    where = "in every precision, so rounding is not the cause"
    if about.in_float32 is not None and np.all(about.in_float32[about.at]):
        where = "in float64, and rounding is not the cause: float32 has no such error"
    return f"{about.entries}: wrong {where}"


def apart(about: About) -> str:
    assert about.evaluation is not None
    first = next(misses(about.case, about.evaluation))
    return f"{about.entries}: {first.words()}"


def nan(about: About) -> str:
    return f"{about.entries}: nan {_point_words(about)}"


def infinite(about: About) -> str:
    return f"{about.entries}: infinite {_point_words(about)}"


def _point_words(about: About) -> str:
    """Describe the truth where an engine's number is not finite."""
    kind = about.block.kind[about.at]
    rough = np.isin(kind, (PointKind.UNDEFINED, PointKind.JUMP))
    if np.all(rough):
        return "at a point without a derivative"
    if np.any(rough):
        return "at a point without a derivative, and where the derivative is finite"
    kinked = kind == PointKind.KINK
    if np.any(kinked):
        return "at a kink" + ("" if np.all(kinked) else ", and where the derivative is finite")
    if np.all(kind == PointKind.UNDECIDED):
        return "where the truth is unknown"
    truth = about.block.value[about.at]
    if np.all(np.isinf(about.format.round(truth))):
        largest = float(truth[np.argmax(np.abs(truth))])
        return f"by {genuine_overflow('the truth', largest, about.format)}"
    return "where the derivative is finite"


def genuine_overflow(what: str, exact: float, fmt: FloatFormat) -> str:
    """Describe a truth that does not fit the dtype, however it is computed."""
    size = f"{exact:.4g}" if np.isfinite(exact) else "beyond 1.8e308"
    return f"genuine overflow: {what}, {size}, does not fit {fmt.name}"


def lossy(about: About) -> str:
    errors = about.errors[~np.isnan(about.errors)]  # infinite where the truth is 0
    bits = min(np.log2(np.max(errors, initial=1.0)), about.format.bits)
    return f"{about.entries}: {bits:.0f} of {about.format.bits} bits lost in {about.case.dtype}"


def vanished(about: About) -> str:
    return f"{about.entries}: zero, although {about.case.dtype} can hold the truth"


def documented(about: About) -> str:
    """The message, with the largest relative error."""
    truth = about.block.value[about.at]
    part = np.max(about.errors * about.format.ulp(truth) / np.abs(truth))
    assert about.evaluation is not None
    found = documented_of(about.case, about.evaluation)
    says = "" if found is None else f": {documented_words(found)}"
    return f"{about.entries}: relative error {part:.1e}{says}"


def documented_of(case: Case, evaluation: Evaluation) -> Documented | None:
    """The approximation that the engine of an evaluation documents, if any."""
    every = () if case.truth is None else case.truth.documented
    return next((one for one in every if one.engine == evaluation.engine), None)


def documented_words(documented: Documented) -> str:
    """Quote the engine's documentation in a message."""
    return f"a documented approximation of `{documented.row}`: {documented.says}"


def ill_conditioned(about: About) -> str:
    """The message, with the rounding that moves the entries by as much as their error."""
    errors = about.errors * about.format.ulp(about.block.value[about.at])
    most = accepted_errors(about.block, about.format, about.case.spec.tolerance)
    if np.all(errors <= most.conditioning[about.at]):
        return f"{about.entries}: explained by rounding the inputs alone"
    return f"{about.entries}: explained by rounding the inputs and each operation once"


def kink(about: About) -> str:
    """The message; the slopes of the first entry stand for all entries."""
    first = tuple(about.places[0])
    low, high = float(about.block.lower[first]), float(about.block.upper[first])
    open_ = np.isinf(low) or np.isinf(high)
    if open_ and about.mode in SECOND:
        what = "the gradient has a kink or a jump here, so it has no derivative itself"
    elif open_:
        what = "a kink with many slopes, not all of them known: any finite slope is accepted"
    else:
        what = f"a kink: every slope from {low:.4g} to {high:.4g} is accepted"
    return f"`{about.name}`: {what}"


def undefined(about: About) -> str:
    what = "no finite derivative here: a vertical tangent, or the edge of the domain"
    return f"`{about.name}`: {what}"


def jump(about: About) -> str:
    return f"`{about.name}`: the function jumps here, so there is no derivative"


def undecided(about: About) -> str:
    assert about.case.truth is not None
    unknown = "the error bar of the truth is too wide to tell"
    if about.case.unweighed:
        unknown = "the cost of rounding could not be computed"
    why = about.case.truth.reasons.get((about.mode, about.name), unknown)
    return f"`{about.name}`: undecided: {why}"
