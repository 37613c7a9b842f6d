"""Formulas as an engine: every row against the reference engine, digits, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Problem, Projection, TrainingProblem
from gradcheck_cli.engines.symbolic.engine import SymbolicEngine, _Derived
from gradcheck_cli.engines.symbolic.ops import TABLE as FORMULAS
from reference_engine.op import TABLE
from tests.conftest import Judged, loaded, program_of
from tests.reference_engine.samples import SAMPLES, Sample
from tests.rows import answer, floats_of, program_of_row


@pytest.fixture
def engine() -> SymbolicEngine:
    made = SymbolicEngine()
    made.load()
    return made


def smallest(name: str) -> Sample:
    """The call of a row with the fewest numbers, and with some."""
    usual = [
        sample
        for sample in SAMPLES[name]
        if all(array.size for array in sample.arrays(3))
        and not any(isinstance(i, np.ndarray) for i in sample.keywords.get("index", ()))
    ]
    return min(usual, key=lambda sample: sum(array.size for array in sample.arrays(3)))


def test_every_row_is_what_it_is_in_the_reference_engine(engine: SymbolicEngine) -> None:
    names = [name for name in FORMULAS if TABLE[name].differentiable]
    assert len(names) > 120
    for name in names:
        sample = smallest(name)
        arrays = sample.arrays(3)
        program = program_of_row(name, arrays, sample.keywords)
        values = {f"x{k}": array for k, array in enumerate(arrays)}
        wrt = floats_of(arrays)
        got = engine.evaluate(Problem(program, values, wrt, "float64", "float64", "reverse"))
        right = answer("reference", name, arrays, sample.keywords)
        assert got.failure is None, (name, got.failure)
        # the reference engine rounds; the formula does not
        np.testing.assert_allclose(got.output, right.output, rtol=1e-9, atol=1e-12, err_msg=name)
        for input in wrt:
            theirs = right.gradients[input].values
            expected = np.zeros(1) if theirs is None else theirs
            mine = got.gradients[input].values
            np.testing.assert_allclose(mine, expected, rtol=1e-8, atol=1e-10, err_msg=name)


def test_the_table_has_no_row_that_the_language_lacks() -> None:
    assert FORMULAS.keys() <= TABLE.keys()


CASES = [
    ("1 / exp(x)", {"x": 100.0}),  # exp(100) overflows float32
    ("log(1 + exp(x)) - x", {"x": 60.0}),  # all digits cancel
    ("sqrt(x**2 + 1) - x", {"x": 1e4}),
]


@pytest.mark.parametrize(("formula", "inputs"), CASES)
def test_nothing_is_rounded_but_the_result(
    formula: str, inputs: dict[str, float], judged: Callable[..., Judged]
) -> None:
    for dtype in ("float16", "float32", "float64"):
        rounded = {name: float(FORMATS[dtype].round(np.float64(v))) for name, v in inputs.items()}
        found = judged(formula, rounded, engines=("symbolic",), dtype=dtype)
        assert found.passed, (dtype, found.codes)
        assert all((check.max_ulps or 0) <= 0.51 for check in found.checks)


def test_second_derivatives_and_directions(engine: SymbolicEngine) -> None:
    x, w = np.array([0.5, -1.0, 2.0]), np.array(1.5)
    program = program_of("sum(tanh(w * x) * x)", {"x": x, "w": w})
    problem = Problem(
        program, {"x": x, "w": w}, ("x", "w"), "float64", "float64", "forward-over-reverse"
    )
    columns = {"x": np.array([[1.0, 2.0, -1.0]]), "w": np.array([3.0])}
    for asked in (problem, replace(problem, projection=Projection(columns=columns))):
        got, right = engine.evaluate(asked), loaded("reference").evaluate(asked)
        assert got.gradients.keys() == right.gradients.keys()
        for block, expected in right.gradients.items():
            np.testing.assert_allclose(got.gradients[block].values, expected.values, rtol=1e-12)


def test_training_follows_the_path_of_the_reference_engine(engine: SymbolicEngine) -> None:
    values = {"x": np.array([1.0, 2.0]), "w": np.array(0.5)}
    program = program_of("mean((w * x - 3)**2)", values)
    problem = TrainingProblem(program, values, ("w",), 0.1, 5, "float64", "float64")
    got, right = engine.train(problem), loaded("reference").train(problem)
    np.testing.assert_allclose(got.losses, right.losses, rtol=1e-13)
    np.testing.assert_allclose(got.parameters["w"], right.parameters["w"], rtol=1e-13)


@pytest.mark.parametrize(
    ("formula", "shape", "words"),
    [
        ("sum(sort(x))", (3,), "`sort`"),
        ("sum(exp(x))", (300,), "`x` has 300 entries"),
        ("sum(x * argmax(x))", (3,), "`argmax`"),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_name(
    formula: str, shape: tuple[int, ...], words: str, engine: SymbolicEngine
) -> None:
    values = {"x": np.ones(shape)}
    program = program_of(formula, values)
    got = engine.evaluate(Problem(program, values, ("x",), "float64", "float64", "reverse"))
    assert got.failure is not None
    assert got.failure.kind == "unsupported"
    assert words in got.failure.message


@pytest.mark.parametrize(
    ("formula", "x", "expected"),
    [
        ("sum(sqrt(x))", [0.0, 4.0], [np.inf, 0.25]),  # the right side alone is real
        ("norm(x)", [0.0, 0.0], [0.0, 0.0]),  # 1 from the right, -1 from the left
        ("sum(log(x))", [0.0, 2.0], [np.inf, 0.5]),
        ("sum(x * sqrt(x))", [0.0, 4.0], [0.0, 3.0]),
        ("sum(sqrt(x))", [-1.0, 4.0], [np.nan, 0.25]),  # no real number, nor is the value
    ],
)
def test_a_derivative_without_a_value_is_its_limit(
    formula: str, x: list[float], expected: list[float], engine: SymbolicEngine
) -> None:
    values = {"x": np.array(x)}
    program = program_of(formula, values)
    got = engine.evaluate(Problem(program, values, ("x",), "float64", "float64", "reverse"))
    assert got.failure is None
    np.testing.assert_array_equal(got.gradients["x"].values, [expected])


def test_where_there_is_no_limit_the_derivative_is_refused(engine: SymbolicEngine) -> None:
    values = {"x": np.array(0.0)}
    program = program_of("sqrt(abs(x))", values)  # vertical on both sides, in opposite ways
    got = engine.evaluate(Problem(program, values, ("x",), "float64", "float64", "reverse"))
    assert got.failure is not None
    assert got.failure.kind == "unsupported"
    assert "the derivative with respect to `x`" in got.failure.message
    assert "has no limit at this point" in got.failure.message


STATED = """
def bend_vjp(upstream, x):
    return upstream * x * exp(x)

@custom_gradient(bend_vjp)
def bend(x):
    return sin(x)

def scale_vjp(up, a, b, c):
    return 5 * up * bend(b), sum(up * a), None

@custom_gradient(scale_vjp)
def scale(x, w, k):
    return x * w * k

scale(bend(x), w, 2) * x
"""


@pytest.mark.parametrize("mode", ["reverse", "forward", "reverse-over-reverse"])
def test_a_stated_gradient_takes_the_place_of_the_true_one(
    mode: Any, engine: SymbolicEngine
) -> None:
    values = {"x": np.array([0.5, -1.0]), "w": np.array(0.7)}
    program = program_of(STATED, values)
    projection = Projection(rows=np.array([[1.0, 0.5]])) if "over" in mode else Projection()
    problem = Problem(program, values, ("x", "w"), "float64", "float64", mode, projection)
    got, right = engine.evaluate(problem), loaded("reference").evaluate(problem)
    assert got.failure is None, got.failure
    assert got.gradients.keys() == right.gradients.keys()
    np.testing.assert_allclose(got.output, right.output, rtol=1e-15)
    for name, gradient in got.gradients.items():
        expected = right.gradients[name].values
        # the reference engine rounds, and of two terms of size 1 little is left in one entry
        np.testing.assert_allclose(gradient.values, 0 if expected is None else expected, atol=1e-14)


@pytest.mark.parametrize(
    ("mode", "what"), [("reverse", "derivative"), ("forward-over-reverse", "second derivative")]
)
def test_a_formula_that_never_ends_is_refused_once(
    mode: Any, what: str, engine: SymbolicEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SymPy folds conditions on numbers that have conditions themselves without end."""
    monkeypatch.setattr("gradcheck_cli.engines.symbolic.engine._PATIENCE_S", 0.2)
    asked = []

    def endless(self: _Derived, *slopes: Any) -> Any:
        asked.append(what)
        while True:
            pass

    monkeypatch.setattr(_Derived, "_jacobian" if mode == "reverse" else "_curvatures", endless)
    program = program_of(f"exp(x) - {len(mode)}", {"x": 1.0})  # that no other test has derived
    for dtype in ("float32", "float64"):
        problem = Problem(program, {"x": np.array(1.0)}, ("x",), dtype, dtype, mode)
        failure = engine.evaluate(problem).failure
        assert failure is not None
        assert failure.kind == "unsupported"
        assert f"did not finish the formula of the {what} within 0.2 s" in failure.message
    assert len(asked) == 1


def test_a_formula_has_one_derivative(engine: SymbolicEngine) -> None:
    rule = "def r(up, x):\n    return up\ndef p(v, x):\n    return v\n@custom_gradient(r, jvp=p)\n"
    program = program_of(f"{rule}def f(x):\n    return sin(x)\nf(x)", {"x": 1.0})
    assert engine.refuses(program, "reverse") is None
    assert engine.refuses(program, "forward") == "formulas take the vjp of `f`, not its jvp"
