"""Measures the cost of an explanation, in plain runs of the same program in float64.

Plain: value and gradient by the same engine in float64, as in a check. Certified: the gradient in
balls. Weighed: the cost of rounding, and a second opinion by finite differences. Judged: finding
the suspects, and the verdicts, which cost the same without an explanation. Explained: the two
traced looks (operations recorded and run again exactly, and the cause proven), and the message.
Fixes do not count: the search for them comes afterwards. The table has the fastest of several
turns, in processor time. (PyTorch's threads count while they wait for each other, so there is only
one.)

An explanation may cost ten plain runs and the certified one. This is `allowed`, and the last number
of a row is the share that was used. The exit code is 1 if it is more than 1. A counted run costs
more here than a plain one, because every operation is examined separately, which small arrays feel
(`tests/explain/test_cost.py` counts the runs: fewer than ten). Rows of single numbers miss the
target for this reason, by up to a factor of two if the engine is fast: an operation is recorded,
run in float64, in balls, alone in the dtype, and again after the culprit, at 10 to 30 microseconds
each, while the plain run takes 3.

    python benchmarks/explanations.py [engine ...]
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

from gradcheck_cli import specfile
from gradcheck_cli.domain.case import Case, Suspect
from gradcheck_cli.domain.evaluation import Evaluation
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.explain import explain
from gradcheck_cli.judge import judge, suspects
from gradcheck_cli.run.plan import Plan, make_plan
from gradcheck_cli.truth import compute
from gradcheck_cli.truth.certified.enclose import certify

ENGINES = ("reference", "torch", "tensorflow", "jax")
REPEATS = 15
PLAIN_RUNS = 10  # that an explanation may cost, besides the certified run


@dataclass(frozen=True, slots=True)
class Formula:
    text: str
    x: Any
    dtype: str = "float32"


_STEPS = "y = x\n" + "y = tanh(y) * 1.01 + 0.1\n" * 100
_ATTENTION = """
scores = x @ transpose(x)
e = exp(scores)
p = e / sum(e, axis=1, keepdims=True)
context = p @ x
mean((context - 1) ** 2)
"""
_CHOLESKY = """
gram = x @ transpose(x)
l = cholesky(gram + 0.001 * eye(30))
sum(log(diag(l)))
"""
_RNG = np.random.default_rng(4)

FORMULAS: Mapping[str, Formula] = {
    "1 / exp(x)": Formula("1 / exp(x)", 100.0),
    "variance of 1000": Formula("mean(x ** 2) - mean(x) ** 2", 1e4 + np.arange(1000) / 1000.0),
    "400 operations": Formula(_STEPS + "log(1 - tanh(20 * y) ** 2)", 1.0),
    "400 and 1 / exp": Formula(_STEPS + "1 / exp(200 * y)", 1.0),
    "400 in float16": Formula(_STEPS + "log(1 - tanh(6 * y) ** 2)", 1.0, "float16"),
    "softmax of 20000": Formula("-sum(log(exp(x) / sum(exp(x))))", np.linspace(0, 200, 20000)),
    "attention of 24": Formula(_ATTENTION, 4 * _RNG.standard_normal((24, 8))),
    "cholesky of 30": Formula(_CHOLESKY, _RNG.standard_normal((30, 8)) * 8),
}


@dataclass(frozen=True, slots=True)
class Row:
    """Processor seconds."""

    plain: float
    certified: float
    weighed: float
    judged: float
    explained: float

    @property
    def allowed(self) -> float:
        return PLAIN_RUNS * self.plain + self.certified


def planned(formula: Formula, engine: str) -> Plan:
    text = f"name: benchmark\ninputs: {{x: {np.asarray(formula.x).tolist()}}}\nmodel: |\n"
    text += "".join(f"  {line}\n" for line in formula.text.strip().splitlines())
    specs, mistakes = specfile.read("benchmark.yaml", text)
    assert not mistakes, mistakes
    options = RunOptions(
        dtypes=Layered(override=(formula.dtype,)), modes=Layered(override=("reverse",))
    )
    return make_plan(specs[0], options, {engine: engines()[engine]})


def row(plan: Plan, name: str, engine: Engine) -> tuple[Row, str]:
    """The measurements for one formula and engine, and the codes of its findings."""
    (look,) = plan.looks
    (problem,) = look.problems[name]
    truth = compute(look.truth)
    case = replace(look.case, evaluations=(engine.evaluate(problem),), truth=truth)
    known = replace(look.truth, conditioning=True, known=truth)
    weighed = replace(case, truth=compute(known))

    def looks(asked: Sequence[Suspect]) -> Case:
        """The case after a second look at every suspect, with a trace, in both precisions."""
        traced: dict[tuple[str, str], Evaluation] = {}
        wide: dict[tuple[str, str], Evaluation] = {}
        for suspect in asked:
            again = replace(problem, trace=suspect.trace)
            traced[suspect.engine, suspect.mode] = engine.evaluate(again)
            wide[suspect.engine, suspect.mode] = engine.evaluate(replace(again, dtype="float64"))
        return replace(weighed, traced=traced, wide=wide)

    asked = suspects(weighed)
    looked = looks(asked)
    findings = judge(looked)[1]
    codes = ", ".join(sorted(_told(finding) for finding in explain(looked, findings)))
    exact = replace(problem, dtype="float64")
    times = fastest(
        lambda: engine.evaluate(exact),
        lambda: certify(look.truth),
        lambda: compute(known),
        lambda: (suspects(weighed), judge(looked)),
        lambda: explain(looks(asked), findings),
    )
    return Row(*times), codes


def _told(finding: Finding) -> str:
    cause = finding.cause
    return f"{finding.code} {cause.kind if cause and cause.proven else 'unproven'}"


def fastest(*functions: Callable[[], Any]) -> list[float]:
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(REPEATS):
        for function, mine in zip(functions, times, strict=True):
            started = time.process_time()
            function()
            mine.append(time.process_time() - started)
    return [min(mine) for mine in times]


def main(names: list[str]) -> int:
    columns = ("plain", "certified", "weighed", "judged", "explained", "allowed")
    print(f"{'milliseconds':30s}" + "".join(f"{name:>10s}" for name in columns))
    missed = False
    for name in names or ENGINES:
        engine = engines()[name].engine
        assert engine is not None
        engine.load()
        gc.freeze()  # as a worker does
        if name == "torch":
            sys.modules["torch"].set_num_threads(1)
        for title, formula in FORMULAS.items():
            one, codes = row(planned(formula, name), name, engine)
            parts = (*astuple(one), one.allowed)
            taken = one.explained / one.allowed
            missed |= taken > 1
            times = "".join(f"{1e3 * t:10.2f}" for t in parts)
            print(f"{title:18s}{name:12s}{times}{taken:6.2f}  {codes}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
