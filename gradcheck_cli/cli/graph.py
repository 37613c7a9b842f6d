"""`gradcheck graph`."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from gradcheck_cli.cli.layer_target import lift_options
from gradcheck_cli.cli.lift import lifting_errors, specs_of_target
from gradcheck_cli.cli.one_file import show_mistakes
from gradcheck_cli.cli.pictures import picture_options, put_picture, refuse_several
from gradcheck_cli.cli.streams import color_option, prepare_streams, style_for

if TYPE_CHECKING:
    from gradcheck_cli.domain.graph import Graph


@click.command()
@click.argument("target", metavar="TARGET")
@picture_options("dot", "mermaid", "svg")
@click.option("--values", is_flag=True, help="Show values and cotangents at the first point.")
@click.option(
    "--dtype",
    type=click.Choice(("float16", "bfloat16", "float32", "float64")),
    default="float64",
    help="With --values: the dtype of the numbers; default: float64.",
)
@click.option(
    "--mode",
    type=click.Choice(("reverse", "forward")),
    default="reverse",
    help="With --values: cotangents of reverse mode (default) or tangents of forward mode.",
)
@lift_options
@color_option
def command(
    target: str,
    form: str | None,
    output: str | None,
    values: bool,
    dtype: str,
    mode: str,
    engine: str | None,
    seed: int,
    color: str | None,
    **given: tuple[str, ...],
) -> int:
    """Show the computation graph of a formula, or of a layer, which is lifted first.

    TARGET is a spec (a file, or - for standard input) or a layer (layers.py:Net, torch.nn:LSTMCell)
    with its inputs. The numbers come from the reference engine. The form dot is for Graphviz.
    """
    from gradcheck_cli.cli.exits import PASSED, USAGE
    from gradcheck_cli.report import graph as texts
    from gradcheck_cli.report.graph_svg import graph_file
    from gradcheck_cli.run.lift import Numbers, graphs_of

    prepare_streams()
    specs, mistakes = specs_of_target(target, engine, given)
    numbers = Numbers(dtype, mode) if values else None  # type: ignore[arg-type]
    graphs: dict[str, Graph] = {}
    for spec in specs:
        with lifting_errors(spec.name):
            graphs |= graphs_of(spec, numbers, engine, seed)
    refuse_several(len(graphs), f"{target} has {len(graphs)} graphs", form, output)
    style = style_for(sys.stdout, color)
    for number, (name, graph) in enumerate(graphs.items()):
        if number:
            click.echo()
        lines = texts.graph_lines(name, graph, style)
        drawn = {
            "dot": partial(texts.graph_dot, name, graph),
            "mermaid": partial(texts.graph_mermaid, graph),
            "svg": partial(graph_file, name, graph),
        }
        put_picture(lines, drawn, form, output, style, target)
    show_mistakes(mistakes, color)
    return USAGE if mistakes else PASSED
