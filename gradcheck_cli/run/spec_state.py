"""A spec on its way through a run: what was asked about it, and what came back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from gradcheck_cli.domain.case import Case, TrainingCase
from gradcheck_cli.domain.evaluation import Evaluation, Failure, Training
from gradcheck_cli.domain.fixes import Screened
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.domain.report import Check, Finding
from gradcheck_cli.domain.truth import Truth
from gradcheck_cli.run.plan import Plan

if TYPE_CHECKING:
    from gradcheck_cli.explain.fixes.trials import Tried

Kind = Literal[
    "first",
    "path",
    "traced",
    "wide",
    "kept",
    "zero",
    "truth",
    "exact",
    "near",
    "screen",
    "trial",
    "layer",
]
"""What an answer is."""


@dataclass(slots=True)
class Work:
    """A spec on its way. Lists run along `plan.looks`, or along `plan.trainings`."""

    plan: Plan
    waiting: int = 0
    stages: int = 0  # that were gone through after the first answers
    evaluations: list[dict[str, list[Evaluation]]] = field(default_factory=list)
    traced: list[dict[tuple[str, str], Evaluation]] = field(default_factory=list)
    wide: list[dict[tuple[str, str], Evaluation]] = field(default_factory=list)
    kept: list[dict[str, Evaluation]] = field(default_factory=list)
    zero: list[dict[str, Evaluation]] = field(default_factory=list)
    truths: list[Truth | None] = field(default_factory=list)
    no_truth: dict[int, Failure] = field(default_factory=dict)  # by the look, why
    faults: dict[int, list[Failure]] = field(default_factory=dict)  # of ours, by the look
    paths: list[dict[str, Training]] = field(default_factory=list)
    exact: list[Training | None] = field(default_factory=list)
    near: list[Training | None] = field(default_factory=list)
    seconds: dict[str | None, float] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)  # in order, each once
    judged: dict[int, tuple[Sequence[Check], Sequence[Finding]]] = field(default_factory=dict)
    screened: dict[int, Screened] = field(default_factory=dict)
    tried: list[tuple[int, Tried]] = field(default_factory=list)  # the look, and what
    trials: dict[int, Evaluation] = field(default_factory=dict)  # by the place in `tried`
    layers: dict[int, LayerAnswer] = field(default_factory=dict)  # by the place in `plan.layers`


LIMITS = ("timed-out", "out-of-memory")
"""Failures of the reference worker that are limits of the run, and no mistake of gradcheck's."""


def fallbacks(work: Work) -> Iterator[str]:
    """Where differences had to stand in for a certified truth, as sentences."""
    told: dict[str, list[str]] = {}
    for look, truth in zip(work.plan.looks, work.truths, strict=True):
        if truth is not None and truth.fallback:
            told.setdefault(truth.fallback, []).append(look.dtype)
    for reason, dtypes in told.items():
        where = ", ".join(dict.fromkeys(dtypes))
        yield f"{where}: not certified, {reason}; finite differences and float64 decide"


def compilations(work: Work) -> Iterator[str]:
    """How long engines compiled, where they did, as sentences; it is no part of other times."""
    for engine in work.plan.engines:
        seconds = sum(e.compile_s for looks in work.evaluations for e in looks[engine])
        if seconds:
            yield f"{engine}: compiled in {seconds:.1f} s"


def new_work(plan: Plan) -> Work:
    """Nothing has come back yet but what engines refuse."""
    return Work(
        plan,
        evaluations=[
            {
                name: [answer for answer in look.refused if answer.engine == name]
                for name in plan.engines
            }
            for look in plan.looks
        ],
        traced=[{} for _ in plan.looks],
        wide=[{} for _ in plan.looks],
        kept=[{} for _ in plan.looks],
        zero=[{} for _ in plan.looks],
        truths=[None] * len(plan.looks),
        paths=[
            {name: _not_there(plan, name, problem.dtype) for name in plan.without & plan.named}
            for problem in plan.trainings
        ],
        exact=[None] * len(plan.trainings),
        near=[None] * len(plan.trainings),
    )


def _not_there(plan: Plan, engine: str, dtype: str) -> Training:
    """The answer of an engine that does not compute on the device."""
    words = f"{engine} computes on the CPU, and has no device `{plan.placement.device}`"
    return Training(engine, dtype, failure=Failure("unsupported", words))


def case_of(work: Work, index: int) -> Case:
    """What is known of one look."""
    plan = work.plan
    look = plan.looks[index]
    return Case(
        spec=plan.spec,
        point=look.point,
        dtype=look.dtype,
        values=look.values,
        projections=look.projections,
        # in the order of the engines, not in that in which they answered
        evaluations=tuple(e for name in plan.engines for e in work.evaluations[index][name]),
        truth=work.truths[index],
        no_truth=work.no_truth.get(index),
        traced=work.traced[index],
        wide=work.wide[index],
        kept=work.kept[index],
        zero=work.zero[index],
        named=plan.named,
        named_modes=plan.named_modes,
        seed=plan.seed,
    )


def answers_of(work: Work, index: int) -> dict[Tried, Evaluation]:
    """What came of the trials of one look so far."""
    return {
        tried: work.trials[place]
        for place, (about, tried) in enumerate(work.tried)
        if about == index and place in work.trials
    }


def training_case_of(work: Work, index: int) -> TrainingCase:
    """What is known of one training."""
    plan = work.plan
    problem = plan.trainings[index]
    silent = plan.without - plan.named  # not on this device, and nobody asked for them
    return TrainingCase(
        spec=plan.spec,
        problem=problem,
        dtype=problem.dtype,
        paths=tuple(work.paths[index][name] for name in plan.engines if name not in silent),
        exact=work.exact[index],
        calibration=work.near[index],
    )


@contextmanager
def ours(work: Work, index: int, what: str) -> Iterator[None]:
    """Inside the block gradcheck does `what` for one look by itself: an exception there is a
    finding about that look, and everything else of the run goes on."""
    try:
        yield
    except Exception as error:
        from gradcheck_cli.engines.tracebacks import internal_failure

        work.faults.setdefault(index, []).append(internal_failure(error, what))


def keep(work: Work, kind: Kind, index: int, answer: Any) -> None:
    """Puts an answer where it belongs. A failed second look leaves the first as it is."""
    if kind == "layer":
        work.layers[index] = answer
    elif kind == "first":
        work.evaluations[index][answer.engine].append(answer)
    elif kind == "path":
        work.paths[index][answer.engine] = answer
    elif kind == "exact":
        work.exact[index] = answer
    elif kind == "near":
        work.near[index] = answer
    elif kind == "trial":
        work.trials[index] = answer
    elif kind == "screen":
        if not isinstance(answer, Failure):
            work.screened[index] = answer
        elif answer.kind in LIMITS:
            work.notes[f"no fix was tried: {answer.message}"] = None
        else:
            work.faults.setdefault(index, []).append(answer)
    elif isinstance(answer, Failure):  # of the truth, which has no engine to be a finding of
        if answer.kind in LIMITS:
            work.notes[f"the truth could not be computed: {answer.message}"] = None
        else:
            answer = replace(answer, kind="internal")
        if work.truths[index] is None:
            work.no_truth[index] = answer
        elif answer.kind == "internal":
            work.faults.setdefault(index, []).append(answer)
    elif kind == "truth":
        work.truths[index] = answer
    elif kind in ("kept", "zero"):
        if answer.failure is None:
            (work.kept if kind == "kept" else work.zero)[index][answer.mode] = answer
    elif answer.failure is None:
        kept = work.traced if kind == "traced" else work.wide
        kept[index][answer.engine, answer.mode] = answer
