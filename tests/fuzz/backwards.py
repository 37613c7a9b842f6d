"""Wrong backwards: each formula has a custom gradient with one mistake, which must be found.

A quarter of the inputs has no mistake, and must not have findings. A mistake that does not show at
the point (the factor is 1 there, or the upstream gradient is 0) is counted, but not a failure: the
oracle decides.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.report import SpecResult
from tests.fuzz.driver import Finding, drawn
from tests.fuzz.running import Runner

FRAMEWORKS = ("torch", "tensorflow", "jax")
_ACCUSING = ("GC101", "GC102", "GC105", "GC106")
_PLAIN = 1e-3  # relative: what no rounding of such a formula makes
_FINDING = ("GC1", "GC2", "GC3")


@dataclass(frozen=True)
class Rule:
    """A function of `a` (and `b`), and its partial derivatives as sums of terms, in text that is
    valid in the formula language and for mpmath."""

    forward: str
    slopes: Mapping[str, tuple[str, ...]]


RULES = (
    Rule("exp(-a)", {"a": ("-exp(-a)",)}),
    Rule("sin(a)", {"a": ("cos(a)",)}),
    Rule("tanh(a)", {"a": ("1 / cosh(a) ** 2",)}),
    Rule("sqrt(a * a + 1)", {"a": ("a / sqrt(a * a + 1)",)}),
    Rule("a * sin(a)", {"a": ("sin(a)", "a * cos(a)")}),
    Rule("a ** 3 - 2 * a", {"a": ("3 * a ** 2", "-2")}),
    Rule("exp(a) / (1 + exp(a))", {"a": ("exp(a) / (1 + exp(a)) ** 2",)}),
    Rule("log(1 + exp(a))", {"a": ("1 / (1 + exp(-a))",)}),
    Rule("atan(a) + a", {"a": ("1 / (1 + a * a)", "1")}),
    Rule("a * b", {"a": ("b",), "b": ("a",)}),
    Rule("a / b", {"a": ("1 / b",), "b": ("-a / b ** 2",)}),
    Rule("sin(a) * exp(b)", {"a": ("cos(a) * exp(b)",), "b": ("sin(a) * exp(b)",)}),
    Rule(
        "sqrt(a * a + b * b)",
        {"a": ("a / sqrt(a * a + b * b)",), "b": ("b / sqrt(a * a + b * b)",)},
    ),
    Rule("a * a * b + b", {"a": ("2 * a * b",), "b": ("a * a", "1")}),
    Rule("cosh(a - b)", {"a": ("sinh(a - b)",), "b": ("-sinh(a - b)",)}),
)

OUTER = ("{}", "{}", "sin({})", "({}) ** 2", "tanh({})", "exp({} / 8)", "sum({})")
"""What is done with the function's result."""

POINTS = (0.5, -0.75, 1.25, -1.5, 2.0, 0.3, 3.0, -2.5, 1.0, 0.0625, 5.0, 9.0)


@dataclass(frozen=True)
class Planted:
    """A formula with a custom gradient. `slopes` are the slopes in its backward, one text for each
    argument."""

    rule: Rule
    slopes: Mapping[str, str]
    mistake: str
    outer: str
    inputs: Mapping[str, list[float]]
    framework: str

    @property
    def text(self) -> str:
        names = ", ".join(self.rule.slopes)
        answers = ", ".join(f"upstream * ({slope})" for slope in self.slopes.values())
        called = self.outer.format(f"layer({names})")
        return (
            f"inputs: {json.dumps(dict(self.inputs))}\n"
            f"engines: [reference, {self.framework}]\n"
            "model: |\n"
            f"  def layer_vjp(upstream, {names}):\n      return {answers}\n\n"
            f"  @custom_gradient(layer_vjp)\n  def layer({names}):\n"
            f"      return {self.rule.forward}\n\n"
            f"  {called}\n"
        )

    def visible(self, dtype: str) -> set[str]:
        """The arguments whose gradient is plainly wrong at some entry."""
        fmt = FORMATS[dtype]
        inputs = {n: fmt.round(np.array(v)).tolist() for n, v in self.inputs.items()}
        wrong = set()
        with mpmath.workdps(50):
            for k in range(len(next(iter(inputs.values())))):
                point = {name: mpmath.mpf(values[k]) for name, values in inputs.items()}
                if not 1e-20 < abs(_number(self._upstream(), point)) < fmt.largest / 16:
                    continue  # nothing arrives, or the output overflows
                for name, slope in self.slopes.items():
                    exact = _number(" + ".join(f"({s})" for s in self.rule.slopes[name]), point)
                    if abs(_number(slope, point) - exact) > _PLAIN * abs(exact):
                        wrong.add(name)
        return wrong

    def _upstream(self) -> str:
        """The derivative with respect to the function's result, by a difference."""
        outer = self.outer.replace("sum(", "(").format
        inner = self.rule.forward
        return f"({outer(f'({inner} + h)')} - {outer(f'({inner} - h)')}) / (2 * h)"


def _number(text: str, point: Mapping[str, Any]) -> Any:
    names = ("exp", "sin", "cos", "sinh", "cosh", "tanh", "sqrt", "log", "atan")
    known = {name: getattr(mpmath, name) for name in names}
    return eval(text, {"__builtins__": {}}, {**known, **point, "h": mpmath.mpf(10) ** -15})


MISTAKES: dict[str, Callable[[np.random.Generator, list[str]], str]] = {
    "none": lambda rng, terms: " + ".join(f"({t})" for t in terms),
    "the sign": lambda rng, terms: f"-({' + '.join(f'({t})' for t in terms)})",
    "a factor": lambda rng, terms: (
        f"{float(rng.choice([2.0, 0.5, 1.1, 0.99, 1.01, 3.0]))!r} * "
        f"({' + '.join(f'({t})' for t in terms)})"
    ),
    "a term's sign": lambda rng, terms: " + ".join([f"-({terms[0]})", *terms[1:]]),
    "a missing term": lambda rng, terms: (
        " + ".join(f"({t})" for t in terms[1:]) or f"({terms[0]}) * (a * 0 + 1) * 0"
    ),
    "zero": lambda rng, terms: "a * 0",
    "one": lambda rng, terms: "a * 0 + 1",
    "the argument": lambda rng, terms: "a",
    "an offset": lambda rng, terms: f"{' + '.join(f'({t})' for t in terms)} + 0.01",
}


class Backwards:
    """The fuzzer of wrong backwards."""

    name = "backwards"

    def __init__(
        self, runner: Runner | None = None, frameworks: Sequence[str] = FRAMEWORKS
    ) -> None:
        self.counted: Counter[str] = Counter()
        self._runner = runner or Runner(("reference", *frameworks))
        self._frameworks = frameworks

    def __enter__(self) -> Backwards:
        self._runner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.__exit__()

    def input(self, seed: int, index: int) -> Planted:
        rng = drawn(seed, self.name, index)
        rule = RULES[int(rng.integers(len(RULES)))]
        mistake = "none" if rng.random() < 0.25 else str(rng.choice(list(MISTAKES)[1:]))
        victim = str(rng.choice(list(rule.slopes)))
        slopes = {
            name: MISTAKES[mistake if name == victim else "none"](rng, list(terms))
            for name, terms in rule.slopes.items()
        }
        size = int(rng.integers(1, 4))
        inputs = {
            name: [float(x) for x in rng.choice(POINTS, size, replace=False)]
            for name in rule.slopes
        }
        outer = OUTER[int(rng.integers(len(OUTER)))]
        framework = self._frameworks[int(rng.integers(len(self._frameworks)))]
        return Planted(rule, slopes, mistake, outer, inputs, framework)

    def check(self, seed: int, indices: Sequence[int]) -> Iterator[Finding]:
        inputs = [self.input(seed, index) for index in indices]
        results = self._runner.results([planted.text for planted in inputs])
        for index, planted, result in zip(indices, inputs, results, strict=True):
            faults = [*self._faults(planted, result)]
            if faults:
                yield Finding(index, f"{planted.mistake}: " + "; ".join(faults), planted.text)

    def _faults(self, planted: Planted, result: SpecResult) -> Iterator[str]:
        for dtype in ("float32", "float64"):
            visible = planted.visible(dtype)
            self.counted["planted, and plain to see" if visible else "nothing to see"] += 1
            for engine in ("reference", planted.framework):
                told = [f for f in result.findings if f.engine == engine and f.dtype == dtype]
                named = {
                    f.input for f in told if f.code.startswith(_FINDING) and f.severity == "error"
                }
                for name in sorted(visible - named):
                    yield f"missed: {engine} {dtype} {name}"
                for finding in told:
                    if planted.mistake == "none" and finding.code in _ACCUSING:
                        yield f"false {finding.code}: {engine} {dtype}: {finding.message}"
