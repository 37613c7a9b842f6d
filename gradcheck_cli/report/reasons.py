"""The reason for a finding: the numbers of the run, the class of its cause, and the proof."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from gradcheck_cli.domain.report import Cause, Finding
from gradcheck_cli.report.groups import described
from gradcheck_cli.report.numbers import small_or_relative
from gradcheck_cli.report.style import Style, labelled


def reason_lines(group: Sequence[Finding], style: Style) -> list[Text]:
    """A `why` line with the numbers of the run, and a `cause` line with its proof. With -v each
    finding has its own; otherwise the first ones stand for the group."""
    caused = [finding for finding in group if finding.cause and finding.cause.story]
    if not caused:
        return []
    lines = labelled("why", _story(group), style)
    lines += labelled("cause", _cause_text(caused, group), style)
    if style.verbose:
        lines += _meanings(group, style)
    return lines


def stories_of(group: Sequence[Finding]) -> dict[str, list[Finding]]:
    """The explanations with numbers, and the findings of each. An explanation that is the beginning
    of another one is left out."""
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
    """The first explanation."""
    (story, members), *others = stories_of(group).items()
    if not others:
        return story
    return f"in {described(members, among=group)}: {story} (-v shows all)"


def _cause_text(caused: Sequence[Finding], group: Sequence[Finding]) -> str:
    """`overflow; with only exp(x) exact, the gradient is right: 0.4 ulp (torch aten.exp)`: the
    first kind of cause with its proof, the names of the operation in the engines, and where another
    cause was found."""
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
    """(engine, its name of the operation) for each engine whose name differs from that in the
    formula."""
    found = {
        (engine or "", cause.engine_op): None
        for engine, cause in causes
        if cause.engine_op and cause.engine_op != cause.op
    }
    return list(found)


def _meanings(group: Sequence[Finding], style: Style) -> list[Text]:
    """The explanation of every kind of cause."""
    from gradcheck_cli.explain.blame.causes import CAUSES

    kinds = dict.fromkeys(finding.cause.kind for finding in group if finding.cause)
    return [line for kind in kinds for line in labelled("means", CAUSES[kind], style)]
