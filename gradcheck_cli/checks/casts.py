"""A layer that goes on in a narrower dtype on its way: by the digits of which dtype it is judged,
and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gradcheck_cli.checks.subjects import where_it_runs
from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.engines.layer.casts import Cast, is_narrower, narrowest
from gradcheck_cli.engines.layer.subject import Subject
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
        """The narrowest dtype in the forward pass: the derivative of what is computed in it has no
        more digits. A backward that has fewer than its forward loses them."""
        return _digits(self.narrow, dtype)

    def digits_of_highest(self, dtype: str) -> str:
        """The narrowest dtype of the layer in the highest precision."""
        return _digits(self.highest, dtype)

    def words(self, name: str, dtype: str) -> Iterator[str]:
        """The notes for the user."""
        digits = self.digits(dtype)
        for cast in self.narrow:
            if cast.dtype == digits and not cast.backward:
                yield (
                    f"{name}: the layer computes in {digits} internally{_where(cast)}: its {dtype} "
                    f"gradient is judged at {digits} precision"
                )
            elif cast.backward and cast.place and is_narrower(cast.dtype, digits):
                where = _where(cast)
                yield f"{name}: the {dtype} backward pass continues in {cast.dtype}{where}"


def wrong_without(case: Case) -> tuple[Finding, ...]:
    """What is wrong of the layer without its casts, which is in `case.wide`: rounding costs it
    nothing, so that only what its constants have fewer digits for is granted. Half of the digits of
    bfloat16, which are granted to the layer as it is, are four."""
    if case.truth is None or not case.wide:
        return ()
    blocks = {
        key: replace(block, allowance=block.condition, floor=block.condition)
        for key, block in case.truth.blocks.items()
    }
    alone = replace(
        case, evaluations=tuple(case.wide.values()), truth=replace(case.truth, blocks=blocks)
    )
    _, findings = judge(alone)
    wrong = [finding for finding in findings if finding.code == Codes.WRONG_GRADIENT]
    return tuple(
        replace(finding, message=f"{finding.message}; it is wrong without its casts, too")
        for finding in explain(alone, wrong)
    )


def casts_of(narrow: Subject, highest: Subject) -> Casts:
    """What a run of each shows."""
    mine = seen(narrow)
    return Casts(mine, mine if highest is narrow else seen(highest))


def _digits(casts: Sequence[Cast], dtype: str) -> str:
    return narrowest([dtype, *(cast.dtype for cast in casts if not cast.backward)])


def seen(subject: Subject) -> Sequence[Cast]:
    """The casts of one run; none where it cannot be watched."""
    none: Sequence[Cast] = ()
    return where_it_runs(subject.casts, none)


def _where(cast: Cast) -> str:
    if cast.place is None:
        return ""
    text = " ".join(cast.place.text.split())
    return f" (`{text}`, {cast.place.source.path}:{cast.place.span.line})"
