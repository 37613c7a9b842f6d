"""The input of the judge: one spec at one point in one dtype, with everything that was computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import (
    Evaluation,
    Failure,
    Mode,
    Problem,
    Projection,
    TraceRequest,
    Training,
    TrainingProblem,
)
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.truth import Truth

if TYPE_CHECKING:
    from gradcheck_cli.domain.spec import Spec


@dataclass(frozen=True, slots=True)
class TruthRequest:
    """Asks for the truth at one point for one dtype (`Truth`).

    `values` are rounded to `dtype` already; `bounds` maps an input to (low, high), inside which
    differences must stay. `projections` has the modes that will be judged. `conditioning` asks for
    C, R and the allowance too (`TruthBlock`): they cost more, and only a suspect entry needs them;
    `known` is what was found without them, if it was. With `suspects`, masks over some blocks,
    costs are found for these entries alone, of no output, and no difference is taken beside a
    certificate. No rounding of the inputs that are `exact` is in C.
    """

    program: Program
    values: Mapping[str, Array]
    bounds: Mapping[str, tuple[float, float]]
    wrt: tuple[str, ...]
    dtype: str
    projections: Mapping[Mode, Projection]
    seed: int = 0
    conditioning: bool = False
    known: Truth | None = None
    suspects: Mapping[tuple[str, str], Array] | None = None
    exact: frozenset[str] = frozenset()

    def problem(self, mode: Mode, **other: Any) -> Problem:
        """What an engine is asked for the gradient of a mode; `other` fields are as given."""
        return _problem(self, self.wrt, mode, other)


@dataclass(frozen=True, slots=True)
class CurveRequest:
    """Asks how the error of difference quotients depends on their step (`Curve`), at the point of
    `truth`, of which `known` is the answer."""

    name: str
    truth: TruthRequest
    known: Truth

    @property
    def dtype(self) -> str:
        return self.truth.dtype


@dataclass(frozen=True, slots=True)
class Suspect:
    """An evaluation that deserves a second look, and what to keep while looking."""

    engine: str
    mode: Mode
    trace: TraceRequest


@dataclass(frozen=True, slots=True)
class Case:
    """`evaluations` were run in `dtype`. For suspects, `traced` holds the same evaluation with a
    trace and `wide` one in another precision at the same rounded inputs and constants, with a
    trace; both by (engine, mode). The other precision is float64, or float32 where `dtype` is
    float64 already: an error that does not care for the precision is no rounding error. Where
    inputs are subnormal, `kept` has what the reference engine, which takes them as they are, gives
    at them in `dtype`, and `zero` what it gives at 0 in their places, by mode. `named`
    are the engines that the user requested by name, `named_modes` likewise: there GC705 is an
    error, elsewhere a note. `no_truth` says why there is none. `unweighed`: what rounding may
    cost was requested and could not be computed. `settled`: what is not simply right loses little,
    whatever rounding may cost (`judge.suspects.lose_little`). `stages` are those of the engines'
    compilers, from nothing compiled to everything. What is complex has pairs along its last axis:
    the real and the imaginary parts. `along` is the direction of third derivatives
    (`Problem.along`).
    """

    spec: Spec
    point: int | None
    dtype: str
    values: Mapping[str, Array]
    projections: Mapping[Mode, Projection]
    evaluations: tuple[Evaluation, ...]
    truth: Truth | None
    no_truth: Failure | None = None
    traced: Mapping[tuple[str, str], Evaluation] = field(default_factory=dict)
    wide: Mapping[tuple[str, str], Evaluation] = field(default_factory=dict)
    kept: Mapping[str, Evaluation] = field(default_factory=dict)
    zero: Mapping[str, Evaluation] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    named_modes: frozenset[str] = frozenset()
    seed: int = 0
    unweighed: bool = False
    settled: bool = False
    stages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    complex_leaves: frozenset[str] = frozenset()
    complex_output: bool = False
    along: Mapping[str, Array] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        return self.spec.program

    def problem(self, mode: Mode, **other: Any) -> Problem:
        """What an engine is asked for the gradient of a mode; `other` fields are as given."""
        return _problem(self, self.spec.wrt, mode, other)


def _problem(
    of: TruthRequest | Case, wrt: tuple[str, ...], mode: Mode, other: Mapping[str, Any]
) -> Problem:
    known = {"program": of.program, "values": of.values, "wrt": wrt, "dtype": of.dtype}
    known |= {"rounding": of.dtype, "mode": mode, "projection": of.projections[mode]}
    return Problem(**{**known, **other})


@dataclass(frozen=True, slots=True)
class TrainingCase:
    """Training paths in one dtype. `exact` is the reference engine's path in float64 from the same
    rounded start, `calibration` its path in `dtype`: their distance is what rounding does to the
    path."""

    spec: Spec
    problem: TrainingProblem
    dtype: str
    paths: tuple[Training, ...]
    exact: Training | None
    calibration: Training | None
