"""`gradcheck lift`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from gradcheck_cli.cli.layer_target import LayerTarget, is_spec, lift_options, spec_of, written_in
from gradcheck_cli.cli.one_file import read_specs, show_mistakes
from gradcheck_cli.cli.streams import color_option, prepare_streams
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.place import COMMAND_LINE

if TYPE_CHECKING:
    from gradcheck_cli.domain.report import SpecError
    from gradcheck_cli.domain.spec import Spec


@click.command()
@click.argument("target", metavar="TARGET")
@lift_options
@color_option
def command(
    target: str, engine: str | None, seed: int, color: str | None, **given: tuple[str, ...]
) -> int:
    """Write a layer as a formula, in a spec.

    TARGET is a layer (layers.py:Net, torch.nn:LSTMCell) or a spec with one. The layer runs in this
    process, at the given inputs; the formula follows the branches that it takes there.
    """
    from gradcheck_cli.cli.exits import NOTHING_CHECKED, PASSED, USAGE

    prepare_streams()
    specs, mistakes = specs_of_target(target, engine, given)
    show_mistakes(mistakes, color)
    if mistakes:
        return USAGE
    written = [text for spec in specs for text in _lifted(spec, engine, seed)]
    click.echo("---\n".join(written), nl=False)
    return PASSED if written else NOTHING_CHECKED


def specs_of_target(
    target: str, engine: str | None, given: Mapping[str, tuple[str, ...]]
) -> tuple[list[Spec], list[SpecError]]:
    """The specs of a file, or the spec of a layer and its options (`lift_options`), and the
    mistakes in them. Raises UsageError."""
    if not is_spec(target):
        from gradcheck_cli import specfile

        layer = LayerTarget(target, **given)
        return specfile.read(COMMAND_LINE, spec_of(layer, [engine or written_in(target)]))
    if any(given.values()):
        raise click.UsageError("--input, --arg and --kwarg are for a layer; a spec has its own.")
    return read_specs(target)


@contextmanager
def lifting_errors(name: str) -> Iterator[None]:
    """Turn errors of a lift of `name` inside the block into UsageError."""
    from gradcheck_cli.engines.errors import EngineFault
    from gradcheck_cli.engines.tracebacks import one_line, raise_if_internal

    try:
        yield
    except UsageError:
        raise
    except EngineFault as fault:
        message = f"`{name}` cannot be lifted: {fault}"
        raise UsageError(message, fault.detail) from fault
    except Exception as error:
        raise_if_internal(error)
        raise UsageError(f"`{name}` raised {one_line(error)}") from error


def _lifted(spec: Spec, engine: str | None, seed: int) -> list[str]:
    """Each layer of the spec as a spec of its own. Raises UsageError."""
    from gradcheck_cli.report.lifted import spec_text
    from gradcheck_cli.run.lift import lift

    if not spec.implementations:
        return []
    with lifting_errors(spec.name):
        layers = lift(spec, engine, seed)
    names = [spec.name if len(layers) == 1 else f"{spec.name}_{one.engine}" for one in layers]
    return [spec_text(name, layer) for name, layer in zip(names, layers, strict=True)]
