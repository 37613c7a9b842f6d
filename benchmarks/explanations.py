"""What an explanation costs, beside plain runs of the same program in float64, in one run.

Plain: value and gradient by the same engine in float64, as a check asks for them. Certified: the
gradient in balls. Weighed: the cost of rounding, and a second opinion by differences. Explained:
the two traced looks (the operations written down, run again exactly, the cause proven), the
verdict and its words. Fixes are in neither: they are looked for afterwards. Shown are the fastest
of a few turns, in time of the processor, and how many plain runs each is. A run of the program
that is counted costs more here than a plain one: every operation is looked at on its own, so that
small arrays pay for the looking (`tests/explain/test_cost.py` counts the runs: fewer than ten).

    python benchmarks/explanations.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck_cli import specfile
from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.explain import explain
from gradcheck_cli.judge import judge, suspects
from gradcheck_cli.run.plan import Plan, make_plan
from gradcheck_cli.truth import compute
from gradcheck_cli.truth.certified import certify

ENGINES = ("reference", "torch")
REPEATS = 7

_LONG = "y = x\n" + "y = tanh(y) * 1.01 + 0.1\n" * 100
FORMULAS: Mapping[str, tuple[str, Any]] = {
    "1 / exp(x)": ("1 / exp(x)", 100.0),
    "variance of 1000": ("mean(x ** 2) - mean(x) ** 2", 1e4 + np.arange(1000) / 1000.0),
    "400 operations": (_LONG + "log(1 - tanh(20 * y) ** 2)", 1.0),
    "softmax of 20000": ("-sum(log(exp(x) / sum(exp(x))))", np.linspace(0, 200, 20000)),
}


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds of the processor."""

    plain: float
    certified: float
    weighed: float
    explained: float


def planned(formula: str, x: Any) -> Plan:
    text = f"name: benchmark\ninputs: {{x: {np.asarray(x).tolist()}}}\nmodel: |\n"
    text += "".join(f"  {line}\n" for line in formula.splitlines())
    specs, mistakes = specfile.read("benchmark.yaml", text)
    assert not mistakes, mistakes
    options = RunOptions(
        dtypes=Layered(override=("float32",)), modes=Layered(override=("reverse",))
    )
    return make_plan(specs[0], options, {name: engines()[name] for name in ENGINES})


def row(plan: Plan, name: str, engine: Engine) -> tuple[Row, str]:
    """What was measured for one formula and engine, and the codes of its findings."""
    (look,) = plan.looks
    (problem,) = look.problems[name]
    truth = compute(look.truth)
    case = Case(
        spec=plan.spec,
        point=look.point,
        dtype=look.dtype,
        values=look.values,
        projections=look.projections,
        evaluations=(engine.evaluate(problem),),
        truth=truth,
    )
    known = replace(look.truth, conditioning=True, known=truth)
    weighed = replace(case, truth=compute(known))

    def explained() -> str:
        traced, wide = {}, {}
        for suspect in suspects(weighed):
            again = replace(problem, trace=suspect.trace)
            traced[suspect.engine, suspect.mode] = engine.evaluate(again)
            wide[suspect.engine, suspect.mode] = engine.evaluate(replace(again, dtype="float64"))
        looked = replace(weighed, traced=traced, wide=wide)
        found = explain(looked, judge(looked)[1])
        return ", ".join(sorted({finding.code for finding in found}))

    codes = explained()
    exact = replace(problem, dtype="float64")
    times = fastest(
        lambda: engine.evaluate(exact),
        lambda: certify(look.truth),
        lambda: compute(known),
        explained,
    )
    return Row(*times), codes


def fastest(*functions: Callable[[], Any]) -> list[float]:
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(REPEATS):
        for function, mine in zip(functions, times, strict=True):
            started = time.process_time()
            function()
            mine.append(time.process_time() - started)
    return [min(mine) for mine in times]


def main() -> int:
    print(
        f"{'':32s}" + "".join(f"{n:>20s}" for n in ("plain", "certified", "weighed", "explained"))
    )
    for name in ENGINES:
        engine = engines()[name].engine
        assert engine is not None
        engine.load()
        for title, (formula, x) in FORMULAS.items():
            one, codes = row(planned(formula, x), name, engine)
            parts = (one.plain, one.certified, one.weighed, one.explained)
            times = "".join(f"{1e3 * t:10.2f} ms {t / one.plain:5.0f} x" for t in parts)
            print(f"{title:20s}{name:12s}{times}  {codes}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
