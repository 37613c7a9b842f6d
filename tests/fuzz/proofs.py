"""Attacks on proofs of `gradcheck search`: random formulas and domains are searched on an engine,
and inside of each domain that is called free of a kind of failure, random and extreme points are
run, half of them beside zeros of the value or of the gradient, where errors count most. One input
in float16 or bfloat16 has so few numbers that all are run. One that fails in that kind is a
counterexample: a bug of the worst sort.

    python -m tests.fuzz.proofs [--engine NAME] [--formulas N] [--points N] [--seed N]
                                [--dtypes NAME,...]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcheck_cli import specfile
from gradcheck_cli.checks.protocol import Ask, Steps
from gradcheck_cli.domain.search import KINDS, GradientRequest, Kind
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.base import make
from gradcheck_cli.engines.entry_points import targets
from gradcheck_cli.engines.errors import NodeFault
from gradcheck_cli.engines.kit.gradient_program import engine_program
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.search.box import Domain, Ordinals, domain_of
from gradcheck_cli.search.estimates import Estimator
from gradcheck_cli.search.kinds import suspects
from gradcheck_cli.search.probes import probes
from gradcheck_cli.search.runs import Runner
from gradcheck_cli.search.searching import Searching
from gradcheck_cli.search.truths import PointTruth

_UNARY = (
    *("exp({})", "log({})", "sqrt({})", "tanh({})", "sigmoid({})", "softplus({})", "sin({})"),
    *("cos({})", "abs({})", "relu({})", "{}**2", "{}**3", "{}**-1", "{}**0.5", "1/({})", "erf({})"),
    *("expm1({})", "log1p({})", "-({})", "log_sigmoid({})", "silu({})", "cosh({})", "sinh({})"),
    *("atan({})", "asinh({})", "{}**1.5", "square({})", "rsqrt({})", "acos({})", "tan({})"),
    *("{}**-2", "{}**7", "gelu({})", "elu({})", "erfc({})", "lgamma({})", "softsign({})"),
    *("exp2({})", "hypot({}, 1)", "cbrt({})", "atanh({})", "acosh({})", "digamma({})"),
    *("logaddexp({}, 1)", "xlogy(2, {})", "selu({})", "erfinv({})", "i0({})", "i1({})", "i0e({})"),
    *("log_ndtr({})", "erfcx({})", "leaky_relu({})", "log1mexp({})", "betaln({}, 1.5)"),
    *("ndtri({})", "maximum({}, 0)", "sqrt(maximum({}, 0))", "({}) - 0.5", "(2 - ({}))*0.5"),
    *(
        "mish({})",
        "gelu({}, approximate=True)",
        "relu6({})",
        "clip({}, 0.8, 1.2)",
        "minimum({}, 0.5)",
    ),
)
_BINARY = (
    *("({})+({})", "({})-({})", "({})*({})", "({})/({})", "maximum({}, {})", "minimum({}, {})"),
    "(0.5 + abs({}))**({})",
)
_WHOLE = (
    *("sum({})", "mean({})", "logsumexp({})", "max({})", "norm({})", "sum(softmax({}) * w)"),
    *("log_softmax({})[0]", "sum(({}) * w)", "min({})", "prod({})", "sum(cumsum({}) * w)"),
    *("dot({}, w)", "var({})", "std({})", "sum(layer_norm({}, w, w) * w)", "sum(cumprod({}) * w)"),
    *(
        "sum(sort({}) * w)",
        "sum(topk_values({}, 2))",
        "median({})",
        "sum(sort({})[1:])",
        "norm({}, ord=1)",
    ),
    *("cross_entropy({}, 0)", "sum(pad({}, 1)**2)", "sum(diag({}) @ w)", "norm({}, ord=3)"),
    *("logsumexp({0}) - ({0})[1]", "softmax({})[0] - 1", "-log_softmax({})[1]"),
    *("sum(({0} - max({0})) * w)", "sum(cummax({}, axis=0) * w)", "sum(roll({0}, 1) * ({0}))"),
    *("sum(exp({0} - max({0})))", "sum(where({0} == max({0}), w, {0}))", "sum(cross({}, w)**2)"),
    *("sum(where(flip(({0}) > 0), {0}, w))", "cosine_similarity({}, w)", "max({0}) - min({0})"),
    *("mean(huber({}, w))", "mean(mse({}, w))", "sum(rms_norm({}, w))", "var({}, correction=1)"),
)
_OF_MATRICES = (
    *(
        "sum({0})",
        "norm({0})",
        "sum(({0}) @ m)",
        "sum((({0}) @ m)**2)",
        "sum(({0}) @ v)",
        "max({0})",
    ),
    *("sum(exp({0} - max({0}, axis={1}, keepdims=True)))", "sum(exp({0} - max({0}, axis={1})))"),
    *("det({0} + 2*eye(2))", "logdet({0} @ transpose({0}) + eye(2))", "sum(inv({0} + 3*eye(2)))"),
    *("sum(solve({0} + 3*eye(2), v))", "sum(solve({0} @ {0} + eye(2), {0} @ v)**2)"),
    *("sum(conv2d(reshape({0}, (1, 1, 2, 2)), reshape(m, (1, 1, 2, 2)), padding=1)**2)",),
    *("sum(exp({0} - logsumexp({0}, axis={1})))", "sum(logsumexp({0}, axis={1})**2)"),
    *("sum(softmax({0}, axis={1}) * m)", "sum(log_softmax({0}, axis={1}) * m)"),
    *("sum(mean({0}, axis={1})**2)", "sum(var({0}, axis={1}))", "sum(min({0}, axis={1}) * v)"),
    *("sum(({0}) / (1 + sum(abs({0}), axis={1})))", "sum(({0}) * transpose({0}))"),
    *(
        "sum(where({0} > m, {0}, exp(m)))",
        "sum(clip({0}, -0.3, 0.7)**2)",
        "sum(sqrt(1 + ({0})**2))",
    ),
)
_CONSTANTS = ("1", "2", "0.5", "3", "1e-3", "10", "1e-6", "0.1")
_MATRIX = 4  # numbers, in two rows
_FIXED = {
    "m": "{value: [[0.5, -1.5], [2, 0.25]], requires_grad: false}",
    "v": "{value: [0.75, -2], requires_grad: false}",
}
_MANY = 1 << 14  # points of one call
_FEW = 1 << 16  # numbers of a domain that are all run
_DTYPES = ("float32", "float32", "float64", "float16", "bfloat16")
_ENDS = (0.0, 1e-30, 1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0, 80.0, 100.0, 1e4, 1e20)


class Counterexample(Exception):
    """A point that fails although a proof says that none does."""


def drawn_points(domain: Domain, count: int, rng: np.random.Generator) -> Ordinals:
    """Points (count, size), uniform in their ordinal numbers, and next to the ends."""
    shape = (count, domain.size)
    drawn = rng.integers(domain.low, domain.high + 1, size=shape, dtype=np.int64)
    ends = np.where(rng.random(shape) < 0.5, domain.low, domain.high)
    near = domain.inside(ends + rng.integers(-1000, 1000, size=shape))
    return np.where(rng.random(shape) < 0.8, drawn, near)


def beside_zeros(
    domain: Domain, points: Ordinals, numbers: Callable[[Ordinals], np.ndarray], rng: Any
) -> Ordinals:
    """The points (N, D), each moved along one element, if possible, to a zero of one of the
    `numbers` (N, n), the value and the gradient, or up to 32 numbers of the dtype next to it."""
    rows, axis = np.arange(len(points)), rng.integers(domain.size, size=len(points))
    low, high = points.copy(), points.copy()
    ends = np.sort(rng.integers(domain.low[axis], domain.high[axis] + 1, (2, len(points))), axis=0)
    low[rows, axis], high[rows, axis] = ends
    first = numbers(low)
    column = rng.integers(first.shape[1], size=len(points))
    sign = np.sign(first[rows, column])
    crosses = sign * np.sign(numbers(high)[rows, column]) < 0
    for _ in range(64):
        middle = low.copy()
        middle[rows, axis] = (low[rows, axis] + high[rows, axis]) // 2
        below = np.sign(numbers(middle)[rows, column]) == sign
        low = np.where(below[:, None], middle, low)
        high = np.where(below[:, None], high, middle)
    low[rows, axis] += rng.integers(-32, 33, size=len(points))
    return np.where(crosses[:, None], domain.inside(low), points)


class Attack:
    """Searches random specs on an engine of this process, and collects counterexamples."""

    def __init__(self, seed: int, engine: str = "torch", dtypes: Sequence[str] = _DTYPES) -> None:
        self._rng = np.random.default_rng(seed)
        self._dtypes = dtypes
        self._name = engine
        self._engine = make(targets()[engine])
        self._engine.load()
        self.proofs = 0
        self.points = 0

    def formula(self) -> tuple[Spec, str] | None:
        """A random spec and a dtype, or None if no formula was found."""
        rng = self._rng
        size = int(rng.choice((0, 0, 0, 2, 3, _MATRIX)))
        names = ["x", "y"][: 1 + int(rng.integers(2))]
        text = self._expression(names, int(rng.integers(1, 5)))
        inputs = {name: self._input(size) for name in names if name in _names(text)}
        if not inputs:
            return None
        if size == _MATRIX:
            text = str(rng.choice(_OF_MATRICES)).format(f"({text})", int(rng.integers(2)))
            inputs |= {name: value for name, value in _FIXED.items() if name in _names(text)}
        elif size:
            text = str(rng.choice(_WHOLE)).format(text)
        if "w" in _names(text):
            inputs["w"] = "{value: [0.5, -1, 2], requires_grad: false}" if size == 3 else "w"
        if "w" in inputs.values():
            return None
        body = "\n".join(f"  {name}: {value}" for name, value in inputs.items())
        specs, mistakes = specfile.read("attack.yaml", f"inputs:\n{body}\nmodel: {text}\n")
        dtype = str(rng.choice(self._dtypes))
        return None if mistakes else (specs[0], dtype)

    def _input(self, size: int) -> str:
        low, high = sorted(self._rng.choice(_ENDS, 2) * self._rng.choice((-1.0, 1.0), 2))
        high = high if high > low else low + 1.0
        value = low + 0.618 * (high - low)
        start: Any = [[value] * 2] * 2 if size == _MATRIX else [value] * size if size else value
        return f"{{value: {start}, domain: [{low}, {high}]}}"

    def _expression(self, names: list[str], depth: int) -> str:
        rng = self._rng
        if depth == 0:
            return str(rng.choice(names) if rng.random() < 0.8 else rng.choice(_CONSTANTS))
        if rng.random() < 0.55:
            return str(rng.choice(_UNARY)).format(f"({self._expression(names, depth - 1)})")
        both = [self._expression(names, int(rng.integers(depth))) for _ in range(2)]
        return str(rng.choice(_BINARY)).format(*both)

    def run(self, spec: Spec, dtype: str, points: int) -> None:
        """Search, and attack what is proven. Raises Counterexample."""
        try:
            domain = domain_of(spec.inputs, dtype)
        except ValueError:
            return
        if domain is None or not spec.wrt:
            return
        searching = Searching(spec, self._name, domain, KINDS, 0.5, 0)
        try:
            self._driven(searching.look())
        except NodeFault:  # an operation that the engine lacks
            return
        found = searching.so_far().searches
        proven = [one.kind for one in found if one.verdict == "proven-absent"]
        self.proofs += len(proven)
        count = int(domain.high[0] - domain.low[0]) + 1
        whole = domain.size == 1 and count <= _FEW
        for turn in range(math.ceil((count if whole else points) / _MANY) if proven else 0):
            self._driven(self._attacked(spec, domain, proven, turn, whole))

    def _attacked(
        self, spec: Spec, domain: Domain, proven: list[Kind], turn: int, whole: bool
    ) -> Steps[None]:
        program = rounded(spec.program, domain.dtype)
        runner = Runner(self._name, program, domain, spec.wrt, _MANY)
        if not runner.together or runner.batched is None:
            return
        estimator = Estimator(runner.batched, spec.wrt, domain.dtype)
        points = drawn_points(domain, _MANY, self._rng)

        def numbers(at: Ordinals) -> np.ndarray:
            answers = estimator(runner.values(at), _MANY)
            parts = (answers.value, *answers.gradients.values())
            return np.concatenate([part.reshape(_MANY, -1) for part in parts], axis=1)

        if whole:
            points = domain.inside(domain.low + turn * _MANY + np.arange(_MANY)[:, None])
        elif turn:
            points = beside_zeros(domain, points, numbers, self._rng)
        else:
            special = probes(domain, (), self._rng)[:_MANY]
            points[: len(special)] = special
        answers = yield from runner.at(points)
        self.points += len(points)
        sizes = suspects(
            answers, lambda: estimator(runner.values(points), _MANY), domain.format, proven
        )
        for kind in proven:
            for index in np.argsort(-sizes[kind])[:4]:
                if sizes[kind][index] > 0:
                    yield from self._judge(spec, runner, points[index], kind)

    def _judge(self, spec: Spec, runner: Runner, point: Ordinals, kind: Kind) -> Steps[None]:
        answers = yield from runner.singly(point[None])
        values = runner.domain.values(point)
        truth = PointTruth(runner.program, values, spec.wrt, runner.domain.dtype)
        for one in truth.failures(answers):
            if one.kind == kind:
                raise Counterexample(
                    f"{spec.program.text} in {runner.domain.dtype}: {kind} at {values}:"
                    f" {one.entry} is {one.computed}, truth {one.truth}"
                )

    def _driven(self, steps: Steps[Any]) -> Any:
        answers = None
        while True:
            try:
                asks = steps.send(answers)
            except StopIteration as end:
                return end.value
            answers = [self._answer(ask) for ask in asks]

    def _answer(self, ask: Ask) -> Any:
        if isinstance(ask.question, GradientRequest):
            return engine_program(self._engine, ask.question.problem)
        return self._engine.evaluate(ask.question)  # type: ignore[arg-type]


def _names(text: str) -> set[str]:
    import re

    return set(re.findall(r"\b[a-z]\b", text))


def attack(
    formulas: int,
    points: int,
    seed: int,
    engine: str = "torch",
    dtypes: Sequence[str] = _DTYPES,
) -> Attack:
    """The finished attack. Raises Counterexample."""
    made = Attack(seed, engine, dtypes)
    done = 0
    while done < formulas:
        drawn = made.formula()
        if drawn is not None:
            made.run(*drawn, points)
            done += 1
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="torch")
    parser.add_argument("--formulas", type=int, default=1000)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtypes", default=",".join(_DTYPES))
    options = parser.parse_args()
    dtypes = options.dtypes.split(",")
    try:
        done = attack(options.formulas, options.points, options.seed, options.engine, dtypes)
    except Counterexample as found:
        print(f"counterexample, seed {options.seed}: {found}")
        return 1
    print(f"{done.proofs} proofs of {options.formulas} formulas held at {done.points} points")
    return 0


if __name__ == "__main__":
    sys.exit(main())
