"""What to write in a hand-written derivative instead, as code at the user's line."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.checks.causes.rule_fixes import RuleFixes, TriedCorrection
from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.engines.layer.custom import Rule
from tests.checks import rules_to_fix as rules
from tests.checks.making import layer_problem, subject_of, torch_engine
from tests.conftest import loaded
from tests.every import first

pytestmark = pytest.mark.usefixtures("one_thread")

VECTOR = {"x": [0.3, -1.2, 2.0]}
MATRIX = {"x": [[0.3, -1.2, 2.0], [0.5, 0.1, -0.7]]}
DENSE = {**MATRIX, "w": np.arange(9.0).reshape(3, 3) / 7, "b": [0.1, 0.2, 0.3]}


def tried(
    cls: Any, inputs: dict[str, Any], name: str = "x", mode: Mode = "reverse", **settings: Any
) -> TriedCorrection | None:
    problem = layer_problem(cls.apply, inputs, modes=(mode,), **settings)
    moving = tuple(inputs)
    rule = Rule(cls.backward, (moving.index(name),), False, name, moving)
    if mode == "forward":
        rule = Rule(cls.jvp, (), True, name, moving)
    return RuleFixes(
        torch_engine(), problem, subject_of(torch_engine(), cls.apply, **inputs), rule
    ).first_working()


@pytest.mark.parametrize(
    ("cls", "inputs", "name", "before", "after"),
    first(
        4,
        [
            (rules.Square, VECTOR, "x", "grad_output * x", "2 * grad_output * x"),
            (rules.Cosine, VECTOR, "x", "grad_input", "-grad_input"),
            (
                rules.Gelu,
                VECTOR,
                "x",
                "torch.exp(-x * x) / (2 * torch.pi) ** 0.5",
                "torch.exp(-x * x / 2) / (2 * torch.pi) ** 0.5",
            ),
            (rules.Swish, VECTOR, "x", "g * s", "g * s + g * x * (s * torch.sigmoid(-x))"),
            (
                rules.Scaled,
                VECTOR,
                "x",
                "g * torch.cos(ctx.scale * x)",
                "g * torch.cos(ctx.scale * x) * ctx.scale",
            ),
            (rules.Dense, DENSE, "x", "g @ w", "g @ w.T"),
            (rules.Dense, DENSE, "b", "g.mean(0)", "g.sum(0)"),
            (rules.MeanSquare, MATRIX, "x", "2 * g * x", "2 * g * x / x.numel()"),
            (
                rules.Softmax,
                MATRIX,
                "x",
                "g * y * (1 - y)",
                "y * (g - (g * y).sum(-1, keepdim=True))",
            ),
            (
                rules.Standardized,
                MATRIX,
                "x",
                "r * (g - g.mean(-1, keepdim=True))",
                "r * (g - y * (g * y).mean(-1, keepdim=True) - g.mean(-1, keepdim=True))",
            ),
        ],
    ),
)
def test_what_a_backward_has_to_return(
    cls: Any, inputs: dict[str, Any], name: str, before: str, after: str
) -> None:
    found = tried(cls, inputs, name)
    assert found is not None
    correction = found.correction
    assert (correction.place.text, correction.code.text) == (before, after)
    lines = inspect.getsource(rules).splitlines()
    assert before in lines[correction.place.span.line - 1]
    assert found.right == found.points


@pytest.mark.parametrize(
    ("cls", "inputs", "after"),
    [
        (rules.Square, VECTOR, "2 * grad_output * x"),
        (rules.Dense, DENSE, "g @ w.T"),
        (rules.Softmax, MATRIX, "y * (g - (g * y).sum(-1, keepdim=True))"),
    ],
)
def test_what_a_backward_that_computes_in_float32_has_to_return(
    cls: Any, inputs: dict[str, Any], after: str
) -> None:
    found = tried(cls, inputs, dtype="float32")
    assert found is not None
    assert found.correction.code.text == after


@pytest.mark.parametrize("rows", [2, 3])
def test_a_size_that_equals_a_number_by_chance_is_no_fix(rows: int) -> None:
    x = np.linspace(-1.0, 2.0, 4 * rows).reshape(rows, 4) ** 2
    found = tried(rules.Spread, {"x": x})
    assert found is not None
    assert found.correction.code.text == "2 * (g[:, None] * d / d.shape[1])"
    found = tried(rules.Scores, {"x": x})
    assert found is None or "shape[1] ** 0.5" in found.correction.code.text


@pytest.mark.parametrize(
    ("cls", "inputs", "after"),
    [
        (
            rules.Polar,
            {"x": [0.3, 1.2], "y": [0.8, -0.4]},
            "gr * x / r - gt * y / r ** 2",
        ),
        (rules.SineAndCosine, VECTOR, "-(gc * torch.sin(x)) + gs * torch.cos(x)"),
        (
            rules.Cell,
            {"x": [0.3, 1.2], "c": [0.8, -0.4]},
            "g_out * (1 - torch.tanh(state) ** 2) + g_state",
        ),
    ],
)
def test_what_a_backward_of_several_outputs_has_to_return(
    cls: Any, inputs: dict[str, Any], after: str
) -> None:
    found = tried(cls, inputs)
    assert found is not None
    assert found.correction.code.text == after
    assert found.right == found.points


@pytest.mark.parametrize(
    ("cls", "afters"),
    [
        (rules.ComplexSquare, {"g * 2 * x.conj()"}),
        (rules.ComplexExp, {"g * torch.exp(x.conj())", "g * torch.exp(x).conj()"}),
        (rules.Modulus, {"2 * g * z.conj()", "x", "2 * g * x"}),
    ],
)
def test_a_conjugate_that_a_backward_has_to_take(cls: Any, afters: set[str]) -> None:
    (finding,) = findings(cls.apply, "torch", "reverse", x=[1 + 2j, 0.3 - 0.4j])
    assert finding.fix is not None
    assert finding.fix.after in afters


@pytest.mark.parametrize(
    ("cls", "before", "after"),
    [
        (rules.Cosine, "-t * torch.cos(x)", "-t * torch.sin(x)"),
        (rules.Pair, "-t * torch.cos(x)", "-t * torch.sin(x)"),
        (rules.FirstOfPair, "3 * x * t", "2 * x * t"),
    ],
)
def test_what_a_jvp_has_to_return(cls: Any, before: str, after: str) -> None:
    """Of several outputs, for that which is wrong."""
    found = tried(cls, VECTOR, mode="forward")
    assert found is not None
    assert found.correction.place.text == before
    assert found.correction.code.text == after


@pytest.mark.parametrize("layer", [rules.Clamp.apply, rules.clamped])
def test_a_function_that_works_in_place_has_a_cause_and_a_fix(layer: Any) -> None:
    found = findings(layer, "torch", "reverse", x=[-1.0, 0.5, 2.0])
    (wrong,) = [finding for finding in found if finding.code == "GC101"]
    assert wrong.cause is not None
    assert wrong.cause.op == "Clamp"
    assert wrong.fix is not None
    assert wrong.fix.after == "g * (y > 0)"


def test_an_operator_of_a_library_is_a_function_of_the_user() -> None:
    (found,) = findings(rules.power_of_a_library, "torch", "reverse", x=[0.5, -2.0], y=[1.0, 3.0])
    assert (found.code, found.input) == ("GC101", "x")
    assert found.cause is not None
    assert (found.cause.op, found.cause.text) == (
        "power",
        "g * ctx.n * ctx.x ** (ctx.n - 1)",
    )
    assert found.fix is not None
    assert found.fix.after == "g * ctx.n * ctx.x ** (ctx.n - 1) * ctx.a"


def test_there_is_none_for_a_long_derivative() -> None:
    assert tried(rules.Unreadable, VECTOR) is None


def findings(layer: Any, engine: str, mode: Mode, **inputs: Any) -> tuple[Finding, ...]:
    problem = layer_problem(layer, inputs, engine=engine, modes=(mode,))
    return examine(loaded(engine), problem).findings


def test_a_fix_is_tried_in_the_layer_that_calls_the_function() -> None:
    code = rules.Square.backward.__code__
    (finding,) = findings(rules.loss, "torch", "reverse", x=[0.3, -1.2, 0.5])
    assert finding.fix is not None
    assert finding.fix.place is not None
    assert finding.fix.place.source.path.endswith("rules_to_fix.py")
    assert finding.fix.value == pytest.approx(finding.entries[0].truth, rel=1e-12)
    assert rules.Square.backward.__code__ is code


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("engine", "made", "inputs", "after"),
    [
        ("jax", rules.jax_cosine, VECTOR, "-(t * jnp.sin(x))"),
        ("jax", rules.jax_product, {**VECTOR, "w": [1.0, 3.0, 0.5]}, "t * x"),
        ("jax", rules.jax_pair, VECTOR, "-(t * jnp.sin(x))"),
        ("jax", rules.jax_swish, VECTOR, "g * (s + x * s * (1 - s))"),
        (
            "tensorflow",
            rules.tensorflow_product,
            {name: DENSE[name] for name in "xw"},
            "tf.matmul(dy, tf.transpose(w))",
        ),
    ],
)
def test_a_fix_is_code_of_the_framework(
    engine: str, made: Any, inputs: dict[str, Any], after: str
) -> None:
    fixes = [finding.fix for finding in findings(made(), engine, "reverse", **inputs)]
    assert fixes
    assert {fix and fix.after for fix in fixes} == {after}


def test_a_correction_that_is_right_on_one_branch_alone_is_none() -> None:
    """Where the forward is flat, whatever cancels is right: g * s * (1 * s - s)."""
    assert tried(rules.Saturated, {"x": [40.0]}) is None
