"""The reason for a finding: what happened, in numbers, the class of its cause, and the proof."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from gradcheck_cli.domain.report import Cause, Finding
from gradcheck_cli.report.groups import described
from gradcheck_cli.report.numbers import small_or_relative
from gradcheck_cli.report.style import Style, labelled


def reason_lines(group: Sequence[Finding], style: Style) -> list[Text]:
    """A `why` line with what happened in numbers, and a `cause` line with its proof. With -v each
    finding is a group of its own; else those of the first ones stand for all."""
    caused = [finding for finding in group if finding.cause and finding.cause.story]
    if not caused:
        return []
    lines = labelled("why", _story(group), style)
    lines += labelled("cause", _cause_text(caused, group), style)
    if style.verbose:
        lines += _meanings(group, style)
    return lines


def stories_of(group: Sequence[Finding]) -> dict[str, list[Finding]]:
    """What happened in numbers, with the findings of which it is said. What another story says too,
    and goes on from there, is left out."""
    stories: dict[str, list[Finding]] = {}
    for finding in group:
        if finding.cause and finding.cause.story:
            stories.setdefault(finding.cause.story, []).append(finding)
    return {
        story: members
        for story, members in stories.items()
        if not any(other != story and other.startswith(story) for other in stories)
    }


def _story(group: Sequence[Finding]) -> str:
    """The first of the stories."""
    (story, members), *others = stories_of(group).items()
    if not others:
        return story
    return f"in {described(members, among=group)}: {story} (-v shows all)"


def _cause_text(caused: Sequence[Finding], group: Sequence[Finding]) -> str:
    """`overflow; with only exp(x) exact, the gradient is right: 0.4 ulp (torch aten.exp)`: the
    first kind of cause with its proof, what the engines call it, and where there is another."""
    kinds: dict[str, list[Finding]] = {}
    for finding in caused:
        assert finding.cause is not None
        kinds.setdefault(finding.cause.kind, []).append(finding)
    (kind, members), *others = kinds.items()
    parts = [_proven(kind, members)]
    parts += [f"{other} in {described(which, among=group)}" for other, which in others]
    return "; ".join(parts)


def _proven(kind: str, members: Sequence[Finding]) -> str:
    proof = next((f.cause.proof for f in members if f.cause and f.cause.proof), "")
    text = f"{kind}; {proof}" if proof else f"{kind}, inferred from the operands, not proven"
    repaired = [
        (f.cause.repaired, f.dtype or "float64")
        for f in members
        if f.cause and f.cause.repaired is not None and f.cause.proof == proof
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
