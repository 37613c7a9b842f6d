"""The true gradient, with an error bar for every entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from typing import Self

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.place import Place, Span
from gradcheck_cli.domain.records import dataclass, replace


class PointKind(IntEnum):
    """The behaviour of the function at an entry's point."""

    SMOOTH = 0
    KINK = 1  # one-sided derivatives exist and differ
    UNDEFINED = 2  # no finite derivative: a vertical tangent, or the edge of the domain
    JUMP = 3
    UNDECIDED = 4


class Entries:
    """A record of arrays (rows, columns), each with one number for every entry of a block."""

    __slots__ = ()

    def at(self, entries: Array, **known: Array | float) -> Self:
        """A copy with these numbers at these entries."""
        changed = {n: np.where(entries, new, getattr(self, n)) for n, new in known.items()}
        return replace(self, **changed)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class TruthBlock(Entries):
    """The truth of one block, every array of shape (rows, columns), float64.

    value, error       T and its error bar dT (inf where nothing is known)
    difference, difference_error    the finite difference and its error bar (nan where not taken)
    kind               PointKind of each entry
    lower, upper       the one-sided derivatives in order (equal to T where smooth)
    condition          C: how far half an ulp of every input moves T, in the judged dtype; this and
                       the next two are zero until `TruthRequest.conditioning` requests them
    allowance          what rounding each operation once may cost a well-behaved program
    floor              R: the same sum, whether the program is well-behaved or not
    stated             the user's custom gradients: enclosed where possible, else T plus the change
                       in float64 from following them (nan where unknown); equal to T without any
    scale              how large a derivative of this function is on any scale near the point; where
                       T cannot be distinguished from zero, its error bar is measured against this
    confirmed          True where T is the float64 gradient, confirmed by a difference
    certified          True where T was enclosed in exact arithmetic: |exact - value| <= error
    """

    value: Array
    error: Array
    difference: Array
    difference_error: Array
    kind: Array
    lower: Array
    upper: Array
    condition: Array
    allowance: Array
    floor: Array
    stated: Array
    scale: Array
    confirmed: Array
    certified: Array

    @property
    def steepest(self) -> Array:
        """The size of the derivative; at a kink, of its steepest slope. A derivative at a kink that
        is the rounded sum of several slopes has the rounding of numbers of this size, even if these
        cancel."""
        return np.asarray(np.fmax(np.abs(self.lower), np.abs(self.upper)))

    def undecided_at(self, entries: Array) -> TruthBlock:
        """The block with these entries (rows, columns) undecided."""
        return self.at(
            entries, kind=PointKind.UNDECIDED, error=np.inf, confirmed=False, certified=False
        )

    @classmethod
    def of(cls, value: Array, error: Array, **known: Array) -> TruthBlock:
        """A block of smooth entries with their error bars (rows, columns). Fields that are not
        `known` get defaults: no difference, nothing confirmed or certified, zero costs."""
        zeros, none = np.zeros(value.shape), np.zeros(value.shape, dtype=np.bool_)
        unknown = np.full(value.shape, np.nan)
        usual = {
            "difference": unknown,
            "difference_error": unknown,
            "kind": np.full(value.shape, int(PointKind.SMOOTH)),
            "lower": value,
            "upper": value,
            "condition": zeros,
            "allowance": zeros,
            "floor": zeros,
            "stated": value,
            "scale": np.full(value.shape, np.inf),
            "confirmed": none,
            "certified": none,
        }
        return cls(value=value, error=error, **{**usual, **known})


@dataclass(frozen=True, slots=True)
class Cost:
    """C, allowance and R (see `TruthBlock`) of numbers, in their shape and unit. C and R may be inf
    if they overflow or are not numbers; the allowance is 0 then."""

    condition: Array
    allowance: Array
    floor: Array

    @property
    def known_condition(self) -> Array:
        """C, with 0 in place of values that are not finite: an unknown C excuses nothing."""
        return np.where(np.isfinite(self.condition), self.condition, 0.0)


@dataclass(frozen=True, slots=True)
class Hull:
    """One-sided derivatives along a direction through a kink: every generalised gradient g there
    has lower - error <= <g, direction> <= upper + error, row by row (Clarke 1983, proposition
    2.1.2).

    `direction` maps an input to flat weights (columns,); the other arrays have shape (rows,).
    """

    direction: Mapping[str, Array]
    lower: Array
    upper: Array
    error: Array


@dataclass(frozen=True, slots=True)
class Guard:
    """A clip that keeps a number away from a pole (of `pole`, a row of the op table) and makes
    entries of the gradient exactly 0. `without` has the values of these entries if the operation
    got the number itself, by the keys of `Truth.blocks`; nan for all other entries. `place` is the
    clip's place in a file of the user's code."""

    text: str
    span: Span
    pole: str
    without: Mapping[tuple[str, str], Array]
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Documented:
    """The result of an engine's documented approximation of rows of the op table: `blocks` by the
    keys of `Truth.blocks`, and the output. `says` quotes the documentation at the address `source`.
    `row`, `span` and `text` describe the first approximated row in the formula."""

    engine: str
    row: str
    says: str
    source: str
    span: Span
    text: str
    output: Array
    output_error: Array
    output_cost: Cost | None
    blocks: Mapping[tuple[str, str], TruthBlock]


@dataclass(frozen=True, slots=True)
class Truth:
    """The truth of one spec at one point for one dtype.

    `blocks` has a key (mode, block name) for every requested mode. `output` is the program's exact
    value as a float64, `output_error` its error bar. By the same keys as `blocks`, `reasons` says
    in a sentence why entries are undecided, `uncertified` why not all could be enclosed, and `tied`
    marks entries that depend on an operation at a kink, a tie or a jump, if there are any.
    """

    dtype: str
    output: Array
    output_error: Array
    blocks: Mapping[tuple[str, str], TruthBlock]
    reasons: Mapping[tuple[str, str], str] = field(default_factory=dict)
    uncertified: Mapping[tuple[str, str], str] = field(default_factory=dict)
    tied: Mapping[tuple[str, str], Array] = field(default_factory=dict)
    hulls: Mapping[str, tuple[Hull, ...]] = field(default_factory=dict)  # by mode
    guards: tuple[Guard, ...] = ()
    documented: tuple[Documented, ...] = ()  # empty until `TruthRequest.conditioning` asks
    fallback: str = ""  # in a sentence, why differences replace a certified truth, if they do
    origin: str = ""  # the origin of the enclosed program, if it is not the spec's
    output_certified: bool = False  # whether all of the value was enclosed
    output_cost: Cost | None = None  # None until `TruthRequest.conditioning` asks
    forward: int = 0
    duration_s: float = 0.0
