"""`gradcheck curve`."""

from __future__ import annotations

import sys
from functools import partial

import click

from gradcheck_cli.cli.one_file import no_formula, read_specs, show_mistakes
from gradcheck_cli.cli.pictures import picture_options, put_picture, refuse_several
from gradcheck_cli.cli.streams import color_option, prepare_streams, style_for


@click.command()
@click.argument("path", metavar="SPEC")
@click.option(
    "--dtype",
    type=click.Choice(("float16", "bfloat16", "float32", "float64")),
    default="float64",
    help="The dtype of the differences; default: float64.",
)
@picture_options("svg")
@color_option
def command(path: str, dtype: str, form: str | None, output: str | None, color: str | None) -> int:
    """Plot the error of finite differences against their step, for a spec's formula.

    SPEC is a file, or - for standard input.
    """
    from gradcheck_cli.cli.exits import PASSED, USAGE
    from gradcheck_cli.report.curve import curve_lines, curve_svg
    from gradcheck_cli.run.curve import curve_of

    prepare_streams()
    specs, mistakes = read_specs(path)
    refuse_several(len(specs), f"{path} has {len(specs)} specs", form, output)
    style = style_for(sys.stdout, color)
    for number, spec in enumerate(specs):
        if spec.implementations:
            mistakes.append(no_formula(spec))
            continue
        curve = curve_of(spec, dtype)
        if number:
            click.echo()
        drawn = {"svg": partial(curve_svg, curve)}
        put_picture(curve_lines(curve, style), drawn, form, output, style, path)
    show_mistakes(mistakes, color)
    return USAGE if mistakes else PASSED
