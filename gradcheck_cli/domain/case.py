"""The input of the judge: one spec at one point in one dtype, with all computed results."""

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
    """Requests the truth at one point for one dtype (`Truth`).

    `values` are rounded to `dtype` already; `bounds` maps an input to (low, high), inside which
    differences must stay. `projections` has the modes to be judged. `conditioning` requests C, R
    and the allowance as well (`TruthBlock`): these cost more, and only a suspect entry needs them.
    `known` is the truth without them, if it was computed before. With `suspects`, masks over some
    blocks, costs are found for these entries alone and for no output, and certified entries get no
    difference. C does not include rounding of the inputs that are `exact`.
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
        """The `Problem` for an engine in this mode, with `other` fields set as given."""
        return _problem(self, self.wrt, mode, other)


@dataclass(frozen=True, slots=True)
class CurveRequest:
    """Requests the error of difference quotients as a function of their step (`Curve`), at the
    point of `truth`, whose answer is `known`."""

    name: str
    truth: TruthRequest
    known: Truth

    @property
    def dtype(self) -> str:
        return self.truth.dtype


@dataclass(frozen=True, slots=True)
class Suspect:
    """An evaluation that needs a second look, and the trace to record in it."""

    engine: str
    mode: Mode
    trace: TraceRequest


@dataclass(frozen=True, slots=True)
class Case:
    """One spec at one point in one dtype, with its evaluations and truth.

    `evaluations` were run in `dtype`. For suspects, `traced` has the same evaluation with a trace,
    and `wide` a traced one in another precision at the same rounded inputs and constants; both by
    (engine, mode). The other precision is float64, or float32 if `dtype` is float64: an error that
    does not depend on the precision is not a rounding error. If inputs are subnormal, `kept` has
    the reference engine's results for them in `dtype`, and `zero` its results with 0 in their
    places, by mode. `named` and `named_modes` are the engines and modes that the user requested by
    name: GC705 is an error for these, otherwise a note. `no_truth` says why there is no truth.
    `unweighed`: the cost of rounding was requested and could not be computed. `settled`: no cost of
    rounding could turn the suspects into findings (`judge.suspects.lose_little`). `stages` are the
    stages of the engines' compilers, from nothing compiled to everything. Complex arrays have pairs
    along their last axis: the real and the imaginary parts. `along` is the direction of third
    derivatives (`Problem.along`).
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
        """The `Problem` for an engine in this mode, with `other` fields set as given."""
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
    rounded start, `calibration` its path in `dtype`. Their distance is the effect of rounding on
    the path."""

    spec: Spec
    problem: TrainingProblem
    dtype: str
    paths: tuple[Training, ...]
    exact: Training | None
    calibration: Training | None
