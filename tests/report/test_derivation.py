"""Equations for the eye and for LaTeX."""

from gradcheck_cli.domain.derivation import Derivation, Equation, Section
from gradcheck_cli.report.derivation import derivation_latex, derivation_lines
from gradcheck_cli.report.style import Style

FOUND = Derivation(
    (
        Section("value", (Equation("y", "x**2"),)),
        Section("steps", (Equation("dy/dx", "2*x", "dy/dt * dt/dx"),), more=3, note="of the first"),
        Section("none", ()),
    )
)


def test_lines_of_text() -> None:
    lines = [line.plain for line in derivation_lines("square", FOUND, Style(width=80))]
    assert lines == [
        "square",
        "",
        "  value",
        "    y = x**2",
        "",
        "  steps",
        "    dy/dx = dy/dt * dt/dx = 2*x",
        "    … 3 more",
        "    of the first",
        "",
        "  none",
    ]


def test_long_equations_hang() -> None:
    lines = [line.plain for line in derivation_lines("square", FOUND, Style(width=32))]
    assert "    dy/dx = dy/dt * dt/dx =" in lines
    assert lines[lines.index("    dy/dx = dy/dt * dt/dx =") + 1] == "        2*x"


def test_latex_compiles_what_is_mathematics_and_comments_the_rest() -> None:
    text = derivation_latex("my\nspec", FOUND)
    mathematics = [line for line in text.splitlines() if not line.startswith("%")]
    assert mathematics == [
        r"\begin{align*}",
        "  y &= x**2",
        r"\end{align*}",
        r"\begin{align*}",
        r"  dy/dx &= dy/dt * dt/dx \\ &= 2*x",
        r"\end{align*}",
    ]
