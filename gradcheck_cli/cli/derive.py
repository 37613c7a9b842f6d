"""`gradcheck derive`."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from gradcheck_cli.cli.one_file import no_formula, read_specs, show_mistakes
from gradcheck_cli.cli.option_types import Number
from gradcheck_cli.cli.streams import color_option, prepare_streams, style_for
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.errors import UsageError

if TYPE_CHECKING:
    from gradcheck_cli.domain.report import SpecError
    from gradcheck_cli.domain.spec import Spec
    from gradcheck_cli.report.style import Style

_BUDGET_S = 5.0  # about as long as a person waits without wondering


@click.command()
@click.argument("path", metavar="SPEC")
@click.option(
    "--format",
    "written",
    type=click.Choice(("text", "latex", "python")),
    default="text",
    help="How formulas are written; default: text.",
)
@click.option("--steps", is_flag=True, help="Show each step of the chain rule.")
@click.option(
    "--budget",
    type=Number(min=0),
    default=_BUDGET_S,
    metavar="SECONDS",
    help="Time limit of simplification; default: 5.",
)
@color_option
def command(path: str, written: str, steps: bool, budget: float, color: str | None) -> int:
    """Differentiate a spec's formula by computer algebra: value and derivatives as formulas.

    SPEC is a file, or - for standard input. Formulas need SymPy.
    """
    from gradcheck_cli.cli.exits import PASSED, USAGE

    prepare_streams()
    if find_spec("sympy") is None:
        raise UsageError("`gradcheck derive` needs SymPy", "pip install 'gradcheck-cli[symbolic]'")
    if steps and written == "python":
        raise click.UsageError("--steps shows equations, but --format python writes code.")
    style = style_for(sys.stdout, color)
    specs, mistakes = read_specs(path)
    for number, spec in enumerate(specs):
        if number and written != "python":
            click.echo()
        mistake = _derive(spec, written, steps, budget, style)
        mistakes += [mistake] if mistake else []
    show_mistakes(mistakes, color)
    return USAGE if mistakes else PASSED


def _derive(spec: Spec, written: str, steps: bool, budget: float, style: Style) -> SpecError | None:
    """Print the formulas of one spec. Returns the mistake if it has none."""
    from gradcheck_cli.domain.report import SpecError
    from gradcheck_cli.engines.errors import NodeFault
    from gradcheck_cli.engines.kit.walker import custom_gradients
    from gradcheck_cli.engines.symbolic.derive import TooHard, as_python, derivation, differentiated
    from gradcheck_cli.report.console import print_lines
    from gradcheck_cli.report.derivation import derivation_latex, derivation_lines
    from gradcheck_cli.truth.plain import inlined

    if spec.implementations:
        return no_formula(spec)
    program = inlined(spec.program)
    values = {name: entry.value for name, entry in spec.inputs.items()}
    try:
        formulas = differentiated(program, values, spec.wrt, spec.order, budget)
    except NodeFault as fault:
        span = program.nodes[fault.index].span
        return SpecError(
            Codes.UNSUPPORTED_OPERATION, spec.source.path, str(fault.__cause__), span, spec.source
        )
    except TooHard as error:
        return SpecError(
            Codes.UNSUPPORTED_OPERATION, spec.source.path, str(error), spec.span, spec.source
        )
    for rule in dict.fromkeys(custom.name for custom in custom_gradients(spec.program)):
        words = f"derivatives are those of `{rule}` itself, not of its custom gradient"
        click.echo(f"note: {spec.name}: {words}", err=True)
    if written == "python":
        click.echo(as_python(spec.name, formulas), nl=False)
        return None
    if written == "latex":
        derived = derivation(formulas, "latex", steps, budget)
        click.echo(derivation_latex(spec.name, derived), nl=False)
        return None
    derived = derivation(formulas, "text", steps, budget)
    print_lines(sys.stdout, style, derivation_lines(spec.name, derived, style))
    return None
