"""`gradcheck graph`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gradcheck_cli.cli.layer_target import lift_options
from gradcheck_cli.cli.lift import lifting_errors, specs_of_target
from gradcheck_cli.cli.one_file import show_mistakes
from gradcheck_cli.cli.streams import color_option, prepare_streams, style_for
from gradcheck_cli.domain.errors import UsageError

if TYPE_CHECKING:
    from gradcheck_cli.domain.graph import Graph


@click.command()
@click.argument("target", metavar="TARGET")
@click.option(
    "--format",
    "written",
    type=click.Choice(("text", "dot", "mermaid", "svg")),
    default="text",
    help="A tree in text (default), DOT for Graphviz, Mermaid, or an SVG picture.",
)
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
    written: str,
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
    with its inputs. The numbers come from the reference engine.
    """
    from gradcheck_cli.cli.exits import PASSED, USAGE
    from gradcheck_cli.run.lift import Numbers, graphs_of

    prepare_streams()
    specs, mistakes = specs_of_target(target, engine, given)
    numbers = Numbers(dtype, mode) if values else None  # type: ignore[arg-type]
    graphs: dict[str, Graph] = {}
    for spec in specs:
        with lifting_errors(spec.name):
            graphs |= graphs_of(spec, numbers, engine, seed)
    if len(graphs) > 1 and written == "svg":
        raise UsageError(
            f"{target} has {len(graphs)} graphs, but one file can hold only one picture"
        )
    for number, (name, graph) in enumerate(graphs.items()):
        if number:
            click.echo()
        _print(name, graph, written, color)
    show_mistakes(mistakes, color)
    return USAGE if mistakes else PASSED


def _print(name: str, graph: Graph, written: str, color: str | None) -> None:
    from gradcheck_cli.report import graph as texts

    if written == "text":
        from gradcheck_cli.report.console import print_lines

        style = style_for(sys.stdout, color)
        print_lines(sys.stdout, style, texts.graph_lines(name, graph, style))
    elif written == "svg":
        from gradcheck_cli.report.graph_svg import graph_file

        click.echo(graph_file(name, graph), nl=False)
    else:
        dot = written == "dot"
        click.echo(texts.graph_dot(name, graph) if dot else texts.graph_mermaid(graph), nl=False)
