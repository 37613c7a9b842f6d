"""A tie spoils the certificates of the entries that hang on it, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import reference_engine
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.program import INPUT, Node, Program
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.certified.ties import disjoint, influence_mask
from reference_engine.op import INTERNAL, TABLE
from tests.conftest import program_of, truth_of
from tests.every import by_family
from tests.reference_engine.samples import SAMPLES

SMOOTH, KINK, JUMP, UNDEFINED = (
    PointKind.SMOOTH,
    PointKind.KINK,
    PointKind.JUMP,
    PointKind.UNDEFINED,
)


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize(
    ("formula", "inputs", "kinds"),
    [
        ("sum(relu(x) * exp(x))", {"x": [0.0, 1.0]}, {"x": [[KINK, SMOOTH]]}),
        ("max(x, axis=1)", {"x": [[1.0, 1.0], [2.0, 0.0]]}, {"x": [[1, 1, 0, 0], [0, 0, 0, 0]]}),
        (
            "cummax(x, axis=1)[:, 1]",
            {"x": [[1.0, 1.0], [2.0, 0.0]]},
            {"x": [[1, 1, 0, 0], [0] * 4]},
        ),
        ("floor(x) * x", {"x": [1.0, 0.5]}, {"x": [[JUMP, SMOOTH], [SMOOTH, SMOOTH]]}),
        ("sum(sign(x) * y)", {"x": [0.0, 2.0], "y": [3.0, 4.0]}, {"x": [[JUMP, 0]], "y": [[0, 0]]}),
        ("sum(where(x > 0, x, 0))", {"x": [0.0, 0.5]}, {"x": [[KINK, SMOOTH]]}),
        # differentiable although its parts are not: the change of a kink counts for nothing here
        ("abs(x) * abs(y)", {"x": 0.0, "y": 0.0}, {"x": [[SMOOTH]], "y": [[SMOOTH]]}),
        # but that of a jump does
        ("(floor(x) - 1) ** 2", {"x": 1.0}, {"x": [[JUMP]]}),
        # and changes what is chosen: the middle one of 2, -0.04 and 1, or of 0, -0.04 and 1
        (
            "median(remainder(x, 2))",
            {"x": [2.0, -0.04, 1.0]},
            {"x": [[JUMP, SMOOTH, SMOOTH]]},
        ),
        # an infinite slope to one side
        ("sum(xlogy(p, p))", {"p": [0.5, 0.0]}, {"p": [[SMOOTH, UNDEFINED]]}),
        ("sum(xlogy(p, p) - xlogy(p, q))", {"p": [0.0], "q": [0.2]}, {"p": [[2]], "q": [[0]]}),
        (
            "sum(kl_div(log(q), p))",
            {"p": [0.5, 0.0], "q": [0.3, 0.2]},
            {"p": [[SMOOTH, UNDEFINED]]},
        ),
    ],
)
def test_what_hangs_on_a_tie(
    formula: str, inputs: Mapping[str, Any], kinds: Mapping[str, Any], mode: Any
) -> None:
    truth = truth_of(formula, {name: np.array(x) for name, x in inputs.items()}, modes=(mode,))
    for name, expected in kinds.items():
        block = truth.blocks[mode, name]
        assert np.array_equal(block.kind, expected)
        assert np.array_equal(block.certified, np.equal(expected, SMOOTH))
        assert not np.any(np.isfinite(block.value[np.isin(expected, (JUMP, UNDEFINED))]))


@pytest.mark.parametrize(
    "formula",
    [
        *("max(relu(x))", "min(-relu(x))", "sum(sort(relu(x)))", "sum(cummax(relu(x)))"),
        *("sum(topk_values(relu(x), k=1))", "sum(maximum(relu(x), relu(2 * x)))"),
        *("max(maximum(x, 0))", "max(clip(x, 0, 1))", "max(hardtanh(x))", "max(relu6(x))"),
        *("max(where(x > 0, x, 0))", "max(maximum(x, x))", "max(stack([x, x]))"),
        "sum(max_pool2d(reshape(relu(x), (1, 1, 2, 2)), kernel_size=2))",
    ],
)
def test_a_choice_among_what_is_the_same_everywhere_is_no_tie(formula: str) -> None:
    """A window of zeros that relu has made of negative numbers, after every convolution."""
    truth = truth_of(formula, {"x": np.array([-1.5, -2.0, -3.0, -1.25])})
    block = truth.blocks["reverse", "x"]
    assert block.certified.all()
    assert (block.kind == SMOOTH).all()


@pytest.mark.parametrize("x", [[0.0, -1.0], [1.0, 1.0]])
def test_a_choice_among_what_moves_apart_is_a_tie(x: list[float]) -> None:
    block = truth_of("max(relu(x))", {"x": np.array(x)}).blocks["reverse", "x"]
    assert block.kind[0, 0] == KINK


def test_one_jump_leaves_what_a_short_period_hides_from_differences() -> None:
    """Every step is longer than the period, so that a difference sees saw-teeth."""
    inputs = {"x": np.array([-0.8715, 2.0]), "y": np.array([1e-30, 1.0])}
    truth = truth_of("sum(remainder(x, y))", inputs)
    x, y = truth.blocks["reverse", "x"], truth.blocks["reverse", "y"]
    assert np.array_equal(x.certified, [[True, False]])
    assert x.value[0, 0] == 1.0
    assert y.value[0, 0] == pytest.approx(8.715e29)
    assert x.kind[0, 1] == y.kind[0, 1] == JUMP


@pytest.mark.parametrize("op", ["cummax", "cummin"])
def test_running_extremes_of_what_was_computed(op: str) -> None:
    """Balls that are not exact are equal where they are the same element."""
    y = np.array([0.5, 4.0, 2.0])
    block = truth_of(f"{op}(exp(y))", {"y": y}).blocks["reverse", "y"]
    chosen = np.eye(3)[[0, 1, 1] if op == "cummax" else [0, 0, 0]]
    assert np.all(block.certified)
    assert np.allclose(block.value, chosen * np.exp(y), rtol=1e-15)


@pytest.mark.parametrize(
    ("formula", "inputs", "slopes"),
    [
        ("floor(x)", {"x": 1e12}, {"x": 0.0}),
        ("floor(x)", {"x": 1e20}, {"x": 0.0}),
        ("ceil(x * x)", {"x": 3e38}, {"x": 0.0}),
        ("round(x) * x", {"x": 2.0**50 + 0.5}, {"x": 2.0**50}),
        ("remainder(x, 1) * x", {"x": 1e13}, {"x": 1e13}),
        ("remainder(x, 1) * x", {"x": 1e15}, {"x": 1e15}),
        ("remainder(x, y)", {"x": 1.0, "y": 2.0**-100}, {"x": 1.0, "y": -(2.0**100)}),
    ],
)
def test_steps_of_stairs_that_no_difference_resolves_refute_no_slope_of_a_side(
    formula: str, inputs: dict[str, float], slopes: dict[str, float]
) -> None:
    """The function jumps there; a difference over many jumps has the slope of the staircase."""
    truth = truth_of(formula, inputs)
    for name, slope in slopes.items():
        block = truth.blocks["reverse", name]
        assert block.kind != PointKind.SMOOTH
        assert block.kind != KINK or block.lower <= slope <= block.upper


def test_stairs_that_take_part_in_a_smooth_function_leave_it_its_truth() -> None:
    truth = truth_of("(x - floor(x)) ** 2 * (1 - (x - floor(x))) ** 2", {"x": 3.0})
    block = truth.blocks["reverse", "x"]
    assert block.kind == PointKind.SMOOTH
    assert abs(block.value) <= block.error


APART = [
    ("x * w", {"x": (2, 3), "w": (3,)}, 2),
    ("log(1 + exp(x))", {"x": (6,)}, 1),
    ("x / sqrt(mean(x * x, axis=[-1], keepdims=True))", {"x": (3, 4)}, 4),
    ("tanh(x @ w + b)", {"x": (4, 3), "w": (3, 2), "b": (2,)}, 4),
    ("softmax(x, axis=0)", {"x": (2, 3)}, 2),
    ("cumsum(x, axis=1)", {"x": (3, 2)}, 2),
    ("sum(x, axis=0)", {"x": (3, 4)}, 1),
    ("transpose(x) * y", {"x": (2, 3), "y": (3, 2)}, 6),
    ("concatenate([x, y], axis=0) ** 2", {"x": (2, 2), "y": (1, 2)}, 6),
    ("x[1:] - x[:-1]", {"x": (4,)}, 3),
    ("where(x > y, x, y) * norm(x, axis=1, keepdims=True)", {"x": (2, 3), "y": (2, 3)}, 3),
    ("x @ x", {"x": (3, 3)}, 9),
]


@pytest.mark.parametrize(("formula", "shapes", "passes"), APART)
def test_rows_without_a_common_input_share_a_pass(
    formula: str, shapes: Mapping[str, tuple[int, ...]], passes: int, monkeypatch: Any
) -> None:
    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    program = program_of(formula, inputs)
    reach = influence_mask(program, tuple(inputs))
    assert reach is not None
    assert len(disjoint(reach)) == passes
    together = truth_of(formula, inputs)
    monkeypatch.setattr("gradcheck_cli.truth.certified.enclose.groups", lambda *_: None)
    alone = truth_of(formula, inputs)
    rows = []
    for name in inputs:
        one, other = together.blocks["reverse", name], alone.blocks["reverse", name]
        assert np.array_equal(one.value, other.value)
        assert np.all(one.certified & other.certified)
        rows.append(other.value != 0)
    assert not np.any(np.concatenate(rows, axis=1) & ~reach)


def test_many_inputs_are_taken_row_by_row() -> None:
    assert influence_mask(program_of("exp(x)", {"x": np.zeros(65)}), ("x",)) is None


@pytest.mark.exhaustive
@by_family(name for name, row in {**TABLE, **INTERNAL}.items() if row.rule is not None)
def test_no_row_moves_more_than_is_said(name: str) -> None:
    row = TABLE.get(name) or INTERNAL[name]
    span = Span(1, 1, 1, 2)
    for sample in SAMPLES[name]:
        args = sample.arrays(1)
        names = {f"x{i}": i for i, x in enumerate(args) if x.dtype.kind == "f"}
        y = np.asarray(row(*args, **sample.keywords))
        inputs = [Node(INPUT, (), {}, span, "", shape=x.shape) for x in args]
        called = Node(name, tuple(range(len(args))), sample.keywords, span, "", shape=y.shape)
        reach = influence_mask(Program((*inputs, called), names, (len(args),), ""), tuple(names))
        if reach is None or not names:
            continue

        def moved(*xs: Any, args: Any = args, names: Any = names, sample: Any = sample) -> Any:
            given = dict(zip(names.values(), xs, strict=True))
            found = [given.get(i, x) for i, x in enumerate(args)]
            return row(*found, **sample.keywords)

        with np.errstate(all="ignore"):
            _, pull = reference_engine.vjp(moved, *(args[i] for i in names.values()))
            rows = [np.concatenate([np.ravel(x) for x in pull(y_bar)]) for y_bar in _units(y.shape)]
        for found, mine in zip(rows, reach, strict=True):
            assert not np.any((found != 0) & np.isfinite(found) & ~mine), sample


def _units(shape: tuple[int, ...]) -> Iterator[Any]:
    for row in np.eye(int(np.prod(shape))):
        yield row.reshape(shape)
