"""The derivative along a direction, as a program of its own."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.truth.formulas.directional_program import directional
from gradcheck_cli.truth.plain import PlainFunction
from tests.conftest import program_of
from tests.every import every

FORMULAS = [
    "exp(x) * sin(y)",
    "x ** 3 + p ** x",
    "sum(gelu(x) * softplus(y) + erf(x * y))",
    "softmax(x) @ y",
    "sum(tanh(m @ x)) * sigmoid(y)",
    "sum(transpose(m) @ m @ x)",
    "logsumexp(x) + norm(y) + var(p)",
    "where(x > y, x * x, y) + maximum(x, 0.25) + clip(y, -0.5, 0.5)",
    "prod(p) * cumsum(x) + sort(y)",
    "lgamma(p) + digamma(p) + erfinv(x * 0.5)",
    "det(m[:, :2]) * inv(m[:, :2])[0, 1]",
    "concatenate([x, y])[1:5] * 0.1",
    (
        "def f_vjp(u, a):\n    return 0 * u\n"
        "@custom_gradient(f_vjp)\ndef f(a):\n    return a * a\nf(x)"
    ),
]
X = {
    "x": np.array([0.4, -1.1, 0.7]),
    "y": np.array([-0.3, 0.9, 1.2]),
    "p": np.array([0.6, 1.9, 1.1]),
    "m": np.array([[0.5, -0.8, 1.3], [1.1, 0.2, -0.6]]),
}
ALONG = {name: np.cos(np.arange(x.size) + x.size).reshape(x.shape) for name, x in X.items()}


def slope(formula: str) -> tuple[Array, Array]:
    """The derivative by its program, and a difference."""
    program = program_of(formula, X)
    found = directional(program, X, ALONG, "float64")
    inlined = directional(program, X, {}, "float64")
    assert not np.any(PlainFunction(inlined.program, "float64")({**X, **inlined.constants}))
    h = 2.0**-16
    there, back = ({n: x + s * h * ALONG[n] for n, x in X.items()} for s in (1, -1))
    plain = program_of(formula.replace("@custom_gradient(f_vjp)\n", ""), X)
    function = PlainFunction(plain, "float64")
    difference = (function(there) - function(back)) / (2 * h)
    return PlainFunction(found.program, "float64")({**X, **found.constants}), difference


def test_it_is_the_derivative() -> None:
    def compare(formula: str) -> None:
        mine, difference = slope(formula)
        np.testing.assert_allclose(mine, difference, rtol=1e-7, atol=1e-8)

    every(FORMULAS, compare)


def test_what_a_rule_multiplies_by_is_not_rounded() -> None:
    program = program_of("erf(x) * 0.1", {"x": X["x"]})
    found = directional(program, {"x": X["x"]}, {"x": np.ones(3)}, "float32")
    mine = PlainFunction(found.program, "float32")({"x": X["x"], **found.constants})
    tenth = float(np.float32(0.1))
    np.testing.assert_allclose(
        mine, tenth * 2 / np.sqrt(np.pi) * np.exp(-(X["x"] ** 2)), rtol=1e-14
    )


def test_nodes_stand_at_the_places_of_the_formula() -> None:
    program = program_of("sin(x) * y", X)
    found = directional(program, X, ALONG, "float64")
    places = {node.span for node in program.nodes}
    assert {node.span for node in found.program.nodes} <= places


@pytest.mark.parametrize("name", ["constant1", "constant2"])
def test_its_constants_have_names_of_their_own(name: str) -> None:
    values = {"x": X["x"], name: X["y"]}
    found = directional(
        program_of(f"erf(x) * {name}", values), values, {"x": ALONG["x"]}, "float64"
    )
    assert name not in found.constants
