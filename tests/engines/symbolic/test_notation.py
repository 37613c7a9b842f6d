"""Texts that one can read, and Python that runs."""

import numpy as np
import pytest
import sympy

from gradcheck_cli.engines.symbolic.functions import Floor, Largest, Size
from gradcheck_cli.engines.symbolic.notation import NOTATIONS, latex_name, python_code

x, y = sympy.symbols("x y", real=True)
BENT = sympy.Piecewise((x, x > 0), (-sympy.oo, True))


@pytest.mark.parametrize(
    ("expression", "text", "latex"),
    [
        (BENT, "(x if x > 0 else -inf)", r"\begin{cases} x & \text{for}\: x > 0 \\-\infty"),
        (Size(x) * Floor(y), "floor(y)*abs(x)", r"\left|{x}\right|"),
        (Largest(x, y), "max(x, y)", r"\max\left(x, y\right)"),
        (sympy.Symbol("W1[0, 2]") / 2, "W1[0, 2]/2", r"\frac{W_{1,0,2}}{2}"),
        (sympy.Symbol("loss") * y, "loss*y", r"\mathrm{loss} \, y"),
        (sympy.Abs(x) + sympy.digamma(y), "abs(x) + digamma(y)", r"\left|{x}\right|"),
        (sympy.polygamma(2, x), "polygamma(x, n=2)", r"\psi^{\left(2\right)}"),
        (
            sympy.Piecewise((1, sympy.Or(sympy.Eq(x, y), sympy.And(x > 0, y < 0))), (0, True)),
            "(1 if (x > 0 and y < 0) or x == y else 0)",
            r"x = y",
        ),
    ],
)
def test_as_text_and_as_latex(expression: sympy.Expr, text: str, latex: str) -> None:
    assert NOTATIONS["text"].expression(expression) == text
    assert latex in NOTATIONS["latex"].expression(expression)


def test_names_in_latex() -> None:
    assert [latex_name(name) for name in ("x", "t12", "loss", "b_1[3]", "my_w", "mu_1")] == [
        "x",
        "t_{12}",
        r"\mathrm{loss}",
        "b_{1,3}",
        r"\mathrm{my\_w}",
        r"\mu_{1}",
    ]


@pytest.mark.parametrize(
    "special", [sympy.Integer(0), sympy.besseli(0, x), sympy.polygamma(0, 1 - x)]
)
def test_python_runs_and_gives_the_numbers(special: sympy.Expr) -> None:
    w = sympy.Symbol("w[1]", real=True)
    output = np.array(sympy.sin(x) * w + Size(x) + special, dtype=object)
    slopes = {"x": np.array(sympy.diff(sympy.sin(x) * w, x), dtype=object)}
    code = python_code("name", ("x", "w"), output, slopes)
    assert ("mpmath" in code) == bool(special)
    names: dict = {}
    exec(code, names)
    expected = np.sin(-0.5) * 3 + 0.5 + float(special.subs(x, -0.5))
    assert float(names["value"](-0.5, [2.0, 3.0])) == pytest.approx(expected)
    assert float(names["gradient"](-0.5, [2.0, 3.0])["x"]) == pytest.approx(3 * np.cos(0.5))


def test_an_input_may_be_called_like_a_function() -> None:
    e = sympy.Symbol("exp", real=True)
    for special, module in ((sympy.Integer(1), "math"), (sympy.besseli(0, x), "mpmath")):
        code = python_code("name", ("exp", "x"), np.array(e * sympy.exp(x) * special), {})
        names: dict = {}
        exec(code, names)
        assert f"import {module}" in code
        expected = 2 * np.exp(0.5) * float(special.subs(x, 0.5))
        assert float(names["value"](2.0, 0.5)) == pytest.approx(expected)
