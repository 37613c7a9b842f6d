"""Whatever the judge decides, nothing passes without a rule that says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.report import Check, Finding, Pass, Rule
from gradcheck_cli.domain.spec import Tolerance
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.judge import case as judging
from gradcheck_cli.judge import gate
from gradcheck_cli.judge.decision import Evidence, Judged, Verdict, judge_block
from gradcheck_cli.judge.measures import Again
from gradcheck_cli.run.finalize import Found, settle
from gradcheck_cli.run.plan import make_plan
from tests.conftest import decide, spec_of
from tests.judge.making import block, rows

FMT = FORMATS["float32"]
ULP = 2.0**-23
NAN, INF = np.nan, np.inf


def rules(
    g: Any,
    truth: TruthBlock,
    *,
    tolerance: Tolerance | None = None,
    lost: bool = False,
    wide: Any = None,
) -> dict[str, int]:
    """By which rules the entries pass, and how many by each."""
    numbers = rows(g, truth.value)
    again = None if wide is None else Again(rows(wide, truth.value), FORMATS["float64"])
    judged = judge_block(Evidence(numbers, truth, again, np.array([[lost]]), FMT, tolerance))
    return {one.rule: one.entries for one in gate.rules_of(numbers, truth, judged, FMT, tolerance)}


@pytest.mark.parametrize(
    ("g", "truth", "rule"),
    [
        (0.5, block(0.0, kind=PointKind.KINK, between=(-1, 1)), "kink"),
        (0.5, block(NAN, INF, kind=PointKind.UNDEFINED), "undefined point"),
        (0.5, block(0.0, kind=PointKind.JUMP), "jump"),
        (0.5, block(0.5, 0.4), "undecided"),
        (INF, block(1e300), "overflow"),
        (0.0, block(1e-42), "flushed"),
        (1 + 1e-4, block(1.0, 1.1e-4), "error bar"),
        (1.001, block(1.0, condition=1e-3), "conditioning"),
        (1 + 40 * ULP, block(1.0, allowance=10 * ULP), "few digits"),
        (1 + 400 * ULP, block(1.0, allowance=100 * ULP), "rounding"),
        (1 + 400 * ULP, block(1.0), "some digits"),
        (3e-7, block(0.0, 1e-16, scale=1.0, floor=1e-7), "zero"),
        ([[1.0, 1e-7]], block([[1.0, 2e-7]]), "invisible"),
        ([[1.0, 0.0]], block([[1.0, 1e-9]], condition=1e-8, scale=1.0), "small"),
    ],
)
def test_each_rule_is_named_by_the_numbers_that_it_is_about(
    g: Any, truth: TruthBlock, rule: Rule
) -> None:
    assert rules(g, truth) == {rule: 1}


def test_other_rules() -> None:
    assert rules(1.0, block(1.0)) == {}
    assert rules(1 + 3 * ULP, block(1.0)) == {}
    assert rules(0.5, block(1.0), tolerance=Tolerance(atol={"": 1.0})) == {"tolerance": 1}
    assert rules(0.5, block(1.0), lost=True) == {"lost output": 1}
    # what is reported as an error is passed by none
    assert rules(-1.0, block(1.0), wide=-1.0) == {"none": 1}
    assert rules(NAN, block(1.0)) == {"none": 1}


def test_every_rule_has_a_sentence() -> None:
    assert set(gate.RULES) == set(get_args(Rule))


# With a finding of their own, so that no rule needs to let them pass.
REPORTED = (
    Verdict.NAN,
    Verdict.INFINITE,
    Verdict.WRONG,
    Verdict.UNDERFLOW,
    Verdict.PRECISION,
)


def random_block(rng: np.random.Generator, shape: tuple[int, int]) -> TruthBlock:
    """Truth, bars and costs of any size beside each other."""

    def size(low: float, high: float) -> Any:
        drawn = 10.0 ** rng.uniform(low, high, shape)
        return np.where(rng.random(shape) < 0.3, 0.0, drawn)

    value = size(-50, 45) * rng.choice([-1.0, 1.0], shape)
    costs = {name: np.abs(value) * size(-9, 2) for name in ("condition", "allowance", "floor")}
    return block(
        value,
        np.abs(value) * size(-17, 1) + size(-60, -1) * (rng.random(shape) < 0.2),
        kind=rng.choice([0, 0, 0, 0, 1, 2, 3, 4], shape),
        between=(value - size(-9, 2), value + size(-9, 2)),
        scale=np.abs(value) * 10.0 ** rng.uniform(-1, 12, shape),
        **costs,
    )


@pytest.mark.parametrize("seed", range(40))
def test_what_the_judge_passes_has_a_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (4, 5)
    truth = random_block(rng, shape)
    with np.errstate(all="ignore"):
        g = truth.value * (1 + rng.choice([0, 1], shape) * 10.0 ** rng.uniform(-16, 1, shape))
        g = FMT.round(np.where(rng.random(shape) < 0.2, 0.0, g))
    tolerance = Tolerance(rtol={"": 1e-3}) if seed % 5 == 0 else None
    wide = Again(g if seed % 2 else truth.value, FORMATS["float64"])
    judged = judge_block(Evidence(g, truth, wide, np.zeros((1, 1), bool), FMT, tolerance))
    told = np.isin(judged.verdict, REPORTED)
    left = replace_verdicts(judged, told)
    found = gate.rules_of(g[~told][None], part(truth, ~told), left, FMT, tolerance)
    assert "none" not in {one.rule for one in found}, f"seed {seed}"


def part(truth: TruthBlock, mask: Any) -> TruthBlock:
    names = TruthBlock.__dataclass_fields__
    return TruthBlock(**{name: getattr(truth, name)[mask][None] for name in names})


def replace_verdicts(judged: Judged, told: Any) -> Judged:
    """The judged block without the entries that are told."""
    parts = {
        name: None if array is None else array[~told][None]
        for name in ("verdict", "ulps", "felt", "hidden")
        for array in (getattr(judged, name),)
    }
    return Judged(**parts)


# The whole run


CHECK = Check("torch", "float32", "reverse", "x", "passed")


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (replace(CHECK, max_ulps=3.0), ""),
        (replace(CHECK, max_ulps=2796202.0), "an error of 2.8e+06 ulp"),
        (replace(CHECK, max_ulps=None), "its error is not known"),
        (replace(CHECK, passed_by=(Pass("none", 2, 2796202.0),)), "no rule allows it"),
        (replace(CHECK, passed_by=(Pass("rounding", 1, 300.0),)), ""),
        # rounding alone takes half of the digits at most, and what is ill-conditioned is told
        (replace(CHECK, passed_by=(Pass("rounding", 1, 2796202.0),)), "`rounding`"),
        (replace(CHECK, passed_by=(Pass("conditioning", 1, 5000.0),)), "not reported"),
        (replace(CHECK, status="failed", max_ulps=1e9), ""),
    ],
)
def test_a_large_error_without_a_finding_is_impossible(check: Check, why: str) -> None:
    found = [said for _, said in gate.unexplained([check], [])]
    assert (not found) if not why else why in found[0]


def test_a_finding_that_says_so_is_enough() -> None:
    span = spec_of("x ** 2", {"x": 1.0}).program.nodes[0].span
    said = Finding("GC502", "note", "", span, "torch", "float32", "reverse", "x")
    check = replace(CHECK, passed_by=(Pass("conditioning", 1, 5000.0),))
    assert not list(gate.unexplained([check], [said]))
    for other in ({"engine": "jax"}, {"dtype": "float64"}, {"input": "y"}, {"code": "GC501"}):
        assert list(gate.unexplained([check], [replace(said, **other)]))


def test_a_judge_that_sees_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate does not take the judge's word: numbers that are wrong and passed are GC706."""

    def blind(*args: Any, **known: Any) -> Judged:
        judged = judge_block(*args, **known)
        judged.verdict[:] = 0
        return judged

    monkeypatch.setattr(judging, "judge_block", blind)
    spec = spec_of("tanh(x)", {"x": 0.5}, engines=("torch",))

    def wrong(evaluation: Any) -> Any:
        doubled = {
            name: replace(gradient, values=2 * gradient.values)
            for name, gradient in evaluation.gradients.items()
        }
        return replace(evaluation, gradients=doubled)

    made = decide(spec, "float32", change=wrong)
    assert {check.status for check in made.checks} == {"passed"}
    options = RunOptions()
    plan = make_plan(spec, options, engines())
    result = settle(plan, options, (), Found(list(made.checks), list(made.findings)))
    assert result.status == "failed"
    assert {finding.code for finding in result.findings} == {"GC706"}
    assert {check.status for check in result.checks} == {"error"}


def test_rules_stand_in_the_check(judged: Callable[..., Any]) -> None:
    made = judged("abs(x)", {"x": np.array([0.0, 1.0])}, dtype="float32")
    for check in made.checks:
        assert [one.rule for one in check.passed_by] == ["kink"]
        assert [one.entries for one in check.passed_by] == [1]
