"""Why and cause: each told once, the engines' words beside it, and no more than can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gradcheck_cli.domain.report import Finding
from gradcheck_cli.explain.blame.causes import CAUSES
from gradcheck_cli.report.reasons import reason_lines
from gradcheck_cli.report.style import Style

from .samples import nan_finding

STORY = "why   forward: exp(100) = inf, 1/inf = 0; backward: 0 * inf = nan"
PROVEN = "cause overflow; with only `exp(x)` exact, the gradient is right"


def shown(group: Sequence[Finding], **style: Any) -> list[str]:
    lines = reason_lines(group, Style(width=160, **style))
    return [line.plain.strip() for line in lines]


def caused(finding: Finding, **changes: Any) -> Finding:
    assert finding.cause is not None
    return replace(finding, cause=replace(finding.cause, **changes))


def test_one_finding() -> None:
    assert shown([nan_finding("torch")]) == [STORY, f"{PROVEN}: 0.4 ulp (aten.exp.default)"]


def test_what_engines_have_in_common_is_told_once_with_the_worst_repair() -> None:
    group = [nan_finding("torch"), caused(nan_finding("tensorflow"), repaired=1.5)]
    assert shown(group) == [
        STORY,
        f"{PROVEN}: at most 1.5 ulp (torch aten.exp.default, tensorflow Exp)",
    ]


def test_the_formulas_own_word_is_not_repeated() -> None:
    assert shown([caused(nan_finding("torch"), engine_op="exp")]) == [STORY, f"{PROVEN}: 0.4 ulp"]


def test_there_is_one_story_and_one_cause_and_other_kinds_are_named() -> None:
    other = caused(
        nan_finding("tensorflow"), story="tangent: inf * 0 = nan", kind="0*inf", proof="another"
    )
    told, cause = shown([nan_finding("torch"), nan_finding("torch", "forward"), other])
    assert told == f"why   in torch reverse, forward: {STORY.removeprefix('why   ')} (-v shows all)"
    assert cause == f"{PROVEN}: 0.4 ulp (aten.exp.default); 0*inf in tensorflow reverse"


def test_what_was_not_proven_is_not_called_so() -> None:
    guess = caused(nan_finding("torch"), proven=False, proof="", repaired=None, engine_op=None)
    assert shown([guess]) == [STORY, "cause overflow, inferred from the operands, not proven"]


def test_verbose_says_what_the_word_means() -> None:
    assert "".join(shown([nan_finding("torch")], verbose=True)).endswith(
        CAUSES["overflow"].replace("\n", "")
    )


def test_nothing_is_said_without_a_cause() -> None:
    assert shown([replace(nan_finding("torch"), cause=None)]) == []
