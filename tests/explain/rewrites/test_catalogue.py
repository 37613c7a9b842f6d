"""Every rule repairs something, and never changes what a formula is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Projection
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.program import CONSTANT, INPUT, Program
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.explain.algebra.building import ExprBuilder
from gradcheck_cli.explain.algebra.expressions import Expr, ExprPool, ShapeMismatch, ordered
from gradcheck_cli.explain.rewrites import CATALOGUE
from gradcheck_cli.explain.rewrites.rule import Rewrite, Site
from gradcheck_cli.truth import compute
from gradcheck_cli.truth.certified.enclose import certify, certify_output
from gradcheck_cli.truth.formulas.screening import Widened, failing_point, worst_error
from gradcheck_cli.truth.plain import PlainFunction
from tests.conftest import array, loaded, program_of
from tests.explain.rewrites.examples import EXAMPLES, Example

SPAN = Span(1, 1, 1, 1)


def rewritten(
    rule: Rewrite, program: Program, values: Mapping[str, Any], dtype: str
) -> Iterator[tuple[Program, list[bool]]]:
    """The program with the rule applied in each place, and whether its conditions hold there."""
    forest = ExprPool(program)
    shop = ExprBuilder(forest)
    numbers = PlainFunction(program, dtype).nodes(values)

    def at(expr: Expr) -> Any:
        return None if expr.origin is None else np.asarray(numbers[expr.origin])

    for expr in ordered(forest.output):
        if expr.op in (INPUT, CONSTANT):
            continue
        for proposal in rule.proposals(Site(shop, expr, FORMATS[dtype], at)):
            try:
                root = forest.replaced(forest.output, expr, proposal.new)
            except ShapeMismatch:
                continue
            holds = [_true(forest, condition, values, dtype) for condition in proposal.conditions]
            yield forest.to_program(root, SPAN), holds


def _true(forest: ExprPool, condition: Expr, values: Mapping[str, Any], dtype: str) -> bool:
    program = forest.to_program(condition, SPAN)
    return bool(np.all(PlainFunction(program, dtype).nodes(values)[program.output]))


def request_of(program: Program, example: Example, values: Mapping[str, Any]) -> TruthRequest:
    return TruthRequest(
        program=rounded(program, example.dtype),
        values=values,
        bounds=dict.fromkeys(values, (-np.inf, np.inf)),
        wrt=example.wrt or tuple(values),
        dtype=example.dtype,
        projections={"reverse": Projection()},
    )


def test_every_rule_has_an_example_and_no_other() -> None:
    assert [rule.text for rule in CATALOGUE] == list(dict.fromkeys(r.text for r in CATALOGUE))
    assert {rule.text for rule in CATALOGUE} == set(EXAMPLES)


@pytest.mark.parametrize("rule", CATALOGUE, ids=lambda rule: rule.text)
def test_a_formula_fails_and_the_rule_repairs_it(rule: Rewrite) -> None:
    example = EXAMPLES[rule.text]
    fmt = FORMATS[example.dtype]
    values = {name: fmt.round(array(value)) for name, value in example.values.items()}
    program = program_of(example.formula, values)
    request = request_of(program, example, values)
    point = failing_point(request, compute(request))
    engine = loaded(example.engine)
    assert worst_error(Widened(request), program, point, engine) is None
    errors = [
        worst_error(Widened(request), made, point, engine)
        for made, holds in rewritten(rule, program, values, example.dtype)
        if all(holds)
    ]
    assert any(error is not None for error in errors)


RANGES = ((0.2, 0.8), (1.2, 2.8), (-0.8, -0.2), (-2.8, -1.2), None)
"""Where numbers are drawn from, in turn; None: around those of the example."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("rule", CATALOGUE, ids=lambda rule: rule.text)
def test_both_sides_have_the_same_value_and_gradient(rule: Rewrite) -> None:
    """In exact arithmetic, at random points where the conditions hold. Both sides are analytic: if
    they differ, they differ nearly everywhere, and each range is tried again only where too few
    points could be compared."""
    example = replace(EXAMPLES[rule.text], dtype="float64")
    rng = np.random.default_rng(5)
    compared = 0
    for turn in range(3 * len(RANGES)):
        if turn % len(RANGES) == 0 and compared >= 2:
            break
        values = _drawn(example, RANGES[turn % len(RANGES)], rng)
        program = program_of(example.formula, values)
        one = _exact(program, example, values)
        if one is None:
            continue
        for made, holds in rewritten(rule, program, values, "float64"):
            other = _exact(made, example, values) if all(holds) else None
            if other is not None:
                for a, b in zip(one, other, strict=True):
                    # a constant of a rule is rounded to float64; a pi of the formula may amplify it
                    np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-13, err_msg=str(values))
                compared += 1
    assert compared >= 2


def _drawn(
    example: Example, span: tuple[float, float] | None, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Numbers in the shapes of the example; zeros that are not differentiated stay."""
    drawn = {}
    for name, value in example.values.items():
        shape = np.shape(value)
        if span is None:
            fresh = np.asarray(value) * rng.uniform(0.9, 1.1, shape)
        else:
            fresh = rng.uniform(*span, shape)
        if len(shape) == 2:
            fresh = fresh + np.diag([1.0, np.sign(float(np.asarray(value)[1, 1]))])
        still = example.wrt and name not in example.wrt
        drawn[name] = array(value) if still else fresh
    return drawn


def _exact(program: Program, example: Example, values: Mapping[str, Any]) -> list[Any] | None:
    """The value and the gradients, or None where they have none."""
    request = request_of(program, example, values)
    output, gradients = certify_output(request), certify(request)
    if not np.all(output.sure) or not all(np.all(c.sure) for c in gradients.values()):
        return None
    return [output.value, *(certificate.value for certificate in gradients.values())]
