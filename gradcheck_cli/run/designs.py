"""The intended deviations that a spec declares inside its layers, and which of them matched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradcheck_cli.domain.implementation import ByDesign
from gradcheck_cli.domain.layer import LayerAnswer, Meant
from gradcheck_cli.domain.report import Accepted
from gradcheck_cli.run.plan import Plan


def accepted(plan: Plan, answers: Sequence[LayerAnswer]) -> Iterator[Accepted]:
    """Every declaration that matched something, by engine. `answers` are those to `plan.layers`."""
    for design, engine, found in _found(plan, answers):
        calls = max((one.calls for one in found), default=0)
        if calls:
            yield Accepted(
                engine=engine,
                function=design.function,
                detach=design.detach,
                surrogate=design.surrogate,
                reason=design.reason,
                line=design.span.line,
                calls=calls,
                places=tuple(dict.fromkeys(place for one in found for place in one.places)),
            )


def unmatched(plan: Plan, answers: Sequence[LayerAnswer]) -> Iterator[str]:
    """Declarations that match nothing in any engine that ran, as sentences."""
    by_design: dict[int, list[Meant]] = {}
    for design, _, found in _found(plan, answers):
        by_design.setdefault(plan.spec.by_design.index(design), []).extend(found)
    for index, found in by_design.items():
        design = plan.spec.by_design[index]
        if found and not design.shared and not any(one.calls for one in found):
            similar = next((one.similar for one in found if one.similar), "")
            meant = f"; did you mean `{similar}`?" if similar else ""
            yield (
                f"unused `by_design`: line {design.span.line}: nothing in the layer "
                f"matches `{design.name}` ({design.reason}){meant}"
            )


def _found(
    plan: Plan, answers: Sequence[LayerAnswer]
) -> Iterator[tuple[ByDesign, str, list[Meant]]]:
    engines = dict.fromkeys(problem.implementation.engine for problem in plan.layers)
    for index, design in enumerate(plan.spec.by_design):
        for engine in engines:
            yield (
                design,
                engine,
                [
                    one
                    for problem, answer in zip(plan.layers, answers, strict=True)
                    for one in answer.by_design
                    if problem.implementation.engine == engine and one.index == index
                ],
            )
