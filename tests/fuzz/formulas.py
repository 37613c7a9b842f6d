"""Right formulas on every engine: no right gradient is accused, no wrong one passes, and every
certified truth is true.

A formula is checked by the reference engine and one framework. The report of the run is compared
with the oracle, entry by entry:

- a finding that a gradient is wrong must be about a number that is wrong;
- the truth of a finding, and every certified number, must lie within its bar of the oracle's;
- a gradient without any right digit must be reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import mpmath
import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.report import Entry, SpecResult
from gradcheck_cli.domain.report import Finding as Reported
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.plan import make_plan
from gradcheck_cli.truth import compute
from tests.fuzz import oracle
from tests.fuzz.driver import Finding, drawn, shrunk
from tests.fuzz.grammar import Formula, Step, draw
from tests.fuzz.running import Runner
from tests.fuzz.specs import Slow, within

FRAMEWORKS = ("torch", "tensorflow", "jax")
ACCUSING = ("GC101", "GC102", "GC103", "GC104", "GC105", "GC106", "GC301", "GC302")
"""Codes that say that an engine's gradient is wrong."""

BROKEN = ("GC701", "GC702", "GC703", "GC704", "GC706")
"""Codes that no formula deserves."""

_REFUSED = ("Input is not invertible", "Found dtype Double but expected Float")
"""What frameworks raise: TensorFlow for the derivative of det at a singular matrix, and PyTorch for
log_sigmoid(0.5 * x) of a float32 number, as `torch.func.jvp` makes its tangent a float64 one."""

_UPHOLDABLE = " of a right formula"
_ORACLE_S = 5.0  # of this process; polygamma far left of 0 would take mpmath for ever
_ENTRIES = 3  # of a block that are compared: mpmath takes a second for some
_RIGHT_ULPS = 2.0  # an engine that is so near is right, whatever is said of it
_KEPT = 0.75  # of the digits: what a library's own row must keep
_LOST = 0.5  # relative: no digit is left
_EXCUSED = 16.0  # times what half an ulp of the inputs does: each step rounds as well
_SLACK = -66  # bits of the oracle's own error, which agrees with itself to 70
_NOTHING = -1195  # and what it takes for nothing: the noise of its differences, below any float


class Formulas:
    """The fuzzer of right formulas."""

    name = "formulas"

    def __init__(
        self, runner: Runner | None = None, frameworks: Sequence[str] = FRAMEWORKS
    ) -> None:
        self.counted: Counter[str] = Counter()
        self._runner = runner or Runner(("reference", *frameworks))
        self._frameworks = frameworks
        self._registered = engines()

    def __enter__(self) -> Formulas:
        self._runner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.__exit__()

    def input(self, seed: int, index: int) -> tuple[Formula, str]:
        """The formula, and the framework that runs it."""
        rng = drawn(seed, self.name, index)
        formula = draw(rng, _value)
        return formula, self._frameworks[int(rng.integers(len(self._frameworks)))]

    def check(self, seed: int, indices: Sequence[int]) -> Iterator[Finding]:
        drawn_inputs = [self.input(seed, index) for index in indices]
        for (formula, framework), index, faults in zip(
            drawn_inputs, indices, self._faults(drawn_inputs), strict=True
        ):
            if faults and self._wrong_kernel(formula, framework, faults):
                self.counted["accusations upheld: a row alone is wrong on that engine"] += 1
            elif faults:
                fails = partial(self._fails, framework, faults)
                small = shrunk(formula, Formula.smaller, fails)
                yield Finding(index, "\n  ".join(faults), small.spec(("reference", framework)))

    def _wrong_kernel(self, formula: Formula, framework: str, faults: Sequence[str]) -> bool:
        """Whether an accusation of an engine is right: one of the rows alone, at the numbers that
        reach it, loses more than a quarter of its digits."""
        if not all(_UPHOLDABLE in fault for fault in faults):
            return False
        accused = {fault.split(": ")[1].split()[0] for fault in faults}
        for dtype in formula.dtypes:
            alone = list(rows_alone(rounded_to(formula, dtype), dtype))
            texts = [single.spec(("reference", framework)) for single in alone]
            for single, result in zip(alone, self._runner.results(texts), strict=True):
                accused -= {f.engine for f in result.findings if _is_off(f, _Oracle(single))}
        return not accused

    def _fails(self, framework: str, before: Sequence[str], formula: Formula) -> bool:
        """Whether a fault of the same kind remains."""
        (faults,) = self._faults([(formula, framework)])
        kinds = {fault.partition(":")[0] for fault in before}
        return any(fault.partition(":")[0] in kinds for fault in faults)

    def _faults(self, inputs: Sequence[tuple[Formula, str]]) -> list[list[str]]:
        """The faults of each input, as sentences that begin with a kind."""
        faults: list[list[str]] = [[] for _ in inputs]
        oracles = [_Oracle(formula) for formula, _ in inputs]

        def certify(number: int, spec: Spec) -> None:
            faults[number] += self._untrue(spec, oracles[number])

        texts = [formula.spec(("reference", framework)) for formula, framework in inputs]
        results = self._runner.results(texts, certify)
        for number, result in enumerate(results):
            faults[number] += self._unearned(result, oracles[number])
        return faults

    def _untrue(self, spec: Spec, known: _Oracle) -> Iterator[str]:
        """Certified numbers outside their bars."""
        plan = make_plan(spec, self._runner.options, self._registered)
        for look in plan.looks:
            try:
                truth = compute(look.truth)
            except Exception as error:
                yield f"truth: {look.case.dtype}: {type(error).__name__}: {error}"
                continue
            for (mode, name), block in truth.blocks.items():
                if look.truth.projections[mode].firsts is not None:
                    self.counted["second derivatives along pairs of directions"] += 1
                    continue
                for place in known.places(block.value.shape):
                    wrong = self._outside(known, look.case.dtype, name, block, place)
                    if wrong:
                        yield f"certified: {look.case.dtype} {mode} {name}{list(place)}: {wrong}"

    def _outside(
        self, known: _Oracle, dtype: str, name: str, block: TruthBlock, place: tuple[int, int]
    ) -> str:
        if not block.certified[place] or block.kind[place] != PointKind.SMOOTH:
            self.counted["entries without a certificate"] += 1
            return ""
        exact = known.entry(dtype, name, place)
        if exact is None:
            self.counted["certified entries that the oracle cannot tell"] += 1
            return ""
        self.counted["certified entries compared with mpmath"] += 1
        return _beyond(exact, float(block.value[place]), float(block.error[place]))

    def _unearned(self, result: SpecResult, known: _Oracle) -> Iterator[str]:
        for finding in result.findings:
            if finding.code == "GC701" and any(words in finding.message for words in _REFUSED):
                self.counted["points that a framework refuses"] += 1
            elif finding.code in BROKEN:
                yield f"{finding.code}: {finding.engine} {finding.dtype}: {finding.message}"
            elif finding.code in ACCUSING:
                self.counted["accusations"] += 1
                yield from self._false(finding, known)
        yield from self._passed(result, known)

    def _false(self, finding: Reported, known: _Oracle) -> Iterator[str]:
        where = f"{finding.engine} {finding.dtype} {finding.mode} {finding.input}"
        paired = finding.mode == "forward-over-forward"  # perhaps along directions
        for entry in finding.entries[:_ENTRIES]:
            place = None if paired else known.place(finding, entry)
            exact = place and known.entry(str(finding.dtype), str(finding.input), place)
            if exact is None:
                self.counted["accusations that the oracle cannot judge"] += 1
                continue
            self.counted["accusations judged by mpmath"] += 1
            if entry.truth is not None and finding.truth_source != "undecided":
                wrong = _beyond(exact, entry.truth, entry.truth_error or 0.0)
                if wrong:
                    yield f"truth of {finding.code}: {where}{list(entry.index)}: {wrong}"
            if entry.computed is not None and _near(exact, entry.computed, str(finding.dtype)):
                told = f"{entry.computed!r} is right: {mpmath.nstr(exact, 17)}"
                yield f"false {finding.code}: {where}{list(entry.index)}: {told}"
            elif finding.code in ("GC101", "GC105", "GC106"):
                told = f"{entry.computed!r}, exactly {mpmath.nstr(exact, 17)}; {finding.message}"
                yield f"{finding.code}{_UPHOLDABLE}: {where}{list(entry.index)}: {told}"

    def _passed(self, result: SpecResult, known: _Oracle) -> Iterator[str]:
        """Gradients without a right digit that have no finding."""
        spoken = {(f.engine, f.dtype) for f in result.findings}
        spoken |= {(None, f.dtype) for f in result.findings if f.engine is None}
        for reading in result.readings:
            if (reading.engine, reading.dtype) in spoken or (None, reading.dtype) in spoken:
                continue
            if "over" in reading.mode:
                continue
            for name, numbers in reading.gradients.items():
                table = np.asarray(numbers, object).reshape(known.rows, -1)
                for place in known.places(table.shape):
                    wrong = self._lost(known, reading.dtype, name, table, place)
                    if wrong:
                        where = f"{reading.engine} {reading.dtype} {reading.mode} {name}"
                        yield f"unearned pass: {where}{list(place)}: {wrong}"

    def _lost(
        self, known: _Oracle, dtype: str, name: str, table: Any, place: tuple[int, int]
    ) -> str:
        exact = known.entry(dtype, name, place)
        fmt = FORMATS[dtype]
        if exact is None or abs(exact) < fmt.smallest_normal or abs(exact) > fmt.largest:
            return ""
        self.counted["passed entries compared with mpmath"] += 1
        got = float(table[place])
        if abs(got - exact) <= _LOST * abs(exact):
            return ""
        beside = np.abs(np.concatenate([table[place[0]], table[:, place[1]]]).astype(np.float64))
        if abs(got - exact) <= _EXCUSED * fmt.unit_roundoff * np.max(beside):
            self.counted["entries that are nothing beside the others"] += 1
            return ""
        moved = known.condition(dtype, name, place)
        if moved is None or abs(got - exact) <= _EXCUSED * moved:
            self.counted["entries that rounding the inputs moves as far"] += 1
            return ""
        return f"{got!r}, exactly {mpmath.nstr(exact, 17)}"


class _Oracle:
    """The oracle's numbers for one formula, computed when needed and kept."""

    def __init__(self, formula: Formula) -> None:
        self.formula = formula
        self.rows = int(np.prod(formula.shape))
        self._known: dict[tuple[str, str, tuple[int, int]], Any] = {}

    def places(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """Some entries of a table, the same each time."""
        every = list(np.ndindex(*shape))
        step = max(1, len(every) // _ENTRIES)
        return every[::step][:_ENTRIES]

    def place(self, finding: Reported, entry: Entry) -> tuple[int, int] | None:
        """The position of an entry in the table of its block."""
        if finding.input is None:
            return None
        name = finding.input
        shapes = {n: a.shape for n, a in self.formula.inputs.items()}
        rows, columns = self.formula.shape, shapes.get(name, ())
        if "." in name:
            first, _, second = name.partition(".")
            rows, columns = shapes[first], shapes[second]
        if len(entry.index) != len(rows) + len(columns):
            return None
        row, column = entry.index[: len(rows)], entry.index[len(rows) :]
        return _flat(row, rows), _flat(column, columns)

    def entry(self, dtype: str, name: str, place: tuple[int, int]) -> Any:
        """The exact derivative as an mpmath number, or None if the oracle has no answer."""
        key = dtype, name, place
        if key not in self._known:
            rounded = rounded_to(self.formula, dtype)
            try:
                with within(_ORACLE_S):
                    self._known[key] = oracle.entry(rounded, name, place)
            except (ArithmeticError, Slow):
                self._known[key] = None
        return self._known[key]

    def condition(self, dtype: str, name: str, place: tuple[int, int]) -> Any:
        """How far half an ulp of every input moves a first derivative, or None if the oracle has no
        answer."""
        rounded = rounded_to(self.formula, dtype)
        moved = mpmath.mpf(0)
        for other, array in rounded.inputs.items():
            for k, x in enumerate(np.ravel(array)):
                try:
                    with within(_ORACLE_S):
                        slope = oracle.mixed(rounded, place[0], [(name, place[1]), (other, k)])
                except (ArithmeticError, Slow):
                    return None
                moved += abs(slope * mpmath.mpf(float(x))) * FORMATS[dtype].unit_roundoff
        return moved


def _value(formula: Formula) -> Any:
    """The output. Raises ArithmeticError if mpmath has none, or none in time."""
    try:
        with within(_ORACLE_S):
            return oracle.value(formula, formula.inputs, smooth=False)
    except Slow as error:
        raise oracle.Unknown("mpmath takes too long") from error


def rounded_to(formula: Formula, dtype: str) -> Formula:
    """The formula as it is judged in a dtype, with inputs and numbers rounded to it."""
    fmt = FORMATS[dtype]
    inputs: Mapping[str, Any] = {n: np.asarray(fmt.round(a)) for n, a in formula.inputs.items()}
    steps = tuple(
        replace(
            step,
            arguments=tuple(
                float(fmt.round(np.asarray(a))) if isinstance(a, float) else a
                for a in step.arguments
            ),
            keywords={
                key: float(fmt.round(np.asarray(v))) if isinstance(v, float) else v
                for key, v in step.keywords.items()
            },
        )
        for step in formula.steps
    )
    return replace(formula, inputs=inputs, steps=steps)


def rows_alone(formula: Formula, dtype: str) -> Iterator[Formula]:
    """Each row of the formula as a separate formula, at the exact numbers that reach it, rounded to
    the dtype."""
    fmt = FORMATS[dtype]
    values: dict[str, Any] = dict(formula.inputs)
    for k, step in enumerate(formula.steps):
        names = [a for a in dict.fromkeys(step.arguments) if isinstance(a, str)]
        inputs = {name: values[name] for name in names}
        if inputs and all(np.all(np.isfinite(array)) for array in inputs.values()):
            total = Step("total", "sum", (step.name,), ())
            steps = (step, total) if formula.order == 2 and step.shape else (step,)
            yield Formula(inputs, steps, formula.order, (dtype,))
        before = replace(formula, steps=formula.steps[: k + 1])
        try:
            with mpmath.workprec(oracle.PRECISIONS[0]):
                exact = oracle.value(before, before.inputs, smooth=False)
        except ArithmeticError:
            return
        values[step.name] = np.asarray(fmt.round(np.array(exact, np.float64)))


def _is_off(finding: Reported, known: _Oracle) -> bool:
    """Whether a number of a finding has lost more than a quarter of its digits."""
    fmt = FORMATS[str(finding.dtype)]
    for entry in finding.entries:
        place = known.place(finding, entry)
        exact = place and known.entry(str(finding.dtype), str(finding.input), place)
        if exact is None or entry.computed is None or abs(exact) > fmt.largest:
            continue
        if abs(exact) < fmt.smallest_normal:
            exact = mpmath.mpf(0)
        kept = 2.0 ** (-_KEPT * fmt.bits)
        if not abs(entry.computed - exact) <= max(kept * abs(exact), fmt.smallest_normal):
            return True
    return False


def _flat(index: Sequence[int], shape: tuple[int, ...]) -> int:
    return int(np.ravel_multi_index(tuple(index), shape)) if shape else 0


def _beyond(exact: Any, value: float, error: float) -> str:
    """How far a number is outside its bar, in words; empty if it is inside."""
    if not np.isfinite(value) or not np.isfinite(error):
        return ""
    off = abs(mpmath.mpf(value) - exact)
    own = mpmath.ldexp(abs(exact), _SLACK) + mpmath.ldexp(1, _NOTHING)
    if off <= mpmath.mpf(error) + own:
        return ""
    return f"{value!r} ± {error!r}, exactly {mpmath.nstr(exact, 20)}"


def _near(exact: Any, computed: float, dtype: str) -> bool:
    """Whether a number is as good as any in the dtype."""
    fmt = FORMATS[dtype]
    if not np.isfinite(computed) or abs(exact) > fmt.largest:
        return False
    return bool(abs(computed - exact) <= _RIGHT_ULPS * float(fmt.ulp(float(exact))))
