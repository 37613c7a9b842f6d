"""Layers that cast to a narrower dtype: which dtype's precision they are judged by, the notes and
findings about it, and the casts that cost a gradient its digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gradcheck_cli.checks.causes.blame import Find
from gradcheck_cli.checks.causes.framework_rules import cause_at
from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Cause, Finding
from gradcheck_cli.domain.thresholds import GROWS, ROUNDINGS, SAME_ERROR
from gradcheck_cli.engines.layer.casts import Cast, is_narrower, narrowest
from gradcheck_cli.engines.layer.subject import Call, Subject
from gradcheck_cli.engines.tracebacks import where_it_runs
from gradcheck_cli.explain.findings import explain
from gradcheck_cli.judge import judge


@dataclass(frozen=True, slots=True)
class Casts:
    """The casts of the layer in the requested dtype, and in the highest precision."""

    narrow: Sequence[Cast]
    highest: Sequence[Cast]

    def __bool__(self) -> bool:
        return bool(self.narrow or self.highest)

    def digits(self, dtype: str) -> str:
        """The narrowest dtype in the forward pass; derivatives of its numbers have no more digits.
        Casts in the backward do not count: a backward that loses digits is at fault."""
        return _digits(self.narrow, dtype)

    def digits_of_highest(self, dtype: str) -> str:
        """The narrowest dtype of the layer in the highest precision."""
        return _digits(self.highest, dtype)

    def of_backward(self, dtype: str) -> Cast | None:
        """The narrowest cast in the backward pass to fewer digits than the gradient should have."""
        digits = self.digits(dtype)
        narrower = [
            cast
            for cast in self.narrow
            if cast.backward and cast.place and is_narrower(cast.dtype, digits)
        ]
        return min(narrower, key=lambda cast: FORMATS[cast.dtype].bits, default=None)

    def words(self, name: str, dtype: str) -> Iterator[str]:
        """The notes for the user."""
        digits = self.digits(dtype)
        for cast in self.narrow:
            if cast.dtype == digits and not cast.backward:
                yield (
                    f"{name}: the layer computes in {digits} internally{_place_words(cast)}: "
                    f"its {dtype} gradient is judged at {digits} precision"
                )
            elif cast.backward and cast.place and is_narrower(cast.dtype, digits):
                where = _place_words(cast)
                yield f"{name}: the {dtype} backward pass continues in {cast.dtype}{where}"


def wrong_without_casts(
    case: Case, noise: Callable[[], Mapping[str, Array]] = dict
) -> tuple[Finding, ...]:
    """Findings about gradients that are wrong even without the layer's casts (`case.wide`). They
    are granted the cost of rounding in float64, and what the lower precision of its constants
    costs: half of the digits of bfloat16, as granted to the layer with casts, is only four. `noise`
    says how far the layer's own rounding moves a gradient by reverse mode, (m, n) for each leaf."""
    if case.truth is None or not case.wide:
        return ()
    finer = FORMATS["float64"].unit_roundoff / FORMATS[case.dtype].unit_roundoff

    def findings(noises: Mapping[str, Array]) -> tuple[Case, list[Finding]]:
        assert case.truth is not None
        blocks = {}
        for (mode, name), block in case.truth.blocks.items():
            own = noises.get(name)
            cost = block.condition + finer * block.floor
            if own is not None and own.shape == cost.shape:  # not projected on directions
                cost = cost + ROUNDINGS * own
            cost = np.where(_lost_in(case, mode, name), np.inf, cost)
            blocks[mode, name] = replace(block, allowance=cost, floor=cost)
        truth = replace(case.truth, blocks=blocks)
        alone = replace(case, evaluations=tuple(case.wide.values()), truth=truth)
        _, found = judge(alone)
        return alone, [one for one in found if one.code == Codes.WRONG_GRADIENT]

    alone, wrong = findings({})
    if wrong:
        alone, wrong = findings(noise())
    return tuple(
        replace(finding, message=f"{finding.message}; it is wrong without its casts, too")
        for finding in explain(alone, wrong)
    )


def _lost_in(case: Case, mode: str, name: str) -> Array | bool:
    """A mask of the entries that have no right digit with the layer's casts but some without them:
    such an entry rounds in float64, too."""
    assert case.truth is not None
    value = next(b.value for key, b in case.truth.blocks.items() if key == (mode, name))
    off = []
    for one in (*case.evaluations, *case.wide.values()):
        gradient = one.gradients.get(name) if one.mode == mode else None
        if gradient is not None and gradient.values is not None:
            off.append(np.abs(gradient.values - value))
    if len(off) != 2:
        return False
    return np.asarray((off[0] >= np.abs(value) / 2) & (GROWS * off[1] <= off[0]))


def lost_in_cast(
    findings: Sequence[Finding], cast: Cast, find: Find, cast_wide: Subject, uncast: Subject
) -> tuple[Finding, ...]:
    """The findings. Digits that a gradient by reverse mode loses have the cast as their cause, if
    it loses the same ones in float64 (`cast_wide`), and not without its casts (`uncast`)."""

    def is_lost(finding: Finding) -> bool:
        traced, worst = find(finding), finding.worst
        if traced is None or worst is None or worst.truth is None or worst.computed is None:
            return False
        gradients = [
            subject.run(Call(cotangents=traced.row[None])).gradients.get(traced.leaf)
            for subject in (cast_wide, uncast)
        ]
        with_cast, without = (0.0 if g is None else traced.of(g[0]) for g in gradients)
        off = worst.computed - worst.truth
        return abs(with_cast - without - off) <= SAME_ERROR * abs(off)

    return tuple(
        replace(finding, cause=_as_cause(finding, cast))
        if finding.code == Codes.PRECISION_LOSS
        and finding.mode == "reverse"
        and where_it_runs(partial(is_lost, finding), False)
        else finding
        for finding in findings
    )


def _as_cause(finding: Finding, cast: Cast) -> Cause:
    bits = FORMATS[cast.dtype].bits
    return cause_at(
        finding,
        cast.name,
        cast.place,
        phase="backward",
        detail=f"the backward pass continues with the {bits} bits of {cast.dtype}",
        story=f"what is cast to {cast.dtype} here keeps {bits} bits",
        kind="narrowing cast",
        engine_op=cast.name,
        proven=True,
        proof="in float64 the gradient loses the same digits, and has them without its casts",
    )


def casts_of(narrow: Subject, highest: Subject) -> Casts:
    """The casts in one run of each subject."""
    mine = casts_of_run(narrow)
    return Casts(mine, mine if highest is narrow else casts_of_run(highest))


def _digits(casts: Sequence[Cast], dtype: str) -> str:
    return narrowest([dtype, *(cast.dtype for cast in casts if not cast.backward)])


def casts_of_run(subject: Subject) -> Sequence[Cast]:
    """The casts of one run; none if the run cannot be watched."""
    none: Sequence[Cast] = ()
    return where_it_runs(subject.casts, none)


def _place_words(cast: Cast) -> str:
    if cast.place is None:
        return ""
    text = " ".join(cast.place.text.split())
    return f" (`{text}`, {cast.place.line})"
