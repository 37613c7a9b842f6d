"""Random right formulas: straight-line programs over rows of the op table, and points for them.

A formula is built step by step together with its value, so that most arguments lie in the domains
of their rows. Points are ordinary, extreme, tied, saturated, or next to a point that is hard for
one of the rows (`samples.EXACT`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import mpmath
import numpy as np

from gradcheck_cli.formula import Argument, parse
from tests.reference_engine.samples import EXACT

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

SCALAR: Shape = ()
VECTOR: Shape = (3,)
MATRIX: Shape = (2, 2)


@dataclass(frozen=True)
class Step:
    """name = row(arguments, keywords). An argument is the name of an input or of an earlier step,
    or a number."""

    name: str
    row: str
    arguments: tuple[str | float, ...]
    shape: Shape
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        given = [repr(a) if isinstance(a, float) else a for a in self.arguments]
        if self.row in OPERATORS and len(given) == 2:
            return f"{self.name} = ({given[0]}) {OPERATORS[self.row]} ({given[1]})"
        given += [f"{key}={value!r}" for key, value in self.keywords.items()]
        return f"{self.name} = {self.row}({', '.join(given)})"


OPERATORS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "power": "**",
    "matmul": "@",
    "greater": ">",
}


@dataclass(frozen=True)
class Formula:
    """Inputs with their values, and the steps; the last one is the output."""

    inputs: Mapping[str, Array]
    steps: tuple[Step, ...]
    order: int = 1
    dtypes: tuple[str, ...] = ("float32", "float64")

    @property
    def shape(self) -> Shape:
        return self.steps[-1].shape

    @property
    def model(self) -> str:
        *before, last = (step.text for step in self.steps)
        return "\n".join([*before, last.partition(" = ")[2]])

    def spec(self, engines: tuple[str, ...] = ()) -> str:
        """The formula as a file."""
        values = {name: array.tolist() for name, array in self.inputs.items()}
        lines = [f"inputs: {json.dumps(values)}", f"dtypes: {json.dumps(list(self.dtypes))}"]
        if engines:
            lines.append(f"engines: {json.dumps(list(engines))}")
        if self.order == 2:
            lines.append("order: 2")
        lines.append("model: |")
        lines += [f"  {line}" for line in self.model.splitlines()]
        return "\n".join(lines) + "\n"

    def smaller(self) -> Iterator[Formula]:
        """Smaller formulas: without a step, then of lower order, then in one dtype."""
        for k in reversed(range(len(self.steps))):
            yield from self._without(k)
        if self.order == 2:
            yield replace(self, order=1)
        if len(self.dtypes) > 1:
            yield from (replace(self, dtypes=(dtype,)) for dtype in self.dtypes)

    def _without(self, k: int) -> Iterator[Formula]:
        """Replace the k-th step by one of its arguments of the same shape."""
        gone = self.steps[k]
        shapes = {name: array.shape for name, array in self.inputs.items()}
        shapes |= {step.name: step.shape for step in self.steps}
        for argument in gone.arguments:
            if isinstance(argument, float) or shapes[argument] != gone.shape:
                continue
            swap = {gone.name: argument}
            rest = [
                replace(s, arguments=tuple(swap.get(a, a) for a in s.arguments))  # type: ignore[call-overload]
                for s in self.steps
                if s is not gone
            ]
            if rest:
                yield replace(self, steps=_used(rest))._with_used_inputs()

    def _with_used_inputs(self) -> Formula:
        named = {a for step in self.steps for a in step.arguments}
        kept = {name: array for name, array in self.inputs.items() if name in named}
        return replace(self, inputs=kept)


def _used(steps: list[Step]) -> tuple[Step, ...]:
    """The steps that the last one needs."""
    wanted = {steps[-1].name}
    for step in reversed(steps):
        if step.name in wanted:
            wanted |= {a for a in step.arguments if isinstance(a, str)}
    return tuple(step for step in steps if step.name in wanted)


def _is_public(name: str) -> bool:
    """Whether the formula language has the row. Some rows only serve the derivatives of others."""
    parameters = [f"x{k}" for k in range(_arity(name))]
    keywords = [f"{k}={v!r}" for k, v in EXACT[name].calls[0].items()]
    text = f"{name}({', '.join([*parameters, *keywords])})"
    arguments = {p: Argument((), "float") for p in parameters}
    return not parse(text, inputs=arguments).errors


def _arity(name: str) -> int:
    return len(EXACT[name].points[0])


# The losses of `samples` are functions of one entry; as rows they take a mean.
_REDUCING = ("mse", "l1", "huber", "hinge", "bce", "bce_with_logits", "kl_div")
ELEMENTWISE = {
    name: _arity(name) for name in sorted(EXACT) if name not in _REDUCING and _is_public(name)
}

# Row -> the shapes of its arguments and of its result, and keywords.
STRUCTURED: list[tuple[str, tuple[Shape, ...], Shape, Mapping[str, Any]]] = [
    *[(row, (VECTOR,), SCALAR, {}) for row in ("sum", "mean", "prod", "max", "min", "median")],
    *[(row, (VECTOR,), SCALAR, {}) for row in ("logsumexp", "norm", "var", "std")],
    *[(row, (MATRIX,), SCALAR, {}) for row in ("sum", "mean", "prod", "max", "norm", "var")],
    *[(row, (MATRIX,), SCALAR, {}) for row in ("trace", "det", "logdet", "slogdet_logabs")],
    *[(row, (VECTOR,), VECTOR, {}) for row in ("softmax", "log_softmax", "sort", "flip")],
    *[(row, (VECTOR,), VECTOR, {}) for row in ("cumsum", "cumprod", "cummax", "cummin")],
    *[(row, (MATRIX,), MATRIX, {}) for row in ("inv", "transpose", "tril")],
    ("matrix_power", (MATRIX,), MATRIX, {"n": 2}),
    ("matrix_power", (MATRIX,), MATRIX, {"n": 3}),
    ("matmul", (MATRIX, MATRIX), MATRIX, {}),
    ("solve", (MATRIX, MATRIX), MATRIX, {}),
    ("dot", (VECTOR, VECTOR), SCALAR, {}),
    ("cross", (VECTOR, VECTOR), VECTOR, {}),
]

ORDINARY = (0.5, -0.5, 1.25, -1.5, 0.3, 2.0, -0.8, 3.0, 0.7, -2.5, 0.1)
SATURATED = (20.0, -20.0, 40.0, -40.0, 88.0, -88.0, 100.0, -100.0, 700.0, 16.0, -9.0)
EXTREME = (1e-30, -1e-30, 1e30, -1e30, 1e-300, 1e300, 1e-8, -1e-8, 1e8, 1e-15, 1e15, 1e-38, 1e-45)
TIED = (0.0, 1.0, -1.0, 2.0, -0.0, 0.5)
"""Kinds of points."""


def _menu(kind: str, rows: list[str]) -> list[float]:
    if kind == "ordinary":
        return list(ORDINARY)
    if kind == "saturated":
        return [*SATURATED, *ORDINARY]
    if kind == "extreme":
        return [*EXTREME, *ORDINARY[:4]]
    if kind == "tied":
        return list(TIED)
    hard = [x for row in rows for point in EXACT[row].points for x in point]
    near = [x * (1 + d) + e for x in hard[:40] for d, e in ((1e-7, 0.0), (0.0, 1e-9))]
    return [*hard, *near, *ORDINARY[:4]]


KINDS = ("ordinary", "ordinary", "saturated", "extreme", "tied", "hard")
_ATTEMPTS = 12  # at a step whose value the point allows
_LARGEST = 1e300


def draw(rng: np.random.Generator, evaluate: Callable[[Formula], Any]) -> Formula:
    """A random formula at a random point. `evaluate` returns the value of a formula or raises."""
    order = int(rng.choice([1, 1, 2]))
    dtypes = _dtypes(rng)
    names = list(ELEMENTWISE)
    favoured = [names[int(k)] for k in rng.integers(0, len(names), 4)]
    menu = _menu(str(rng.choice(KINDS)), favoured)
    main = (SCALAR, VECTOR, VECTOR, MATRIX)[int(rng.integers(4))]
    inputs = {"x": _point(rng, menu, main)}
    if rng.random() < 0.4:
        inputs["y"] = _point(rng, menu, main if rng.random() < 0.7 else SCALAR)
    formula = Formula(inputs, (), order, dtypes)
    for k in range(int(rng.integers(1, 6))):
        formula = _longer(rng, formula, f"v{k}", favoured, evaluate)
    if not formula.steps:  # nothing fitted the point
        formula = replace(formula, steps=(Step("v0", "negative", ("x",), main),))
    if formula.shape and (order == 2 or rng.random() < 0.7):
        last = formula.steps[-1]
        total = Step("total", "sum", (last.name,), SCALAR)
        formula = replace(formula, steps=(*formula.steps, total))
    return replace(formula, steps=_used(list(formula.steps)))._with_used_inputs()


def _dtypes(rng: np.random.Generator) -> tuple[str, ...]:
    r = rng.random()
    if r < 0.08:
        return ("float16",)
    return ("bfloat16",) if r < 0.16 else ("float32", "float64")


def _point(rng: np.random.Generator, menu: list[float], shape: Shape) -> Array:
    values = np.array([menu[int(k)] for k in rng.integers(0, len(menu), int(np.prod(shape)))])
    if rng.random() < 0.5:
        values = values * np.round(rng.uniform(0.5, 1.5, values.shape), 3)
    return np.asarray(values, np.float64).reshape(shape)


def _longer(
    rng: np.random.Generator,
    formula: Formula,
    name: str,
    favoured: list[str],
    evaluate: Callable[[Formula], Any],
) -> Formula:
    """The formula with one more step, of a row with a finite value there; unchanged if none is
    found."""
    for _ in range(_ATTEMPTS):
        step = _step(rng, formula, name, favoured)
        if step is None:
            continue
        longer = replace(formula, steps=(*formula.steps, step))
        try:
            with mpmath.workdps(30):
                result = evaluate(longer)
        except ArithmeticError:
            continue
        if all(abs(v) < _LARGEST for v in np.ravel(result)):
            return longer
    return formula


def _step(
    rng: np.random.Generator, formula: Formula, name: str, favoured: list[str]
) -> Step | None:
    values: dict[str, Shape] = {n: a.shape for n, a in formula.inputs.items()}
    values |= {step.name: step.shape for step in formula.steps}
    latest = list(values)[-1]

    def of(shape: Shape) -> str | None:
        fitting = [n for n, s in values.items() if s == shape]
        if not fitting:
            return None
        return latest if latest in fitting and rng.random() < 0.7 else str(rng.choice(fitting))

    if rng.random() < 0.25:
        row, shapes, result, keywords = STRUCTURED[int(rng.integers(len(STRUCTURED)))]
        arguments = [of(shape) for shape in shapes]
        if None in arguments:
            return None
        return Step(name, row, tuple(a for a in arguments if a), result, keywords)
    if rng.random() < 0.3:
        row = str(rng.choice(["add", "subtract", "multiply", "divide", "power"]))
    else:
        row = str(rng.choice(favoured if rng.random() < 0.5 else list(ELEMENTWISE)))
    calls = EXACT[row].calls
    keywords = calls[int(rng.integers(len(calls)))]
    if ELEMENTWISE[row] == 1:
        return Step(name, row, (latest,), values[latest], keywords)
    other: str | float | None = of(values[latest] if rng.random() < 0.7 else SCALAR)
    if other is None or rng.random() < 0.35:
        other = float(rng.choice([*ORDINARY, 1.0, 2.0, 1e-8, 1e-12, 100.0]))
    pair = (latest, other) if rng.random() < 0.6 else (other, latest)
    return Step(name, row, pair, values[latest], keywords)
