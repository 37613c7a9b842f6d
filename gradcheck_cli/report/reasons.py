"""Why a finding is there: what happened in numbers, the word for its cause, and its proof."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from rich.text import Text

from gradcheck_cli.domain.report import Cause, Finding
from gradcheck_cli.report.groups import described
from gradcheck_cli.report.numbers import small_or_relative
from gradcheck_cli.report.style import DIM, Style, labelled

SHOWN_LINES = 3  # of one kind, without -v: more would hide what they say


def reason_lines(group: Sequence[Finding], style: Style) -> list[Text]:
    """`why` lines with the stories and `cause` lines with the proofs, each written once; who they
    are about only where they differ."""
    stories: dict[Hashable, list[Finding]] = {}
    proofs: dict[Hashable, list[Finding]] = {}
    for finding in group:
        if finding.cause and finding.cause.story:
            stories.setdefault(finding.cause.story, []).append(finding)
            proofs.setdefault((finding.cause.kind, finding.cause.proof), []).append(finding)
    # what another story says too, and goes on from there, need not be repeated
    told = {
        story: members
        for story, members in stories.items()
        if not any(other != story and str(other).startswith(str(story)) for other in stories)
    }
    lines = _lines("why", {s: (str(s), m) for s, m in told.items()}, group, style)
    causes = {key: (_cause_text(members), members) for key, members in proofs.items()}
    lines += _lines("cause", causes, group, style)
    if style.verbose:
        lines += _meanings(group, style)
    return lines


def _lines(
    label: str,
    told: Mapping[Hashable, tuple[str, list[Finding]]],
    group: Sequence[Finding],
    style: Style,
) -> list[Text]:
    lines: list[Text] = []
    shown = list(told.values()) if style.verbose else list(told.values())[:SHOWN_LINES]
    for text, members in shown:
        whose = f"in {described(members, among=group)}: " if len(told) > 1 else ""
        lines += labelled(label, whose + text, style)
    if len(shown) < len(told):
        lines.append(Text(f"        {style.dots} and {len(told) - len(shown)} more", style=DIM))
    return lines


def _cause_text(members: Sequence[Finding]) -> str:
    """`overflow; with only exp(x) exact, the gradient is right: 0.4 ulp`, and what the
    engines call it."""
    causes = [finding.cause for finding in members if finding.cause]
    first = causes[0]
    text = f"{first.kind}; {first.proof}" if first.proof else f"{first.kind}, by its numbers alone"
    repaired = [
        (f.cause.repaired, f.dtype or "float64")
        for f in members
        if f.cause and f.cause.repaired is not None
    ]
    if repaired:
        several = len({off for off, _ in repaired}) > 1
        text += f": {'at most ' if several else ''}{small_or_relative(*max(repaired))}"
    names = _engine_ops((f.engine, f.cause) for f in members if f.cause)
    engines = {finding.engine for finding in members}
    if names:
        one = len(engines) == 1  # then the header says who is meant, or the line itself
        text += f" ({', '.join(name if one else f'{engine} {name}' for engine, name in names)})"
    return text


def _engine_ops(causes: Iterable[tuple[str | None, Cause]]) -> list[tuple[str, str]]:
    """(engine, its word for the operation), where that is another one than the formula's."""
    found = {
        (engine or "", cause.engine_op): None
        for engine, cause in causes
        if cause.engine_op and cause.engine_op != cause.op
    }
    return list(found)


def _meanings(group: Sequence[Finding], style: Style) -> list[Text]:
    """The sentence of the vocabulary for every kind of cause."""
    from gradcheck_cli.explain.blame.causes import CAUSES

    kinds = dict.fromkeys(finding.cause.kind for finding in group if finding.cause)
    return [line for kind in kinds for line in labelled("means", CAUSES[kind], style)]
