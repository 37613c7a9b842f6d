"""No false alarms: right gradients of every row of the op table get no error and no warning."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.spec import Input, Spec
from gradcheck_cli.domain.thresholds import FEW_ULPS
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.engines.kit.lowerings import Missing
from gradcheck_cli.engines.torch import ops as torch_ops
from gradcheck_cli.judge.measures import error_in_ulps
from reference_engine.op import TABLE
from tests.conftest import Judged, decide, spec_of
from tests.every import by_family, every, first
from tests.reference_engine.samples import SAMPLES
from tests.rows import SPAN, program_of_row

ENGINES = ("reference", "torch")
MODES = ("reverse", "forward")
ROWS = [
    (name, sample)
    for name in TABLE
    if TABLE[name].differentiable
    for sample in SAMPLES[name]
    # no formula can index by an array, and PyTorch cannot clip without a bound
    if all(not isinstance(part, np.ndarray) for part in sample.keywords.get("index", ()))
    and not (name == "clip" and not sample.keywords)
]


def spec_of_row(name: str, arrays: tuple[np.ndarray, ...], keywords: dict) -> Spec:
    """A spec whose formula is one call of a row."""
    program = program_of_row(name, arrays, keywords)
    floats = [k for k, a in enumerate(arrays) if a.dtype.kind == "f"]
    point = {f"x{k}": Input(f"x{k}", a, k in floats) for k, a in enumerate(arrays)}
    lacking = isinstance(torch_ops.TABLE.get(name), Missing)
    engines = ENGINES[:1] if lacking else ENGINES
    template = spec_of("x", {"x": 1.0}, engines=engines, modes=MODES)
    return Spec(
        name=name,
        source=template.source,
        span=SPAN,
        program=program,
        points=(point,),
        wrt=tuple(f"x{k}" for k in floats),
        engines=engines,
        modes=MODES,
    )


def alarms(judged: Judged) -> list[str]:
    worse = [finding for finding in judged.findings if finding.severity != "note"]
    return [f"{f.code} {f.engine} {f.mode} {f.message}" for f in worse]


def errors_of(case: Case, engine: str) -> Iterator[float]:
    """The error in ulps of every smooth entry that is not zero."""
    assert case.truth is not None
    for evaluation in case.evaluations:
        for name, gradient in evaluation.gradients.items():
            block = case.truth.blocks[evaluation.mode, name]
            if evaluation.engine == engine and gradient.values is not None:
                ulps = error_in_ulps(gradient.values, block.value, FORMATS[case.dtype])
                yield from ulps[(block.kind == PointKind.SMOOTH) & (block.value != 0)].tolist()


@cache
def judged_row(index: int, dtype: str) -> Judged:
    name, sample = ROWS[index]
    return decide(spec_of_row(name, sample.arrays(7), dict(sample.keywords)), dtype, named=False)


PLACES = {name: [i for i, row in enumerate(ROWS) if row[0] == name] for name, _ in ROWS}
every_row = by_family(PLACES)


@every_row
def test_right_gradients_of_a_row_raise_no_alarm_in_float32(name: str) -> None:
    passes(judged_row(PLACES[name][0], "float32"))


@pytest.mark.exhaustive
@every_row
def test_nor_do_those_of_its_other_calls(name: str) -> None:
    every(PLACES[name][1:], lambda index: passes(judged_row(index, "float32")))


@pytest.mark.exhaustive
@every_row
def test_nor_in_other_dtypes(name: str) -> None:
    """bfloat16 and float16 in turn: what differs is the unit roundoff alone."""
    half = ("bfloat16", "float16")[list(PLACES).index(name) % 2]
    told = {dtype: alarms(judged_row(PLACES[name][0], dtype)) for dtype in ("float64", half)}
    assert told == {"float64": [], half: []}


def passes(judged: Judged) -> None:
    assert alarms(judged) == []
    assert {check.status for check in judged.checks} == {"passed"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", ENGINES)
def test_a_few_ulps_is_what_single_operations_lose(engine: str) -> None:
    families = ("arithmetic", "exponential", "reductions", "selection", "trigonometric")
    single = [index for index, (name, _) in enumerate(ROWS) if TABLE[name].family in families]
    cases = [judged_row(index, "float32").case for index in single]
    ulps = [error for case in cases for error in errors_of(case, engine)]
    assert len(ulps) > 2000
    # measured over more points: 1.9 and 3.9
    assert np.percentile(ulps, 99) <= FEW_ULPS / 2
    assert np.percentile(ulps, 99.9) <= 2 * FEW_ULPS


def test_whole_formulas_raise_no_alarm() -> None:
    rng = np.random.default_rng(5)
    x, w, b = rng.normal(size=(4, 3)), rng.normal(size=(3, 2)), rng.normal(size=2)
    formulas = (
        "mean((sigmoid(x @ w + b) - 0.5) ** 2)",
        "-mean(log_softmax(x @ w + b)[:, 0])",
        "sum(relu(x @ w) @ transpose(w))",
        "logsumexp(softplus(x @ w) * 3, axis=0)",
        "norm(x @ w + b, axis=1)",
        "sum(exp(-(x @ w) ** 2) / 2)",
        "prod(1 + sigmoid(x) / 2, axis=0) / sum(abs(w))",
        "sum(where(x > 0, sin(x), x ** 3) * cos(x))",
    )
    for formula in formulas:
        for dtype in ("float64", "float32", "bfloat16"):
            inputs = {n: v for n, v in (("x", x), ("w", w), ("b", b)) if n in formula}
            spec = spec_of(formula, inputs, engines=ENGINES, modes=MODES)
            assert alarms(decide(spec, dtype)) == [], formula


EQUAL_BUT_FOR_ROUNDING = (
    "atan2(-1.5, i1e(x))",
    "acos(-1e-17 * i1e(x))",
    "1.7 - i1e(x)",
    "1.3 * erf(7 + i1e(x))",
)


@pytest.mark.parametrize("of", EQUAL_BUT_FOR_ROUNDING)
@pytest.mark.parametrize(
    "formula",
    first(2, ["slogdet_logabs(v)", "sum(inv(v))", "log(abs(det(v)))", "sum(solve(v, [1.0, 2.0]))"]),
)
def test_digits_that_rounding_takes_in_every_precision_are_not_called_a_wrong_rule(
    formula: str, of: str
) -> None:
    """The entries of the matrix differ by less than an ulp, so it is singular in float64, and its
    inverse is noise. NumPy inverts it in float64 in both precisions, and the noise is the same."""
    x = [[1e300, 1e-30], [1e-300, -1e30]]
    text = f"v = {of}\n{formula}"
    spec = spec_of(text, {"x": x}, engines=("reference", "torch"), modes=MODES)
    made = decide(spec, "float64")
    assert made.of("GC101") == []
    assert {f.code for f in made.findings} & {"GC201", "GC203", "GC301", "GC302"}


RANKS = {
    "singular": "x",
    "singular but for rounding": "x * (1 + 1e-7 * x)",
    "near the bound of float32": "x + 1.5e-7 * eye(2)",
    "of a saturated function": "atan2(-1.5, i1e(x * 1e-3))",
}


@pytest.mark.parametrize("of", RANKS.values(), ids=RANKS)
@pytest.mark.parametrize("formula", first(2, ["sum(pinv(v))", "pinv(v)", "sum(pinv(v) ** 2 * v)"]))
def test_a_rank_that_rounding_decides_accuses_nobody(formula: str, of: str) -> None:
    """Next to a matrix of lower rank its pseudoinverse is another function."""
    spec = spec_of(f"v = {of}\n{formula}", {"x": [[1.0, 2.0], [2.0, 4.0]]}, modes=MODES)
    for dtype in ("float32", "float64"):
        made = decide(spec, dtype)
        assert made.of("GC101") == made.of("GC105") == []
