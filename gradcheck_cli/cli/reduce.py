"""`gradcheck reduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradcheck_cli.cli.one_file import read_specs, show_mistakes
from gradcheck_cli.cli.option_types import Engines, Number
from gradcheck_cli.cli.streams import color_option, prepare_streams
from gradcheck_cli.domain.errors import UsageError

if TYPE_CHECKING:
    from gradcheck_cli.domain.implementation import Implementation
    from gradcheck_cli.run.reduce import Reduced


@click.command()
@click.argument("path", metavar="SPEC")
@click.option("--code", help="The code of the finding; default: the first error with numbers.")
@click.option("--engine", type=Engines(), help="The engine; default: all engines of a run.")
@click.option(
    "--repro",
    type=click.Path(dir_okay=False),
    help="Also write a script that reproduces the finding with the framework alone.",
)
@click.option(
    "--budget",
    type=Number(min=0),
    default=300.0,
    metavar="SECONDS",
    help="Time limit, after which the smallest spec found so far is printed; default: 300.",
)
@color_option
def command(
    path: str,
    code: str | None,
    engine: tuple[str, ...] | None,
    repro: str | None,
    budget: float,
    color: str | None,
) -> int:
    """Shrink the formula or layer of a finding, and print it as a spec.

    SPEC is a file with one formula or layer, or - for standard input. Operations, entries and
    digits are removed as long as the finding stays. A layer is reduced as its lifted formula; if
    that does not have the finding, only entries and digits are removed.
    """
    from gradcheck_cli.cli.exits import NOTHING_CHECKED, PASSED, USAGE
    from gradcheck_cli.domain.options import Layered, RunOptions
    from gradcheck_cli.run.reduce import reduce

    prepare_streams()
    specs, mistakes = read_specs(path)
    show_mistakes(mistakes, color)
    if mistakes:
        return USAGE
    if len(specs) != 1:
        raise UsageError(f"{path} has {len(specs)} specs, but `gradcheck reduce` takes one")
    reduced = reduce(specs[0], code, RunOptions(engines=Layered(override=engine)), budget)
    if reduced is None:
        click.echo(f"{path}: nothing to reduce: the spec has no such finding", err=True)
        return NOTHING_CHECKED
    click.echo(_spec(reduced), nl=False)
    if reduced.reason:
        click.echo(f"{path}: the operations of the layer stay: {reduced.reason}", err=True)
    if reduced.stopped:
        click.echo(f"{path}: stopped after {reduced.tried} tries; more may be removed", err=True)
    elif not reduced.is_smaller:
        click.echo(f"{path}: nothing could be removed without losing the finding", err=True)
    if repro is not None:
        _write(reduced, Path(repro))
    return PASSED


def _spec(reduced: Reduced) -> str:
    """The smallest formula or layer as a spec."""
    from gradcheck_cli.report.lifted import input_text

    finding, spec = reduced.finding, reduced.spec
    moves = {name: one.requires_grad for name, one in spec.inputs.items()}
    moves |= dict.fromkeys(spec.wrt, True)
    lines = [
        f"# {finding.code}{f' on {finding.engine}' if finding.engine else ''}: {finding.message}",
        f"name: {spec.name}",
        "inputs:",
        *(f"  {n}: {input_text(one.value, moves[n])}" for n, one in spec.inputs.items()),
    ]
    engine = finding.engine if reduced.is_alone else None
    if reduced.is_alone:
        lines += [f"dtypes: [{finding.dtype}]"] if finding.dtype else []
        lines += _modes(finding.mode) if finding.mode else []
    layers = [one for one in spec.implementations if engine in (one.engine, None)]
    if layers:
        lines += ["implementations:", *(f"  {one.engine}: {_layer(one)}" for one in layers)]
    else:
        lines += [f"engines: [{engine}]"] if engine else []
        lines += ["model: |", *(f"  {line}" for line in reduced.text.splitlines())]
    return "\n".join(lines) + "\n"


def _modes(mode: str) -> list[str]:
    """The keys of a spec that check one mode, or one composition."""
    from gradcheck_cli.domain.evaluation import modes_in

    modes = modes_in(mode)
    order = [f"order: {len(modes)}"] if len(modes) > 1 else []
    return [f"modes: [{', '.join(dict.fromkeys(modes))}]", *order]


def _layer(layer: Implementation) -> str:
    """A layer as a YAML value."""
    import json

    if not (layer.args or layer.kwargs):
        return layer.target
    return json.dumps({"target": layer.target, "args": layer.args, "kwargs": dict(layer.kwargs)})


def _write(reduced: Reduced, path: Path) -> None:
    """Write a script that shows the finding, if need be of the whole formula or layer. Raises
    UsageError if no script does."""
    from gradcheck_cli.cli.repro import NotShown, write
    from gradcheck_cli.report.repro.layer_code import NoScript

    shown, reason = "the finding", ""
    for finding, spec in filter(None, ((reduced.finding, reduced.spec), reduced.whole)):
        try:
            write(finding, spec, path, seed=0)
        except (NoScript, NotShown) as error:
            shown, reason = f"the finding before it was reduced ({error})", str(error)
        else:
            click.echo(f"{path}: the script ran and shows {shown}", err=True)
            return
    raise UsageError(f"no script shows {reduced.finding.code}: {reason}")
