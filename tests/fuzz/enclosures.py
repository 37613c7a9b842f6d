"""Attacks on the bounds from which proofs of `gradcheck search` are made: what an engine computes
at a point lies within the enclosure of that point. This tells of a kernel that rounds in another
way than its rule says, long before a proof is false.

    python -m tests.fuzz.enclosures [--engine E] [--dtypes D,...] [--formulas F;...] [--points N]

`FORMULAS` have one number, `OF_ARRAYS` arrays of several sizes, so that kernels take their wide
loops and what is left over. Points are run many at once, and some of them alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradcheck_cli import specfile
from gradcheck_cli.checks.protocol import Steps, drive
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.search import GradientRequest
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.base import make
from gradcheck_cli.engines.errors import NodeFault
from gradcheck_cli.engines.kit.gradient_program import engine_program
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.search.box import Domain, Ordinals, domain_of
from gradcheck_cli.search.enclosures.enclosed import Enclosed, Exceeds, Rounding
from gradcheck_cli.search.enclosures.enclosing import BoxProgram
from gradcheck_cli.search.enclosures.faithful import AGAIN, LOOSE, of_one_dtype, unfaithful
from gradcheck_cli.search.estimates import Answers
from gradcheck_cli.search.probes import probes
from gradcheck_cli.search.runs import BATCH, Runner
from gradcheck_cli.truth.batching import NotBatched

FORMULAS = (
    *("exp(x)", "exp2(x)", "expm1(x)", "log(x)", "log1p(x)", "log2(x)", "log10(x)", "tanh(x)"),
    *("sigmoid(x)", "softplus(x)", "log_sigmoid(x)", "silu(x)", "elu(x)", "softsign(x)"),
    *("erf(x)", "erfc(x)", "ndtr(x)", "gelu(x)", "lgamma(x)", "digamma(x)", "sin(x)", "cos(x)"),
    *("tan(x)", "asin(x)", "acos(x)", "atan(x)", "sinh(x)", "cosh(x)", "asinh(x)", "acosh(x)"),
    *("atanh(x)", "sqrt(x)", "rsqrt(x)", "cbrt(x)", "1/x", "reciprocal(x)", "square(x)", "abs(x)"),
    *("x**3", "x**5", "x**20", "x**-2", "x**-3", "x**0.5", "x**1.7", "x**-1.7"),
    *("1/exp(x)", "1/(1 + exp(x))", "(2 + exp(x))**2", "exp(x)*(2 + exp(x))", "exp(-exp(x)) - 1"),
    *("hypot(x, 1.5)", "atan2(x, 0.7)", "atan2(0.7, x)", "xlogy(x, x + 3)", "logaddexp(x, 1)"),
    *("mish(x)", "selu(x)", "relu6(x)", "clip(x, -1, 2)**2", "bce_with_logits(x, 0.3)", "logit(x)"),
    *("erfinv(x)", "ndtri(x)", "i0(x)", "i1(x)", "i0e(x)", "i1e(x)", "sqrt(maximum(x, 0))"),
    *(
        "gelu(x, approximate=True)",
        "minimum(x, x*x)",
        "relu6(x)*x",
        "(x - 0.5)*x",
        "(2 - x)/(3 + x*x)",
    ),
    *("log_ndtr(x)", "erfcx(x)", "log1mexp(x)", "betaln(x, 1.5)", "xlog1py(x, x)", "leaky_relu(x)"),
    *("bce(x, 0.3)", "kl_div(x, 0.3)", "x * sin(x) * exp(-x*x)", "x * maximum(x, x*x)"),
)
OF_ARRAYS = (
    *("sum(x)", "mean(x)", "prod(x)", "norm(x)", "var(x)", "std(x)", "max(x)", "logsumexp(x)"),
    *(
        "var(x, correction=1)",
        "sum(cumsum(x)**2)",
        "sum(cumprod(x)**2)",
        "sum(cos(x) @ outer(x, x))",
    ),
    *("sum(softmax(x) * sin(x))", "sum(log_softmax(x) * cos(x))", "mean(x**2) - mean(x)**2"),
    *(
        "sum(layer_norm(x, cos(x), x)**2)",
        "sum((x - mean(x)) / sqrt(var(x) + 1e-5) * sin(x))",
        "dot(x, x)",
        "cross_entropy(x, 0)",
    ),
    *("sum(exp(x))", "sum(tanh(x))", "sum(log(abs(x) + 1))", "sum(sigmoid(x) * x)", "sum(erf(x))"),
    *("mean(huber(x, sin(x)))", "mean(mse(x, cos(x)))", "sum(rms_norm(x, cos(x)))"),
    *("sum(cummax(x, axis=0) * cos(x))", "sum(roll(x, 1) * x)", "einsum('i,i->', x, sin(x))"),
    *("sum(sort(x) * cos(x))", "sum(topk_values(x, 1))", "median(x)", "sum(pad(x, 1)**2)"),
    *("norm(x, ord=1)", "norm(x, ord=3)", "sum(x[::-1] * x)", "sum(diag(x) @ cos(x))"),
    *("sum(x / norm(x))", "logsumexp(x) - max(x)", "sum(exp(x - max(x)))", "sum(1 / (1 + x**2))"),
)
SIZES = (1, 2, 3, 7, 8, 16, 33)
_ALONE = 24  # points of each formula that are run one by one


class Attack:
    """One engine of this process."""

    def __init__(self, engine: str, seed: int = 0) -> None:
        self.name = engine
        self._rng = np.random.default_rng(seed)
        self._engine = make(engines()[engine].target)
        self._engine.load()
        self.points = 0

    def run(self, spec: Spec, dtype: str, points: int) -> Iterator[str]:
        """Compare the formula with its enclosures over its domain, and yield the results
        outside."""
        domain = domain_of(spec.inputs, dtype)
        assert domain is not None
        runner = Runner(self.name, rounded(spec.program, dtype), domain, spec.wrt)
        try:
            gradient = self._answer(GradientRequest(runner.full_problem(domain.start)))
        except NodeFault:  # the formula has no value in the middle of the domain
            return
        if gradient.program is None or unfaithful(gradient.program, self.name):
            return
        if of_one_dtype(runner.program, self.name, dtype):
            return
        fmt = FORMATS[dtype]
        rounding = Rounding.of(fmt, self.name in LOOSE, self.name in AGAIN)
        self._huge = rounding.huge * (1 - 2.0**-10)
        constants = {**domain.still, **gradient.constants}
        try:
            boxes = BoxProgram(gradient.program, constants, fmt, rounding)
            start = domain.arrays(domain.numbers(domain.start[None]))
            boxes(start, start, 1)  # raises, where a rule does not hold for its keywords
        except (Exceeds, NotBatched):
            return
        for some in self._batches(domain, points):
            yield from self._compared(boxes, domain, some, runner.at(some))
        alone = domain.inside(self._rng.permutation(probes(domain, (), self._rng))[:_ALONE])
        yield from self._compared(boxes, domain, alone, runner.singly(alone))

    def _compared(
        self, boxes: BoxProgram, domain: Domain, points: Ordinals, run: Steps[Answers]
    ) -> Iterator[str]:
        answers = drive(run, lambda ask: self._answer(ask.question))
        arrays = domain.arrays(domain.numbers(points))
        rows = range(answers.value.shape[1])
        gradients = answers.gradients.values()
        computed = [answers.value, *(g[:, r] for r in rows for g in gradients)]
        self.points += len(points)
        for found, numbers in zip(boxes(arrays, arrays, len(points)), computed, strict=True):
            if found is not None and answers.answered.all():
                yield from self._outside(domain, points, found, numbers.reshape(len(points), -1))

    def _batches(self, domain: Domain, points: int) -> Iterator[Ordinals]:
        special = probes(domain, (), self._rng)
        drawn = self._rng.integers(domain.low, domain.high + 1, size=(points, domain.size))
        every = np.concatenate([special, drawn])
        low, high = int(domain.low[0]), int(domain.high[0])
        if domain.size == 1 and high - low < 1 << 17:  # all that there are
            every = np.arange(low, high + 1)[:, None]
        for begin in range(0, len(every), BATCH):
            yield every[begin : begin + BATCH]

    def _outside(
        self, domain: Domain, points: Ordinals, found: Enclosed, computed: Any
    ) -> Iterator[str]:
        parts = (part.reshape(len(points), -1) for part in found.parts)
        lo, hi, d, a, bad, _, _, overflows, flushed, gap, floor, firm = parts
        with np.errstate(all="ignore"):
            apart = np.abs(computed - np.clip(computed, lo, hi))
            bound = d * np.maximum(np.abs(lo), np.abs(hi)) + a
            bound = np.where(computed == 0, bound, bound - flushed * (1 - 2.0**-40))
            within = apart <= bound
            end = np.where(computed > 0, hi, -lo)  # the exact number may be so large, of its sign
            large = (np.abs(computed) >= self._huge) & (end > self._huge)
            settled = np.isfinite(computed) & np.isfinite(bound)
            outside = ~within & (~bad | (settled & ~overflows)) | (overflows & ~(within | large))
            above = ~bad & (np.minimum(np.abs(lo), np.abs(hi)) >= floor) & (lo * hi > 0)
            near = d * np.maximum(np.abs(lo), np.abs(hi)) + firm * (1 + 2.0**-40)
            outside |= above & (apart > near)
        outside |= (a == 0) & ~bad & (computed != 0) & (np.abs(computed) < gap)
        wrong = np.broadcast_to(found.broken, found.bad.shape).reshape(len(points), -1)
        outside |= wrong & np.isfinite(computed)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            yield (
                f"at {domain.numbers(points[row : row + 1])[0]}: {computed[row, column]!r} is not"
                f" in [{lo[row, column]!r}, {hi[row, column]!r}] +- {bound[row, column]!r}"
            )

    def _answer(self, question: Any) -> Any:
        if isinstance(question, GradientRequest):
            return engine_program(self._engine, question.problem)
        return self._engine.evaluate(question)


Interval = tuple[float, float]


def spec_of(model: str, domain: Interval, size: int = 0) -> Spec:
    """A formula of x, an array of this size (0: a number)."""
    middle = 0.5 * domain[0] + 0.5 * domain[1]
    value = [middle] * size if size else middle
    text = f"inputs: {{x: {{value: {value}, domain: {list(domain)}}}}}\nmodel: {model}\n"
    specs, mistakes = specfile.read("attack.yaml", text)
    assert not mistakes, mistakes
    return specs[0]


def attacks(formulas: Sequence[str], dtype: str) -> Iterator[tuple[str, Spec]]:
    """Each formula over the whole dtype, and over numbers that are close together, small, of one
    sign, or in the range where approximations of functions are worst. Formulas of arrays are tried
    in every size."""
    largest, least = FORMATS[dtype].largest * 0.999, FORMATS[dtype].smallest_normal
    near = [(-4.0, 4.0), (0.9, 1.1), (-1e-3, 2e-3), (1000.0, 1001.0), (0.0, 40.0), (-20.0, -8.0)]
    near += [(-8 * least, 8 * least), (0.0, largest**0.5)]
    for model in formulas:
        for size in SIZES if model in OF_ARRAYS else (0,):
            for domain in ((-largest, largest), *near):
                yield model, spec_of(model, domain, size)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="torch")
    parser.add_argument("--dtypes", default="float32,float64,bfloat16,float16")
    parser.add_argument("--formulas", default=";".join((*FORMULAS, *OF_ARRAYS)))
    parser.add_argument("--points", type=int, default=4 * BATCH)
    options = parser.parse_args()
    attack, failed = Attack(options.engine), False
    for dtype in options.dtypes.split(","):
        for model, spec in attacks(options.formulas.split(";"), dtype):
            line = next(attack.run(spec, dtype, options.points), None)
            if line is not None:
                failed = True
                print(f"{options.engine} {dtype} {model} {line}")
    print(f"{attack.points} points")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
