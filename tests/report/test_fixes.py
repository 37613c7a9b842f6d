"""What to write instead, on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gradcheck_cli.domain.report import Finding
from gradcheck_cli.report.fixes import fix_lines, short_fix
from gradcheck_cli.report.style import Style

from .samples import nan_finding, tried_fix


def shown(group: Sequence[Finding], **style: Any) -> list[str]:
    return [line.plain.rstrip() for line in fix_lines(group, Style(width=120, **style))]


def fixed(engine: str, **changes: Any) -> Finding:
    return replace(nan_finding(engine), fix=replace(tried_fix(), **changes))


def test_the_formula_and_how_it_did() -> None:
    assert shown([fixed("torch")]) == [
        "  fix   exp(-x)   tried at this point: -3.78350585e-44, 0.45 ulp",
        "        right at 7 of 8 fresh points around it",
    ]


def test_what_it_replaces_where_that_is_not_everything() -> None:
    lines = shown([fixed("torch", model="2 * exp(-x)")])
    assert lines[0].startswith("  fix   exp(-x)   in place of 1 / exp(x)   tried")


def test_a_fix_of_several_engines_is_told_once() -> None:
    group = [fixed("torch"), fixed("tensorflow", right=8)]
    assert shown(group)[1:] == [
        "        right at 7 of 8 fresh points around it in torch",
        "        right at 8 of 8 fresh points around it in tensorflow",
    ]


def test_an_engine_without_a_fix_is_told_why() -> None:
    without = replace(nan_finding("tensorflow"), no_fix="no rewrite helps here")
    assert shown([without]) == ["  fix   none: no rewrite helps here"]
    assert shown([fixed("torch"), without])[-1] == (
        "  fix   none in tensorflow: no rewrite helps here"
    )


def test_conditions_and_kinks_are_told() -> None:
    lines = shown([fixed("torch", condition="x > 0", kink="0 where x = 0")])
    assert lines[2:] == [
        "        equal where x > 0",
        "        where the original has no derivative, this one has 0 where x = 0",
    ]


def test_an_error_that_rounding_explains_is_said_to_be_one() -> None:
    assert shown([fixed("torch", ulps_after=7000.0)])[0].endswith(
        "0.00083 relative, no more than rounding explains"
    )


def test_a_stated_derivative_is_written_in_lines() -> None:
    after = "def f_vjp(upstream, x):\n    return upstream\nf(x)"
    lines = shown([fixed("torch", after=after, custom=True)])
    assert lines[:4] == [
        "  fix   state the derivative, in place of 1 / exp(x):",
        "          def f_vjp(upstream, x):",
        "              return upstream",
        "          f(x)",
    ]
    assert short_fix(fixed("torch", after=after)) == ""


def test_the_code_is_for_who_asks() -> None:
    assert not any("torch.exp" in line for line in shown([fixed("torch")]))
    verbose = shown([fixed("torch")], verbose=True)
    assert verbose[2] == "  code  torch:"
    assert verbose[-1] == "              return torch.exp(-x)"


def test_where_nothing_was_looked_for_nothing_is_said() -> None:
    assert shown([nan_finding("torch")]) == []
