"""Errors by adjoints: they hold what a run in float32 is off by, and are smaller where errors that
reach a number on several ways cancel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.program import CONSTANT, INPUT, Program
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.search.enclosures.adjoints import Adjoints, Sharper
from gradcheck_cli.search.enclosures.enclosed import Rounding
from gradcheck_cli.search.enclosures.enclosing import BoxProgram
from reference_engine.traced import ROWS
from tests.every import first
from tests.search.searched import spec_of

FLOAT32 = FORMATS["float32"]
ROUNDING = Rounding.of(FLOAT32, False)
POINTS = 50

FORMULAS = {
    "a number on two ways": "sum(sigmoid(x) + x * sigmoid(x) * (1 - sigmoid(x)))",
    "a quotient rule": "sum(1 / (1 + abs(x)) - abs(x) / (1 + abs(x)) ** 2)",
    "a choice": "sum(where(x > 0.3, x * x, exp(x) - x))",
    "a choice by a computed number": "sum(where(exp(x) > 1.5, exp(x) - 1.5, 1.5 - exp(x)))",
    "extrema": "max(x * x) - min(x * x) + sum(maximum(x, x * x))",
    "a product of matrices": "sum(x * (reshape([2.0, 1.0, 1.0, 3.1], (2, 2)) @ x))",
    "a normalised array": "sum((x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + 0.1))",
    "a row that is a step": "sum(sign(x - 0.1) * x)",
    "a softmax": "sum(softmax(x) * x) - logsumexp(x)",
    "a power whose exponent moves, through 0 and 1": "sum((0.5 + abs(x)) ** (2.2 * x) * x)",
    "a choice that does not move": "sum(where(reshape([2.0, 1.0], (2,)) > 1.5, x ** 3 - x, x))",
    "sizes and extrema with kinks": "sum(abs(exp(x) - 1.2) * x) + max(exp(x)) - norm(exp(x) - 1.1)",
    "a choice that goes on at its threshold": (
        "sum(where(exp(x) < 1.2, exp(-abs(exp(x) - 1.2)), 2 - exp(-abs(exp(x) - 1.2))))"
    ),
    "moved numbers": "sum(concatenate([x[0:1] * x[1:2], x * 3.3]) ** 3)",
}


class Known:
    """The errors of a formula of x over boxes, by its rules and by adjoints."""

    def __init__(self, program: Program, rounding: Rounding = ROUNDING) -> None:
        self.boxes = BoxProgram(program, {}, FLOAT32, rounding)
        (x,) = (node for node in program.nodes if node.op == INPUT)
        self.adjoints = Adjoints(self.boxes, {"x": np.full(x.shape, 0.4)}, "float32")

    def by_rules(self, low: np.ndarray, high: np.ndarray) -> float:
        (found,) = self.boxes({"x": low[None]}, {"x": high[None]}, 1)
        assert found is not None
        return float(found.error.item())

    def by_adjoints(self, low: np.ndarray, high: np.ndarray) -> Sharper:
        run = self.boxes.over({"x": low[None]}, {"x": high[None]}, 1)
        return self.adjoints.of(self.adjoints.numbers(run, 1), np.arange(1), 0)


def computed(program: Program, point: np.ndarray) -> float:
    """What its rows make of a point, in the point's dtype."""
    slots: list[np.ndarray] = []
    for node in program.nodes:
        if node.op == INPUT:
            slots.append(point)
        elif node.op == CONSTANT:
            slots.append(np.asarray(node.value, point.dtype if node.kind == "float" else None))
        else:
            slots.append(ROWS[node.op].raw(*(slots[i] for i in node.args), **node.keywords))
    return float(slots[program.output])


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("width", first(2, [0.5, 0.0, 1e-3]))
def test_no_run_is_off_by_more(name: str, width: float) -> None:
    program = rounded(spec_of("{x: [0.5, 0.7]}", FORMULAS[name]).program, "float32")
    known, rng = Known(program), np.random.default_rng(5)
    for _ in range(10):
        low = rng.uniform(-1.5, 1.5, 2).astype(np.float32)
        high = (low + np.float32(width) * rng.uniform(0, 1, 2)).astype(np.float32)
        found = known.by_adjoints(low.astype(float), high.astype(float))
        for point in rng.uniform(low, high, (POINTS, 2)).astype(np.float32).clip(low, high):
            off = computed(program, point) - computed(program, point.astype(float))
            assert abs(off) <= found.errors[0, 0] + 1e-13


def test_what_cancels_is_not_added_up() -> None:
    model = "sum(sigmoid(x) + x * sigmoid(x) * (1 - sigmoid(x)))"
    at = np.array([-1.2784])  # where it is 0
    known = Known(spec_of("{x: [0.5]}", model).program)
    assert known.by_adjoints(at, at + 1e-6).errors[0, 0] < known.by_rules(at, at + 1e-6) / 3


def test_an_exact_exponent_that_is_given_to_a_kernel_is_a_constant() -> None:
    """The power of a number below 0 has no derivative by it."""
    program = spec_of("{x: [0.5], n: 2.0}", "sum((x - 1) ** n)").program
    boxes = BoxProgram(program, {"n": np.array(2.0)}, FLOAT32, ROUNDING)
    adjoints = Adjoints(boxes, {"x": np.full(1, 0.4)}, "float32")
    at = {"x": np.array([[-0.5]])}
    found = adjoints.of(adjoints.numbers(boxes.over(at, at, 1), 1), np.arange(1), 0)
    assert found.errors[0, 0] < 2.0**-18
    assert found.slopes["x"][0].item() == pytest.approx(-3)


def test_slopes_hold_all_derivatives_in_the_box() -> None:
    low, high = np.array([0.5, 1.0]), np.array([0.75, 1.25])
    known = Known(spec_of("{x: [0.5, 0.7]}", "x[0] ** 2 * x[1]").program)
    found = known.by_adjoints(low, high)
    least, most = (end[0, 0] for end in found.slopes["x"])
    assert np.all(least <= [1.0, 0.25])
    assert np.all(most >= [1.875, 0.5625])
    assert np.all(least >= [0.99, 0.24])
    assert found.smooth.all()


@pytest.mark.parametrize("model", ["sum(abs(exp(x) - 1.2) * x)", "max(exp(x)) * 0.7"])
def test_a_kink_hands_errors_on_and_has_no_derivative(model: str) -> None:
    """A wide box around it does not take the error of one side for the distance of both."""
    known = Known(rounded(spec_of("{x: [0.5, 0.7]}", model).program, "float32"))
    found = known.by_adjoints(np.array([0.1, 0.1]), np.array([0.3, 0.3]))
    assert found.errors[0, 0] < 2.0**-20
    assert (found.derived.all(), found.smooth.all()) == (False, True)
    beside = known.by_adjoints(np.array([0.5, 0.3]), np.array([0.6, 0.4]))
    assert beside.derived.all()


def test_a_jump_is_no_slope() -> None:
    known = Known(spec_of("{x: [0.5]}", "sum(where(x > 0, 1 + x, x))").program)
    (across,) = known.by_adjoints(np.array([-1.0]), np.array([1.0])).smooth
    (beside,) = known.by_adjoints(np.array([0.5]), np.array([1.0])).smooth
    assert (bool(across), bool(beside)) == (False, True)


def test_what_may_round_anew_in_each_use_does_not_cancel() -> None:
    """A compiler may compute a number again, and may fuse a product with one of two sums."""
    program = spec_of("{x: [0.5]}", "sum(exp(x) - exp(x) * 0.999)").program
    at = np.array([0.5])
    errors = []
    for again in (False, True):
        known = Known(program, Rounding.of(FLOAT32, again, again))
        errors.append(known.by_adjoints(at, at).errors[0, 0])
    assert errors[0] < errors[1] / 2
    kernel = spec_of("{x: [0.5]}", "sum(x * x + 1 - (x * x - 1))").program
    nodes = tuple(replace(node, text="aten.one") if node.args else node for node in kernel.nodes)
    apart, fused = (
        Known(p).by_adjoints(np.array([1.3]), np.array([1.3])).errors[0, 0]
        for p in (kernel, replace(kernel, nodes=nodes))
    )
    assert apart < fused
