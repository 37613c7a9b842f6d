"""C++ over Eigen's AutoDiffScalar: every row in one program, subsets, chunks, both dtypes."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Problem, Projection, TrainingProblem
from gradcheck_cli.domain.program import INPUT, Node, Program
from gradcheck_cli.engines.eigen import operations, rows
from gradcheck_cli.engines.eigen.engine import EigenEngine
from gradcheck_cli.formula.shapes import wanted_kinds
from reference_engine.op import TABLE
from tests.conftest import KINDS, loaded, program_of
from tests.every import first
from tests.reference_engine.samples import SAMPLES, Sample
from tests.rows import SPAN


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EigenEngine]:
    """One whose cache is new, so that all of it is compiled."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    made = EigenEngine()
    made.load()
    yield made
    patch.undo()


def node(op: str, args: Sequence[int], keywords: Any, nodes: Sequence[Node], value: Array) -> Node:
    row = TABLE[op]
    kinds = [nodes[arg].kind for arg in args]
    kind = KINDS[value.dtype.kind]
    wants = wanted_kinds(row, kinds, kind)
    complete = {**row.keywords, **keywords}
    return Node(op, tuple(args), complete, SPAN, op, shape=value.shape, kind=kind, wants=wants)


def can_be_said(op: str, sample: Sample) -> bool:
    """Of `gelu` the one without erf, of `pad` the one with zeros."""
    stated = {**TABLE[op].keywords, **sample.keywords}
    return op not in ("gelu", "pad") or bool(stated.get("approximate", stated.get("value") == 0))


def every_row() -> tuple[Program, dict[str, Array]]:
    """One program with a call of every row that has a derivative; its output has all results."""
    nodes: list[Node] = []
    values: dict[str, Array] = {}
    results: list[int] = []
    inputs: dict[str, int] = {}
    for op in sorted(rows.TABLE):
        if not TABLE[op].differentiable or op == "norm":  # of any order; below
            continue
        sample = min(
            (s for s in SAMPLES[op] if can_be_said(op, s) and all(a.size for a in s.arrays(3))),
            key=lambda s: -sum(a.size for a in s.arrays(3) if a.size < 20),
        )
        arrays = sample.arrays(3)
        args = []
        for array in arrays:
            name = f"x{len(values)}"
            values[name] = array
            inputs[name] = len(nodes)
            args.append(len(nodes))
            kind = KINDS[array.dtype.kind]
            nodes.append(Node(INPUT, (), {}, SPAN, name, name=name, shape=array.shape, kind=kind))
        value = TABLE[op].value(*arrays, **sample.keywords)
        nodes.append(node(op, args, sample.keywords, nodes, value))
        flat = value.reshape(-1)
        nodes.append(node("reshape", [len(nodes) - 1], {"shape": (-1,)}, nodes, flat))
        results.append(len(nodes) - 1)
    total = np.zeros(sum(nodes[i].shape[0] for i in results))
    nodes.append(node("concatenate", results, {"axis": 0}, nodes, total))
    return Program(tuple(nodes), inputs, (len(nodes) - 1,), "every row"), values


@pytest.mark.exhaustive
def test_every_row_is_what_it_is_in_the_reference_engine(engine: EigenEngine) -> None:
    program, values = every_row()
    wrt = tuple(name for name, array in values.items() if array.dtype.kind == "f")
    problem = Problem(program, values, wrt, "float64", "float64", "forward")
    got, right = engine.evaluate(problem), loaded("reference").evaluate(problem)
    assert got.failure is None, got.failure
    assert got.compile_s > 0
    np.testing.assert_allclose(got.output, right.output, rtol=1e-10, atol=1e-12)
    for name in wrt:
        theirs, mine = right.gradients[name].values, got.gradients[name].values
        place = program.inputs[name]
        row = next(n.op for n in program.nodes if place in n.args)
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11, err_msg=row)


FORMULA = """
h = norm(x * k, axis=0) + where(mask, w, 2.0 / w)
z = take(concatenate([h, h]), i)
sum(clip(z, -0.1, 5) ** 0.1 * 0.3) + zeros(3)
"""
VALUES = {
    "x": np.linspace(-1, 2, 24).reshape(2, 12),
    "w": np.linspace(0.5, 1.5, 12),
    "k": np.array([[2.0], [3.0]]),
    "mask": np.arange(12) % 3 == 0,
    "i": np.array([0, 23, 5, 11]),
}


@pytest.mark.parametrize("dtype", first(1, ["float32", "float64"]))
def test_a_subset_of_the_inputs_in_chunks_and_along_directions(
    dtype: str, engine: EigenEngine
) -> None:
    program = program_of(FORMULA, VALUES)
    columns = {"x": np.ones((2, 2, 12)), "w": VALUES["w"][None]}
    eps = np.finfo(dtype).eps
    for projection in (Projection(), Projection(columns=columns)):
        problem = Problem(
            program, VALUES, ("w", "x"), dtype, dtype, "forward", projection=projection
        )
        got, right = engine.evaluate(problem), loaded("reference").evaluate(problem)
        assert got.failure is None, got.failure
        assert set(got.gradients) == {"w", "x"}
        np.testing.assert_allclose(got.output, right.output, rtol=8 * eps)
        for name, gradient in got.gradients.items():
            expected = right.gradients[name].values
            np.testing.assert_allclose(gradient.values, expected, rtol=50 * eps, atol=50 * eps)
            assert gradient.dtype == dtype
    assert got.compile_s == 0  # another part of the same Jacobian


def test_the_first_entries_of_an_array_are_not_all_of_it(engine: EigenEngine) -> None:
    formula = "h = softmax(x)\na = outer(h, h)\n" + (
        "concatenate([h[0:1], stack([trace(a[0:1]), sum(a[:2])]), (h * a)[:1, 0], a[0]])"
    )
    values = {"x": np.array([0.5, -0.3, 1.2])}
    program = program_of(formula, values)
    problem = Problem(program, values, ("x",), "float64", "float64", "forward")
    got, right = engine.evaluate(problem), loaded("reference").evaluate(problem)
    assert got.failure is None, got.failure
    np.testing.assert_allclose(got.output, right.output, rtol=1e-14)
    np.testing.assert_allclose(
        got.gradients["x"].values, right.gradients["x"].values, rtol=1e-12, atol=1e-15
    )


LONG = {"x": np.linspace(0, 1, 4000), "w": np.array(0.5)}
LINE = "mean((w * x - 3) ** 2)"


def test_many_inputs_take_memory_for_some_directions_only(engine: EigenEngine) -> None:
    problem = Problem(program_of(LINE, LONG), LONG, ("x",), "float64", "float64", "forward")
    assert engine.evaluate(problem).failure is None  # compiled and loaded
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    got = engine.evaluate(problem)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 40  # MiB; 4000 derivatives an entry would take 122 an array
    slope = 2 * LONG["w"] * (LONG["w"] * LONG["x"] - 3) / 4000
    np.testing.assert_allclose(got.gradients["x"].values, slope[None], rtol=1e-14)


def test_training_follows_the_path_of_the_reference_engine(engine: EigenEngine) -> None:
    problem = TrainingProblem(program_of(LINE, LONG), LONG, ("w",), 0.1, 5, "float64", "float64")
    got, right = engine.train(problem), loaded("reference").train(problem)
    # sums of 4000 terms, in another order
    np.testing.assert_allclose(got.losses, right.losses, rtol=4000 * 2.0**-53)
    np.testing.assert_allclose(got.parameters["w"], right.parameters["w"], rtol=4000 * 2.0**-53)


def test_a_compile_error_is_at_the_operation(
    engine: EigenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        operations, "ELEMENTWISE", {**rows.ELEMENTWISE, "sin": "no_such_thing({0})"}
    )
    values = {"x": np.array(1.0)}
    program = program_of("exp(sin(x))", values)
    problem = Problem(program, values, ("x",), "float64", "float64", "forward")
    failure = engine.evaluate(problem).failure
    assert failure is not None
    assert failure.kind == "raised"
    assert failure.node is not None
    assert program.nodes[failure.node].op == "sin"
    assert "no_such_thing" in failure.message
    assert "no_such_thing" in failure.detail


@pytest.mark.parametrize(
    ("formula", "words"), [("erf(x)", "no erf"), ("sort(stack([x, x]))", "`sort`")]
)
def test_what_eigen_lacks_is_refused_by_name(formula: str, words: str, engine: EigenEngine) -> None:
    values = {"x": np.array(1.0)}
    program = program_of(formula, values)
    failure = engine.evaluate(
        Problem(program, values, ("x",), "float64", "float64", "forward")
    ).failure
    assert failure is not None
    assert failure.kind == "unsupported"
    assert words in failure.message


STATED = """
def bend_vjp(upstream, x):
    return upstream * x

def bend_jvp(x_dot, x):
    return 7 * x_dot * exp(x)

@custom_gradient(bend_vjp, jvp=bend_jvp)
def bend(x):
    return sin(x)

def scale_vjp(upstream, x, w, k):
    return 5 * upstream * bend(w), sum(upstream * x), None

@custom_gradient(scale_vjp)
def scale(x, w, k):
    return x * w * k

scale(bend(x), w, 2) * x
"""


def test_a_stated_gradient_takes_the_place_of_the_true_one(engine: EigenEngine) -> None:
    values = {"x": np.array([0.5, -1.0, 2.0]), "w": np.array(0.7)}
    program = program_of(STATED, values)
    problem = Problem(program, values, ("x", "w"), "float64", "float64", "forward")
    got, right = engine.evaluate(problem), loaded("reference").evaluate(problem)
    assert got.failure is None, got.failure
    np.testing.assert_allclose(got.output, right.output, rtol=1e-15)
    for name, gradient in got.gradients.items():
        np.testing.assert_allclose(gradient.values, right.gradients[name].values, rtol=1e-14)
    plain = program_of("sin(x) * w * 2 * x", values)
    true = loaded("reference").evaluate(
        Problem(plain, values, ("x", "w"), "float64", "float64", "forward")
    )
    for name, gradient in true.gradients.items():
        assert not np.allclose(gradient.values, got.gradients[name].values)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("def rule(up, x):\n    return sum(up)\n@custom_gradient(rule)", "its argument `x`"),
        (
            "def rule(up, x):\n    return up\ndef push(v, x):\n    return sum(v)\n"
            "@custom_gradient(rule, jvp=push)",
            "`the output`",
        ),
    ],
)
def test_a_stated_gradient_of_another_shape_is_told(
    rule: str, words: str, engine: EigenEngine
) -> None:
    values = {"x": np.array([1.0, 2.0])}
    program = program_of(f"{rule}\ndef f(x):\n    return sin(x)\nexp(f(x))", values)
    failure = engine.evaluate(
        Problem(program, values, ("x",), "float64", "float64", "forward")
    ).failure
    assert failure is not None
    assert failure.kind == "wrong-shape"
    assert words in failure.message
    assert failure.node is not None
    assert program.nodes[failure.node].op == "custom_gradient"
