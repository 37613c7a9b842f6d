"""Measures what `gradcheck search` finds and proves, on formulas with known answers.

    python benchmarks/search.py [--only NAME,...] [--engine torch] [--budget SECONDS]

`cases/search.jsonl` has one case on each line. `breaks` are the kinds that occur in the domain,
each with a point at which PyTorch was run and compared with derivatives in 120 digits of mpmath.
`safe` are the kinds that cannot occur, by hand and by 120 to 6,000 points that did not contradict
it. There is no claim about other kinds. About every third case is `apart`: nothing is tuned with
it.

A case may have `data` (inputs that are not searched), `constants`, and an `engine`. It is then only
searched with that engine, which was run instead of PyTorch.

Other engines may be right at those points, and fail at others. For them, `breaks` are the kinds in
which they fail at the same point, by the certified truth, and a kind in which they fail is not
safe.

A kind is rare in a case if the engine fails in it at less than 1e-4 of 32,768 points, drawn from
the domain by volume.

The exit code is 1 if a kind that occurs is called proven absent.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gradcheck_cli import specfile
from gradcheck_cli.checks.protocol import Steps, drive
from gradcheck_cli.engines.base import Engine, make
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.search.box import domain_of, to_ordinals
from gradcheck_cli.search.estimates import Answers, Estimator
from gradcheck_cli.search.kinds import suspects
from gradcheck_cli.search.runs import BATCH, Runner
from gradcheck_cli.search.truths import PointTruth
from gradcheck_cli.truth.plain import inlined

DATA = Path(__file__).parent / "cases" / "search.jsonl"
DRAWN = 1 << 15  # points
RARE = 1e-4  # part of the domain
Case = Mapping[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of cases")
    parser.add_argument("--engine", default="torch")
    parser.add_argument("--budget", help="seconds for each spec")
    options = parser.parse_args()
    cases = [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]
    cases = [case for case in cases if case.get("engine", options.engine) == options.engine]
    groups = {
        "to tune with": [case for case in cases if not case["apart"]],
        "kept apart": [case for case in cases if case["apart"]],
    }
    only = set(filter(None, options.only.split(",")))
    false = 0
    for title, group in groups.items():
        chosen = [case for case in group if not only or case["name"] in only]
        if chosen:
            answers = searched(chosen, options.engine, options.budget)
            chosen = [of_engine(case, options.engine, answers[case["name"]]) for case in chosen]
            seldom = {case["name"]: rare(case, options.engine) for case in chosen}
            false += summed_up(title, chosen, answers, seldom)
    return 1 if false else 0


def searched(
    cases: Sequence[Case], engine: str, budget: str | None
) -> dict[str, list[dict[str, Any]]]:
    """The searches of each case, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for case in cases:
            path = Path(folder, f"{case['name']}.yaml")
            path.write_text(json.dumps(spec_of(case)), "utf-8")
            files.append(str(path))
        command = [sys.executable, "-m", "gradcheck_cli", "search", *files, "--format", "json"]
        command += ["--engine", engine, *(["--budget", budget] if budget else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 4):
        raise SystemExit(done.stderr or f"gradcheck search ended with {done.returncode}")
    return {one["spec"]: one["searches"] for one in json.loads(done.stdout)["results"]}


def spec_of(case: Case) -> dict[str, Any]:
    """The case as a spec. The search begins at the values of the inputs."""
    inputs = {
        name: {
            "value": filled(one["shape"], start(*one["domain"])),
            "domain": [float(end) for end in one["domain"]],
        }
        for name, one in case["inputs"].items()
    }
    for name, value in case.get("data", {}).items():
        inputs[name] = {"value": value, "requires_grad": False}
    return {
        "name": case["name"],
        "inputs": inputs,
        "constants": case.get("constants", {}),
        "model": case["model"],
        "dtypes": [case["dtype"]],
    }


def of_engine(case: Case, engine: str, searches: Sequence[Mapping[str, Any]]) -> Case:
    """The case with the kinds that occur on an engine, found by a run at each point. PyTorch's are
    known."""
    if engine == case.get("engine", "torch"):
        return case
    fails = failures(case, engine)
    breaks = {kind: point for kind, point in case["breaks"].items() if kind in fails(point)}
    witnesses = {one["kind"]: one["witness"] for one in searches if one["witness"]}
    safe = [kind for kind in case["safe"] if kind not in witnesses]
    for kind in set(case["safe"]).intersection(witnesses):
        if kind not in fails(np.concatenate([np.ravel(x) for x in witnesses[kind].values()])):
            safe.append(kind)  # a witness that does not replay
    return {**case, "breaks": breaks, "safe": safe}


def failures(case: Case, name: str) -> Callable[[Any], set[str]]:
    """The kinds in which an engine of this process fails at a point, which gives numbers to all
    inputs."""
    runner = runner_of(case, name)
    program, domain, wrt = runner.program, runner.domain, runner.wrt

    def fails(point: Any) -> set[str]:
        at = to_ordinals(point, domain.format)
        answers = answered(name, runner.singly(at[None]))
        truth = PointTruth(inlined(program), domain.values(at), wrt, case["dtype"])
        return {one.kind for one in truth.failures(answers)}

    return fails


def rare(case: Case, name: str) -> set[str]:
    """The kinds that occur, but hardly anywhere, by an estimate of the true derivative."""
    runner = runner_of(case, name, DRAWN)
    if not case["breaks"] or not runner.together or runner.batched is None:
        return set()
    domain = runner.domain
    low, high = domain.numbers(np.stack([domain.low, domain.high])) / 2
    drawn = np.random.default_rng(0).uniform(-1, 1, (DRAWN, domain.size))
    points = domain.inside(to_ordinals(low + high + drawn * (high - low), domain.format))
    answers = answered(name, runner.at(points))
    estimator = Estimator(inlined(runner.batched), runner.wrt, case["dtype"])
    sizes = suspects(
        answers, lambda: estimator(runner.values(points), DRAWN), domain.format, case["breaks"]
    )
    return {kind for kind, size in sizes.items() if np.count_nonzero(size) < RARE * DRAWN}


def runner_of(case: Case, name: str, count: int = BATCH) -> Runner:
    (spec,), _ = specfile.read(f"{case['name']}.yaml", json.dumps(spec_of(case)))
    domain = domain_of(spec.inputs, case["dtype"])
    assert domain is not None
    return Runner(name, rounded(spec.program, case["dtype"]), domain, spec.wrt, count)


def answered(name: str, run: Steps[Answers]) -> Answers:
    """The answers of an engine of this process."""
    engine = loaded(name)
    return drive(run, lambda ask: engine.evaluate(ask.question))  # type: ignore[arg-type]


@cache
def loaded(name: str) -> Engine:
    engine = make(engines()[name].target)
    engine.load()
    return engine


def start(low: float, high: float) -> float:
    """A point inside the interval, away from special values."""
    return low + 0.6180339887 * (high - low)


def filled(shape: Sequence[int], value: float) -> Any:
    return [filled(shape[1:], value) for _ in range(shape[0])] if shape else value


def summed_up(
    title: str,
    cases: Sequence[Case],
    answers: Mapping[str, Any],
    seldom: Mapping[str, set[str]],
) -> int:
    """Print what was found and proven, and what was missed. Returns the number of false proofs.
    `seldom` has the rare kinds of each case."""
    counts = dict.fromkeys(("breaks", "found", "safe", "proven", "all six", "all proven"), 0)
    counts |= {"rare": 0, "rare found": 0}
    lines, false, seconds = [], 0, []
    for case in cases:
        verdicts = {one["kind"]: one["verdict"] for one in answers.get(case["name"], [])}
        seconds.append(max((one["seconds"] for one in answers.get(case["name"], [])), default=0))
        broken = [kind for kind in case["breaks"] if verdicts.get(kind) == "found"]
        proven = [kind for kind in case["safe"] if verdicts.get(kind) == "proven-absent"]
        wrong = [kind for kind in case["breaks"] if verdicts.get(kind) == "proven-absent"]
        alarmed = [kind for kind in case["safe"] if verdicts.get(kind) == "found"]
        false += len(wrong)
        whole = len(case["safe"]) == 6
        counts["breaks"] += len(case["breaks"])
        counts["found"] += len(broken)
        counts["rare"] += len(seldom[case["name"]])
        counts["rare found"] += len(seldom[case["name"]].intersection(broken))
        counts["safe"] += len(case["safe"])
        counts["proven"] += len(proven)
        counts["all six"] += whole
        counts["all proven"] += whole and len(proven) == 6
        for words, kinds in (
            ("FALSE PROOF", wrong),
            ("found where it should be safe", alarmed),
            ("missed", [kind for kind in case["breaks"] if kind not in [*broken, *wrong]]),
            ("not proven", [kind for kind in case["safe"] if kind not in [*proven, *alarmed]]),
        ):
            if kinds:
                lines.append(f"  {case['name']:22} {words}: {', '.join(kinds)}")
    print(f"{title}: {len(cases)} cases")
    print(*lines, sep="\n")
    print(
        f"  found {counts['found']} of {counts['breaks']}, of rare ones {counts['rare found']} of"
        f" {counts['rare']}; proven {counts['proven']} of"
        f" {counts['safe']}; safe in all six kinds and proven {counts['all proven']} of"
        f" {counts['all six']}; false proofs {false}; seconds: median"
        f" {statistics.median(seconds):.2f}, most {max(seconds):.1f}\n"
    )
    return false


if __name__ == "__main__":
    sys.exit(main())
