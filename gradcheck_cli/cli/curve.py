"""`gradcheck curve`."""

from __future__ import annotations

import sys

import click

from gradcheck_cli.cli.one_file import no_formula, read_specs, show_mistakes
from gradcheck_cli.cli.outputs import Output, check_targets
from gradcheck_cli.cli.streams import color_option, prepare_streams, style_for
from gradcheck_cli.domain.errors import UsageError


@click.command()
@click.argument("path", metavar="SPEC")
@click.option(
    "--dtype",
    type=click.Choice(("float16", "bfloat16", "float32", "float64")),
    default="float64",
    help="The dtype of the differences; default: float64.",
)
@click.option(
    "--output", type=click.Path(dir_okay=False), help="Also write the plot as SVG to this file."
)
@color_option
def command(path: str, dtype: str, output: str | None, color: str | None) -> int:
    """Plot the error of finite differences against their step, for a spec's formula.

    SPEC is a file, or - for standard input.
    """
    from gradcheck_cli.cli.exits import PASSED, USAGE
    from gradcheck_cli.report.console import print_lines
    from gradcheck_cli.report.curve import curve_lines, curve_svg
    from gradcheck_cli.run.curve import curve_of

    prepare_streams()
    specs, mistakes = read_specs(path)
    if output is not None and len(specs) > 1:
        raise UsageError(f"{path} has {len(specs)} specs, but {output} can hold only one picture")
    style = style_for(sys.stdout, color)
    for number, spec in enumerate(specs):
        if spec.implementations:
            mistakes.append(no_formula(spec))
            continue
        curve = curve_of(spec, dtype)
        if number:
            click.echo()
        print_lines(sys.stdout, style, curve_lines(curve, style))
        if output is not None:
            with Output(output) as picture:
                check_targets([picture], [path])
                picture.put(curve_svg(curve))
    show_mistakes(mistakes)
    return USAGE if mistakes else PASSED
