"""Every row of the op table states everything, and has points where it is tested."""

import inspect
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import reference_engine
from reference_engine import rules
from reference_engine.arithmetic.arbs import NotInBalls, Undecided
from reference_engine.arithmetic.ball_choices import noting_ties
from reference_engine.arithmetic.balls import exactly
from reference_engine.op import INTERNAL, REQUIRED, TABLE, Composite, Op, find
from tests.every import by_family
from tests.reference_engine.samples import EXACT, RANDOM, SAMPLES, VALUES
from tests.reference_engine.samples.drawing import SPECIAL

ROWS = {**TABLE, **INTERNAL}
every_row = by_family(ROWS.values(), lambda row: row.name)

FORMULA_NAMES = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "power",
    "matmul",
    "negative",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "equal",
    "not_equal",
    "getitem",
    "exp",
    "log",
    "log1p",
    "expm1",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sigmoid",
    "softplus",
    "relu",
    "abs",
    "maximum",
    "minimum",
    "where",
    "clip",
    "sum",
    "mean",
    "prod",
    "max",
    "min",
    "reshape",
    "transpose",
    "broadcast_to",
    "expand_dims",
    "squeeze",
    "concatenate",
    "stack",
    "logsumexp",
    "softmax",
    "log_softmax",
    "norm",
    "erf",
    "stop_gradient",
    "square",
    "logical_and",
    "logical_or",
    "logical_not",
]


@pytest.mark.parametrize("name", FORMULA_NAMES)
def test_the_formula_language_finds_its_row(name: str) -> None:
    assert TABLE[name].name == name
    assert find(name) is TABLE[name]


@every_row
def test_row_states_everything(row: Op) -> None:
    for text in ("name", "formula", "derivative", "domain", "source"):
        assert getattr(row, text).strip(), text
    family = Path(inspect.getfile(reference_engine)).parent / "ops" / f"{row.family}.py"
    assert f'"{row.name}"' in family.read_text() or row.name in {
        "max",
        "min",
    }, f"{row.name} does not stand in {family.name}"


@every_row
def test_kinks_are_described_exactly_where_they_can_be_found(row: Op) -> None:
    described = any(point.kind in ("kink", "tie", "jump") for point in row.points)
    assert described == (row.kinks_at is not None)


@every_row
def test_points_fit_their_row(row: Op) -> None:
    for point in row.points:
        assert len(point.at) == len(point.gradient)
        assert row.arity in (-1, len(point.at))
        assert point.keywords.keys() <= row.keywords.keys()
        assert all(len(other) == len(point.at) for other in point.differs.values())
        assert {*point.differs, *point.raises} <= {"torch", "tensorflow", "jax"}
        assert not set(point.raises) & point.differs.keys()


@every_row
def test_row_has_samples_random_calls_and_values(row: Op) -> None:
    assert SAMPLES.get(row.name)
    assert row.name in RANDOM
    assert row.name in VALUES


# A function of the numbers alone. The one that changes the dtype has no value of its own, and where
# an argument is an index or a mask there is none for mpmath.
EXACTLY_STATED = [
    row
    for row in ROWS.values()
    if row.elementwise and row.differentiable and not row.kinds and row.name != "astype"
]


@by_family(EXACTLY_STATED, lambda row: row.name)
def test_elementwise_row_is_stated_exactly_and_tested_at_special_values(row: Op) -> None:
    exact = EXACT[row.name]
    points = (*exact.points, *exact.delicate, *exact.strained)
    assert {len(point) for point in points} == {len(row.arrays)}
    allowed = {
        magnitude(x)
        for point in points
        for i in range(len(point))
        for x in SPECIAL
        if exact.domain(*point[:i], x, *point[i + 1 :])
    }
    assert allowed <= {magnitude(x) for point in points for x in point}


def magnitude(x: float) -> str:
    size = abs(x)
    if size in (0, 1):
        return str(int(size))
    return "tiny" if size <= 1e-20 else "huge" if size >= 1e20 else "ordinary"


def test_nothing_is_stated_without_a_row() -> None:
    for stated in (SAMPLES, RANDOM, VALUES, EXACT):
        assert stated.keys() <= ROWS.keys()


@every_row
def test_the_value_takes_the_stated_arguments(row: Op) -> None:
    sample = SAMPLES[row.name][0]
    arrays = sample.arrays(0)
    assert row.arity in (-1, len(arrays))
    required = {k for k, default in row.keywords.items() if default is REQUIRED}
    assert required <= sample.keywords.keys() <= row.keywords.keys()
    assert isinstance(row.value(*arrays, **sample.keywords), np.ndarray)
    defaults = {k: v for k, v in row.keywords.items() if v is not REQUIRED}
    given = {**defaults, **sample.keywords}
    np.testing.assert_array_equal(
        row.value(*arrays, **given), row.value(*arrays, **sample.keywords)
    )


@every_row
def test_the_rule_has_a_part_for_every_array(row: Op) -> None:
    if isinstance(row.rule, rules.Elementwise):
        assert len(row.rule.parts) == len(row.arrays)
        assert row.passive == tuple(i for i, part in enumerate(row.rule.parts) if part is None)
    elif isinstance(row.rule, rules.Multilinear):
        assert len(row.rule.transposes) == len(row.arrays)
    elif isinstance(row.rule, rules.Tangents):
        assert len(row.rule.pushes) == len(row.rule.transposes) == len(row.arrays)
    elif isinstance(row.rule, rules.Implicit):
        assert len(row.rule.pushes) == len(row.arrays)
    elif isinstance(row.rule, rules.JointlyLinear):
        assert row.arity == -1 or 0 < len(row.passive) < len(row.arrays)
    elif row.rule is not None:
        assert len(row.arrays) == 1


@by_family([row for row in ROWS.values() if row.exact], lambda row: row.name)
def test_exact_rows_round_nothing(row: Op) -> None:
    """More digits than the arguments have make no difference."""
    for sample in SAMPLES[row.name]:
        narrow = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in sample.arrays(1)]
        wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in narrow]
        y, expected = (row.value(*xs, **sample.keywords) for xs in (narrow, wide))
        np.testing.assert_array_equal(y.astype(np.float64), expected.astype(np.float64))


@by_family(
    [r for r in ROWS.values() if r.rounding == "sums" and not isinstance(r, Composite)],
    lambda row: row.name,
)
def test_sums_are_largest_where_no_terms_cancel(row: Op) -> None:
    """Where rounding enters at the size of the sums, absolute values bound every one of them."""
    rng = np.random.default_rng(8)
    for sample in SAMPLES[row.name]:
        arrays = sample.arrays(2)
        floating = [a.dtype.kind == "f" for a in arrays]
        sizes = [np.abs(a) if f else a for a, f in zip(arrays, floating, strict=True)]
        bound = np.abs(row.value(*sizes, **sample.keywords))
        for _ in range(10):
            signed = [
                a * rng.choice([-1.0, 1.0], a.shape) if f else a
                for a, f in zip(sizes, floating, strict=True)
            ]
            y = row.value(*signed, **sample.keywords)
            assert np.all(np.isnan(y) | (np.abs(y) <= bound * (1 + 1e-12)))  # rounding itself


def test_names_and_aliases_are_words_and_lead_to_one_row() -> None:
    seen: dict[str, str] = {}
    for row in TABLE.values():
        for name in (row.name, *row.aliases):
            assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
            assert seen.setdefault(name, row.name) == row.name
            assert find(name) is row
            assert getattr(reference_engine, name) is row


def test_internal_rows_are_not_offered() -> None:
    assert not INTERNAL.keys() & TABLE.keys()
    assert all(find(name) is None for name in INTERNAL)


@every_row
def test_a_kink_of_a_row_is_a_tie_of_its_balls(row: Op) -> None:
    """Else the convention of its derivative would be certified as the derivative."""
    for point in row.points:
        if point.kind not in ("kink", "tie"):
            continue
        arrays = [exactly(np.asarray(array, np.float64)) for array in point.at]
        with noting_ties() as met, suppress(NotInBalls, Undecided):
            row(*arrays, **point.keywords)
            assert met, f"{point.where} {dict(point.keywords)}"
